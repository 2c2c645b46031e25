"""`reput delete`: delete the queues of a topic, or one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli.shared import opened as stores
from reput.cli.shared import options, output
from reput.texts import size_text

if TYPE_CHECKING:
    from reput.config import StoreConfig


@click.command()
@options.store_argument
@stores.topic_option(required=True)
@stores.queue_option()
@options.dry_run_option("deleted")
@options.config_options
@options.force_setting_option
@options.json_option
def delete(
    store: str,
    topic: str,
    queue_id: int | None,
    dry_run: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Delete the queues of a topic of STORE, or one of them, in files and in RocksDB.

    Stop the broker first. The command removes entries and numbers: new messages begin at 0. The log keeps the messages,
    and `reput query` still finds them by key. Groups keep their offsets: `reput progress` shows and changes them.

    The store remembers the deletion (reput/deleted): `reput check` does not miss the queues, and a rebuild leaves them
    out. `reput rebuild --topic` restores the queues of a topic, if no message was put to them since.

    \b
    reput delete /data/store -t orders --dry-run
    reput delete /data/store -t orders
    reput delete /data/store -t orders -q 2
    """  # noqa: D301 - click wants the control character
    if dry_run:
        return _show_dry_run(store, topic, queue_id, options.config_of(config_path, assignments), as_json)
    with stores.writing(store, options.config_of(config_path, assignments)) as opened:
        if queue_id is None:
            gone = opened.delete_topic(topic)
        else:
            gone = [queue_id] if opened.delete_queue(topic, queue_id) else []
        if not gone:
            # The error names the queues that exist.
            stores.queues_of(opened, topic, queue_id)
    with output.reporting("The deletion itself is done"):
        if as_json:
            output.emit_json({"ok": True, "topic": topic, "queues": gone})
        else:
            output.show(f"deleted {output.counted(len(gone), 'queue')} of topic {topic!r}: {', '.join(map(str, gone))}")
    return 0


def _show_dry_run(store: str, topic: str, queue_id: int | None, config: StoreConfig, as_json: bool) -> int:
    """Show what a deletion would remove; change nothing."""
    from reput.store.owner.dry_deletion import dry_delete

    found = dry_delete(store, config, topic, queue_id)
    if as_json:
        output.emit_json({"ok": True, "dry_run": True, **found.to_dict()})
        return 0
    counted = output.counted
    ids = ", ".join(map(str, found.queues))
    entries = counted(found.entries, "entry", "entries")
    output.show(f"would delete {counted(len(found.queues), 'queue')} of topic {topic!r}, {entries}: {ids}")
    for one in found.removed:
        folder = output.in_one_line(str(one.folder))
        output.show(f"would remove {folder}: {counted(one.files, 'file')}, {size_text(one.bytes)}")
    output.say("dry run: nothing was changed")
    return 0
