"""`reput info`: what a store holds, and what is missing or behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from reput.cli import options, output
from reput.formats.queue_kinds import KINDS_IN_WORDS

if TYPE_CHECKING:
    from reput.store.info_values import LogInfo, StoreInfo, TopicInfo

_TOPICS_SHOWN = 40
_INDEX_FILES_SHOWN = 20
_LINES_SHOWN = 20


@click.command()
@options.store_argument
@click.option("-t", "--topic", "topics", multiple=True, help="List the queues of this topic. May be given again.")
@options.config_options
@options.json_option
def info(
    store: str, topics: tuple[str, ...], config_path: str | None, assignments: tuple[str, ...], as_json: bool
) -> int:
    """Tell what STORE holds, and what is missing or behind.

    Reads names, headers and ends of files only, so it is quick whatever the store's size. Nothing is changed, and a
    broker may have the store open. Exit code 1 when something is damaged, 0 when it is only missing or behind.

    \b
    reput info /data/store
    reput info /data/store -t orders
    reput info /data/store --json
    """  # noqa: D301 - click wants the control character
    from reput.errors import ConfigError
    from reput.store.info import store_info

    found = store_info(store, options.config_of(config_path, assignments, store))
    for name in topics:
        if name not in {topic.topic for topic in found.topics}:
            known = ", ".join(topic.topic for topic in found.topics[:_TOPICS_SHOWN]) or "none"
            raise ConfigError(f"{found.store}: no topic {name} in consumequeue. There are: {known}")
    if topics:
        others = [topic for topic in found.topics if topic.topic not in topics]
        found.topics = [topic for topic in found.topics if topic.topic in topics]
        # Those of RocksDB are no topic's own, and stay.
        found.queue_bytes -= sum(queue.bytes for topic in others for queue in topic.queues)
    if as_json:
        output.emit_json({"ok": not found.damage, **found.to_dict()})
    else:
        show_info(found, with_queues=bool(topics))
    return 1 if found.damage else 0


def show_info(found: StoreInfo, with_queues: bool) -> None:
    """A store as text: what it holds on stdout, what is wrong with it on stderr."""
    for line in _lines(found):
        output.show(line)
    if with_queues:
        _show_queues(found)
    else:
        _show_topics(found)
    _show_index_files(found)
    _notes("unsupported", found.unsupported)
    _notes("note", found.notes)
    _notes("behind", found.behind)
    _notes("damage", found.damage)


def _lines(found: StoreInfo) -> Iterator[str]:
    yield f"store       {found.store}"
    yield from _log_lines(found.log)
    yield (
        f"queues      {found.queues:,} in {output.counted(len(found.topics), 'topic')}, "
        f"{output.counted(found.queue_entries, 'entry', 'entries')}, "
        f"{output.size_text(found.queue_bytes)}"
        f"{f', {KINDS_IN_WORDS[tuple(found.queue_kinds)]}' if tuple(found.queue_kinds) in KINDS_IN_WORDS else ''}"
    )
    if found.ext_files:
        yield f"ext         {output.counted(found.ext_files, 'file')}, {output.size_text(found.ext_bytes)}"
    yield (
        f"index       {output.counted(len(found.index_files), 'IndexFile')}, "
        f"{output.counted(found.index_items, 'item')}, "
        f"{output.size_text(sum(file.bytes for file in found.index_files))}"
    )
    if found.checkpoint is not None:
        for name, value in found.checkpoint.items():
            told = output.time_text(value) if name.endswith("timestamp") and value else str(value)
            yield f"checkpoint  {name} {told}"
    running = {True: "running", False: "not running", None: "unknown (no right to ask for its lock)"}
    abort = "present: not closed cleanly" if found.abort else "absent"
    yield f"broker      {running[found.broker_running]}; abort {abort}"
    yield f"reput       {_own_text(found)}"


def _log_lines(log: LogInfo) -> Iterator[str]:
    at_least = "" if log.max_is_exact else "at least "
    sizes = f"{output.size_text(log.file_size)}, {output.size_text(log.bytes)}"
    yield f"log         {output.counted(log.files, 'file')} of {sizes}"
    yield f"offsets     {log.min_offset} to {at_least}{log.max_offset}, end {log.tail}"
    if log.first_store_timestamp is not None and log.last_store_timestamp is not None:
        yield (
            f"stored      {output.time_text(log.first_store_timestamp)} to "
            f"{at_least}{output.time_text(log.last_store_timestamp)}"
        )


def _own_text(found: StoreInfo) -> str:
    own = found.own
    told = []
    if own.epoch is not None:
        told.append(f"epoch {own.epoch}")
    if own.frontier is not None:
        told.append(f"frontier queues {own.frontier['queue_offset']}, index {own.frontier['index_offset']}")
    if own.pending_swap:
        told.append("a swap to finish")
    if own.at_work:
        told.append(f"open for messages in process {own.writer}" if own.writer else "a job is at work")
    if own.leftovers:
        told.append(f"left over: {', '.join(own.leftovers)}")
    if own.resumable:
        told.append(
            f"{own.resumable} is a conversion that was killed: the same `reput convert` goes on with it, any other "
            "command that changes the store removes it"
        )
    return "; ".join(told) or "no state of its own here"


def _show_topics(found: StoreInfo) -> None:
    rows = [
        (
            _name(topic),
            len(topic.queues),
            topic.entries,
            min(queue.min_offset for queue in topic.queues),
            max(queue.max_offset for queue in topic.queues),
        )
        for topic in found.topics[:_TOPICS_SHOWN]
    ]
    output.show_table("Topics", ("topic", "queues", "entries", "min offset", "max offset"), rows)
    if len(found.topics) > _TOPICS_SHOWN:
        output.show(f"... and {len(found.topics) - _TOPICS_SHOWN} more topics (--json lists them all)")


def _show_queues(found: StoreInfo) -> None:
    rows = [
        (_name(topic), queue.queue_id, queue.entries, queue.min_offset, queue.max_offset, queue.files)
        for topic in found.topics
        for queue in topic.queues
    ]
    output.show_table("Queues", ("topic", "queue", "entries", "min offset", "max offset", "files"), rows)


def _show_index_files(found: StoreInfo) -> None:
    rows = [
        (
            file.name,
            file.items,
            # Seconds will do, so that names are not cut on a narrow terminal; --json has all.
            output.time_text(file.begin_timestamp).split(".")[0],
            output.time_text(file.end_timestamp).split(".")[0],
        )
        for file in found.index_files[-_INDEX_FILES_SHOWN:]
    ]
    output.show_table("IndexFiles", ("file", "items", "from", "to"), rows)
    if len(found.index_files) > _INDEX_FILES_SHOWN:
        output.show(f"... and {len(found.index_files) - _INDEX_FILES_SHOWN} older IndexFiles (--json lists them all)")


def _name(topic: TopicInfo) -> str:
    from reput.formats.queue_types import BATCH

    name = output.name_in_table(topic.topic)
    return f"{name} (batches)" if topic.type == BATCH else name


def _notes(kind: str, lines: list[str]) -> None:
    for line in lines[:_LINES_SHOWN]:
        output.say(f"{kind}: {line}")
    if len(lines) > _LINES_SHOWN:
        output.say(f"{kind}: ... and {len(lines) - _LINES_SHOWN} more (--json lists them all)")
