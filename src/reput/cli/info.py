"""`reput info`: the contents of a store, and what is missing or out of date."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from reput.cli.shared import options, output
from reput.formats.queue.queue_kinds import KINDS_IN_WORDS
from reput.formats.stored_text import shown_text
from reput.texts import size_text, time_text

if TYPE_CHECKING:
    from reput.store.disk.store import StoreOnDisk
    from reput.store.info.values import LogInfo, StoreInfo, TopicInfo
    from reput.store.metadata.state import SourceState

_Cell = TypeVar("_Cell")
_MOST_TOPICS = 2000
_INDEX_FILES_SHOWN = 20


@click.command()
@options.store_argument
@click.option("-t", "--topic", "topics", multiple=True, help="List the queues of this topic. May be given again.")
@click.option(
    "--all",
    "read_all",
    is_flag=True,
    help=f"Read the queues of all topics, even if there are more than {_MOST_TOPICS:,}.",
)
@options.config_options
@options.json_option
def info(
    store: str,
    topics: tuple[str, ...],
    read_all: bool,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show what STORE holds, and what is missing or out of date.

    The command reads only names, headers and ends of files, so it is quick for a store of any size. It changes nothing.
    A program, a follower or a broker may have the store open: the command names it, and does not judge what it is
    writing. The exit code is 1 if something is damaged, and 0 if it is only missing or out of date.

    If a store has very many topics, the text gives their number, and reads only the queues of the topics that -t
    names. JSON always has all queues.

    \b
    reput info /data/store
    reput info /data/store -t orders
    reput info /data/store --json
    """  # noqa: D301 - click wants the control character
    from reput.cli.shared.opened import no_messages_yet
    from reput.errors import ConfigError
    from reput.nearest import unknown_topic
    from reput.store.disk.purpose import Purpose
    from reput.store.disk.store import StoreOnDisk
    from reput.store.info.info import store_info

    most_topics = None if read_all or as_json else _MOST_TOPICS
    config = options.config_of(config_path, assignments)
    found = store_info(store, config, topics=topics, most_topics=most_topics)
    if without := [name for name in topics if name not in {topic.topic for topic in found.topics}]:
        on_disk = StoreOnDisk.find(store, config, Purpose.LOOK)
        for name in without:
            if on_disk.unreadable:
                # The topic may be among the queues that cannot be read: the damage says more than its absence.
                output.say(f"note: no queue that can be read is of topic {output.printable(name)}")
                continue
            if name not in on_disk.topics.topics:
                raise ConfigError(unknown_topic(found.store, name, _known_topics(on_disk, found)))
            output.say(f"note: {no_messages_yet(name)}")
    if topics:
        others = [topic for topic in found.topics if topic.topic not in topics]
        found.topics = [topic for topic in found.topics if topic.topic in topics]
        # The bytes of RocksDB belong to no single topic, and stay.
        found.queue_bytes -= sum(queue.bytes for topic in others for queue in topic.queues)
    if as_json:
        output.emit_json({"ok": not found.damage, **found.to_dict()})
    else:
        show_info(found, with_queues=bool(topics))
    return 1 if found.damage else 0


def _known_topics(store: StoreOnDisk, found: StoreInfo) -> list[str]:
    """Return the topics of a store, including those whose queues were not read."""
    known = {topic.topic for topic in found.topics}
    if found.unread_topics:
        known.update(shown_text(name) for name in store.reading.topics())
    return sorted(known)


def show_info(found: StoreInfo, with_queues: bool) -> None:
    """Show a store as text: its contents on stdout, its faults on stderr."""
    for line in _lines(found):
        output.show(line)
    if with_queues:
        _show_queues(found)
    else:
        _show_topics(found)
    _show_index_files(found)
    output.say_lines("note", found.notes)
    output.say_lines("out of date", found.out_of_date)
    output.say_lines("damage", found.damage)


def _lines(found: StoreInfo) -> Iterator[str]:
    yield f"store       {found.store}"
    yield from _log_lines(found.log)
    if found.unread_topics:
        yield f"topics      {found.unread_topics:,} with unread queues: --all reads all, -t those of a topic"
    yield (
        f"queues      {found.queues:,} in {output.counted(len(found.topics), 'topic')}, "
        f"{output.counted(found.queue_entries, 'entry', 'entries')} "
        f"for {output.counted(found.queue_messages - sum(_waiting(topic) for topic in found.topics), 'message')}, "
        f"{size_text(found.queue_bytes)}"
        f"{_queues_place(found)}"
    )
    if found.placement:
        yield f"placed      {', '.join(found.placement)}"
    if found.ext_files:
        yield f"ext         {output.counted(found.ext_files, 'file')}, {size_text(found.ext_bytes)}"
    yield (
        f"index       {output.counted(len(found.index_files), 'IndexFile')}, "
        f"{output.counted(found.index_items, 'item')}, "
        f"{size_text(sum(file.bytes for file in found.index_files))}"
    )
    if (database := found.index_database) is not None:
        reaches = "damaged, see below"
        if database.last_physical_offset is not None and database.last_store_timestamp is not None:
            stored = time_text(database.last_store_timestamp)
            reaches = f"up to the record at log offset {database.last_physical_offset}, stored {stored}"
        yield f"index       in RocksDB, {reaches}"
    if found.checkpoint is not None:
        for name, value in found.checkpoint.items():
            text = time_text(value) if name.endswith("timestamp") and value else str(value)
            yield f"checkpoint  {name} {text}"
    yield from _metadata_lines(found)
    yield from _use_lines(found)
    yield f"reput       {_own_text(found)}"


def _queues_place(found: StoreInfo) -> str:
    """Return where the queues are, unless they are in files only."""
    words = KINDS_IN_WORDS.get(tuple(found.queue_kinds))
    return f", {words} ({', '.join(dict.fromkeys(found.queue_folders.values()))})" if words else ""


def _metadata_lines(found: StoreInfo) -> Iterator[str]:
    """Yield where topics, groups and offsets are, unless all is in JSON as with most brokers."""
    from reput.store.metadata.tables import absence

    if found.metadata.is_plain:
        return
    for table, place in found.metadata.absent.items():
        yield f"metadata    no {table}: {os.path.relpath(place, found.store)} {absence(Path(place))}"
    for table, places in found.metadata.tables.items():
        for one in places:
            what = table
            if one.entries is not None:
                pairs = f"{table} of {output.counted(one.entries, 'pair')} of topic and group"
                what = pairs if table == "offsets" else f"{one.entries:,} {table}"
            version = f", data version {one.version['counter']}" if one.version else ""
            place = os.path.relpath(one.place, found.store)
            held = ", held by another process: read as far as that has flushed" if one.is_held else ""
            counts = _what_counts(one)
            yield (
                f"metadata    {what} in {place} ({one.words}), written {time_text(one.written_ms)}"
                f"{version}{held}{counts}"
            )


def _what_counts(one: SourceState) -> str:
    if not one.counts:
        return "; does not count"
    if one.entries is None or one.counting_entries == one.entries:
        return "; a broker takes these in at its start" if one.is_taken_in else ""
    return f"; {one.counting_entries or 0:,} of these count{', which a broker takes in at its start' * one.is_taken_in}"


def _use_lines(found: StoreInfo) -> Iterator[str]:
    from reput.store.owner.holders import Holder, Who

    if found.broker_running is None:
        yield "held by     unknown (no right to ask for RocketMQ's lock)"
    else:
        beside = f"; a follower, process {found.follower_pid}, builds the indexes" if found.follower_pid else ""
        holder = Holder(Who(found.held_by), found.held_by_pid, found.held_by_server)
        yield f"held by     {holder.text}{beside}"
    if found.confirmed_offset is not None:
        at_least = "" if found.waiting_is_exact else "at least "
        extent = "confirmed up to" if found.held_by == Who.WRITER else "the queues refer to records up to"
        waiting = output.counted(found.waiting_messages, "message waits", "messages wait")
        yield f"in use      {extent} {found.confirmed_offset}; {at_least}{waiting} for index entries"
    abort = "absent" if not found.abort else "present: not closed cleanly"
    if found.abort and found.held_by != Who.NOBODY:
        abort = "present, as it is while a store is open"
    yield f"abort       {abort}"


def _waiting(topic: TopicInfo) -> int:
    return sum(queue.waiting for queue in topic.queues)


def _log_lines(log: LogInfo) -> Iterator[str]:
    at_least = "" if log.max_is_exact else "at least "
    sizes = f"{size_text(log.file_size)}, {size_text(log.bytes)}"
    yield f"log         {output.counted(log.files, 'file')} of {sizes}"
    yield f"offsets     {log.min_offset} to {at_least}{log.max_offset}, end {log.tail}"
    if log.first_store_timestamp is not None and log.last_store_timestamp is not None:
        yield (f"stored      {time_text(log.first_store_timestamp)} to {at_least}{time_text(log.last_store_timestamp)}")


def _own_text(found: StoreInfo) -> str:
    own = found.own
    texts = []
    if own.epoch is not None:
        texts.append(f"epoch {own.epoch}")
    if own.frontier is not None:
        texts.append(f"frontier queues {own.frontier['queue_offset']}, index {own.frontier['index_offset']}")
    if own.pending_swap:
        texts.append("a swap to finish")
    if own.leftovers:
        texts.append(f"left over: {', '.join(own.leftovers)}")
    return "; ".join(texts) or "no state of its own here"


def _show_topics(found: StoreInfo) -> None:
    rows = [
        (
            _name(topic),
            len(topic.queues),
            topic.entries,
            _waiting(topic),
            min((queue.min_offset for queue in topic.queues), default=0),
            max((queue.max_offset for queue in topic.queues), default=0),
        )
        for topic in found.topics[: output.TOPICS_SHOWN]
    ]
    columns = ("topic", "queues", "entries", "waiting", "min offset", "max offset")
    _show_without_zeros("Topics", columns, rows)
    output.show_rest(len(found.topics) - output.TOPICS_SHOWN, "more topics")


def _show_queues(found: StoreInfo) -> None:
    rows = [
        (_name(topic), queue.queue_id, queue.entries, queue.waiting, queue.min_offset, queue.max_offset, queue.files)
        for topic in found.topics
        for queue in topic.queues
    ]
    columns = ("topic", "queue", "entries", "waiting", "min offset", "max offset", "files")
    _show_without_zeros("Queues", columns, rows)


def _show_without_zeros(title: str, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    """Show a table; leave out the column of messages that wait for entries if it has only zeros."""
    at = columns.index("waiting")
    if not any(row[at] for row in rows):
        columns, rows = _without(columns, at), [_without(row, at) for row in rows]
    output.show_table(title, columns, rows)


def _without(row: tuple[_Cell, ...], at: int) -> tuple[_Cell, ...]:
    return row[:at] + row[at + 1 :]


def _show_index_files(found: StoreInfo) -> None:
    rows = [
        (
            file.name,
            file.items,
            *(output.or_dash(time, _seconds) for time in (file.begin_timestamp, file.end_timestamp)),
        )
        for file in found.index_files[-_INDEX_FILES_SHOWN:]
    ]
    output.show_table("IndexFiles", ("file", "items", "from", "to"), rows)
    output.show_rest(len(found.index_files) - _INDEX_FILES_SHOWN, "older IndexFiles")


def _seconds(timestamp_ms: int) -> str:
    """Return a time without its fraction, which leaves room for names on a narrow terminal; --json has all."""
    return time_text(timestamp_ms).split(".")[0]


def _name(topic: TopicInfo) -> str:
    from reput.formats.queue.queue_types import BATCH

    name = output.name_in_table(topic.topic)
    return f"{name} (batches)" if topic.type == BATCH else name
