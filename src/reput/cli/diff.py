"""`reput diff`: compare the queues of two kinds, or of two stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.cli.shared import options, output
from reput.cli.shared.parts import head

if TYPE_CHECKING:
    from reput.store.compare.queue_diff import QueueDifference


@click.command()
@options.store_argument
@click.argument("other", required=False, type=options.StorePath())
@options.config_options
@options.json_option
def diff(store: str, other: str | None, config_path: str | None, assignments: tuple[str, ...], as_json: bool) -> int:
    """Compare the queue files of STORE with its RocksDB, or its queues with those of OTHER.

    Each line is one difference, by topic and queue: topic/queue, the kind of difference, and the values of both sides.
    A value is an offset, or an entry: log offset, size and tags code. The exit code is 1 if there is any difference.
    The command changes nothing. `reput check` shows which side is right. If a process holds a store, a note names it
    and gives the number of messages that are in no queue yet.

    \b
    reput diff /data/store
    reput diff /data/store /backup/store --json
    """  # noqa: D301 - click wants the control character
    from reput.store.compare.diff import diff_sides, differences, holder_notes

    config = options.config_of(config_path, assignments, store)
    left, right = diff_sides(store, other, config)
    notes = holder_notes((left, right), config)
    count = 0
    try:
        for one in differences(left, right):
            if not count:
                head(as_json, ("topic/queue", "what", str(left), str(right)))
            count += 1
            if as_json:
                output.emit_json({"difference": _values(one)})
            else:
                output.show("\t".join(_cells(one)))
        output.flush()
    except BrokenPipeError:
        # The reader of the output has seen enough, and there is a difference.
        output.silence_stdout()
        return 1
    if as_json:
        output.emit_json(
            {"ok": not count, "left": str(left), "right": str(right), "differences": count, "notes": notes}
        )
    else:
        for note in notes:
            output.say(f"note: {note}")
        output.say(f"{left} and {right}: {output.counted(count, 'difference') if count else 'no difference'}")
    return 1 if count else 0


def _values(one: QueueDifference) -> dict[str, object]:
    return {
        **one._asdict(),
        "left": one.left._asdict() if one.left else None,
        "right": one.right._asdict() if one.right else None,
    }


def _cells(one: QueueDifference) -> tuple[str, ...]:
    queue = f"{one.topic}/{one.queue_id}"
    if one.what != "entries":
        return queue, f"{one.what} offset", str(one.begin), str(one.end)
    entries = str(one.begin) if one.end == one.begin + 1 else f"{one.begin} to {one.end - 1}"
    sides = (" ".join(map(str, entry)) if entry else "-" for entry in (one.left, one.right))
    return queue, f"entries {entries}", *sides
