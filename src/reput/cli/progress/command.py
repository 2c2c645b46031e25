"""`reput progress`: show how far each group has read, and its lag. `reput.cli.progress.changes` has the changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reput import times
from reput.cli.shared import opened as stores
from reput.cli.shared import options, output
from reput.texts import time_text

if TYPE_CHECKING:
    from reput.cli.progress.changes import Change
    from reput.embedded import MessageStore
    from reput.store.read.view import StoreQueue


class QueueLag(NamedTuple):
    """The lag of a group in a queue; times in ms, None for unknown values.

    `offset` is the next message to read. `lag` counts the present messages that are not read; `lag_ms` is the time from
    the next message to the queue's last. `expired` counts the messages that were deleted before the group read them.
    """

    group: str
    topic: str
    queue_id: int
    min_offset: int | None
    max_offset: int | None
    offset: int | None
    lag: int | None
    lag_ms: int | None
    next_store_timestamp: int | None
    last_store_timestamp: int | None
    expired: int


@click.command()
@options.store_argument
@click.option("-g", "--group", help="Only this consumer group.")
@stores.topic_option("Only this topic.")
@stores.queue_option()
@click.option("--commit", type=options.WholeNumber(0), metavar="OFFSET", help="Set the group's offset in -t and -q.")
@click.option(
    "--reset-to", metavar="WHERE", help="Set the offset to earliest, latest, OFFSET (with -q), a date or @MS."
)
@click.option(
    "--clone", nargs=2, metavar="FROM TO", help="Copy the offsets of group FROM to group TO, in all topics or in -t."
)
@click.option("--clean-group", metavar="GROUP", help="Remove all offsets of a group.")
@click.option("--clean-topic", metavar="TOPIC", help="Remove the offsets of all groups in a topic.")
@options.config_options
@options.force_setting_option
@options.json_option
def progress(
    store: str,
    group: str | None,
    topic: str | None,
    queue_id: int | None,
    commit: int | None,
    reset_to: str | None,
    clone: tuple[str, str] | None,
    clean_group: str | None,
    clean_topic: str | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show how far the groups of STORE have read, and their lag in messages and in time.

    The lag in time is from the next message that the group reads to the queue's last message. The offsets are those
    that the broker keeps, in config/consumerOffset.json or in RocksDB, and writes every 5 seconds. Showing changes
    nothing. `reput info` says where a broker keeps them; a note says so here if that is RocksDB.

    --commit, --reset-to, --clone, --clean-group and --clean-topic change offsets instead, and show the changes. Stop
    the broker first: a change writes the store.

    \b
    reput progress /data/store -g billing
    reput progress /data/store -t orders --json
    reput progress /data/store -g billing -t orders -q 2 --commit 1000
    reput progress /data/store -g billing -t orders --reset-to 2026-07-30T18:00:00
    reput progress /data/store --clone billing audit -t orders
    """  # noqa: D301 - click wants the control character
    from reput.cli.progress.changes import ProgressOptions, change, what_is_asked

    asked = what_is_asked(ProgressOptions(group, topic, queue_id, commit, reset_to, clone, clean_group, clean_topic))
    config = options.config_of(config_path, assignments, store)
    if asked is not None:
        with stores.writing(store, config, with_progress=True) as opened:
            made = _what_is_made(opened)
            changes = change(opened, asked)
            output.say_lines("note", made)
            wrong = opened.progress.damage
        _show_changes(changes, wrong, as_json)
        return 1 if wrong else 0
    with stores.reading(store, config, with_progress=True) as opened:
        damage: dict[str, str] = {}
        lags = lags_of(opened, group, topic, queue_id, damage)
        now_ms = times.now_ms()
        _say_source(opened)
    if as_json:
        output.emit_json({**stores.verdict(opened, damage.values()), "now": now_ms, "groups": _groups(lags)})
    else:
        _show(lags, now_ms)
    _say_oddities([lag for lag in lags if lag.topic not in damage])
    _say_unreadable(damage, opened)
    return 1 if damage else stores.damage_code(opened)


def _say_source(opened: MessageStore) -> None:
    """Say where the offsets are and how old they are, unless they are in JSON as with most brokers."""
    from reput.store.metadata.tables import Table

    metadata = opened.metadata_homes.metadata
    source = metadata.source(Table.OFFSETS)
    if absent := _absent(opened):
        output.say(f"note: {absent}")
    elif metadata.parts(Table.OFFSETS)[-1].source.is_database:
        held = "; another process has it open, so they are read as far as that has flushed"
        output.say(
            f"note: offsets of {source.place(Table.OFFSETS)}, written "
            f"{time_text(source.written_ms(Table.OFFSETS))}{held if source.is_held(Table.OFFSETS) else ''}"
        )


def _what_is_made(opened: MessageStore) -> list[str]:
    """Return a note on the file or database of offsets that a change makes; none if it goes to the one that is there.

    A broker may look in another place than the first offsets go to: it takes them in from there at its start.
    """
    from reput.store.metadata.tables import Table

    absent, made = _absent(opened), opened.metadata_homes.home(Table.OFFSETS).place
    metadata = opened.metadata_homes.metadata
    taken_in = "" if made == metadata.wanted(Table.OFFSETS) else ", which a broker takes in at its start"
    if absent:
        return [f"{absent}, and the change makes {made}{taken_in}"]
    return [] if made == metadata.place(Table.OFFSETS) else [f"the change makes {made}{taken_in}"]


def _absent(opened: MessageStore) -> str:
    """Return a sentence about a store that has no committed offsets anywhere; "" if it has some."""
    from reput.store.metadata.tables import Table, absence

    source = opened.metadata_homes.metadata.source(Table.OFFSETS)
    if source.is_present(Table.OFFSETS):
        return ""
    place = source.place(Table.OFFSETS)
    return f"the store has no file or database of committed offsets: {place} {absence(place)}"


# --- what there is --------------------------------------------------------------------------------


def lags_of(
    opened: MessageStore, group: str | None, topic: str | None, queue_id: int | None, damage: dict[str, str]
) -> list[QueueLag]:
    """Return the lag in each queue, by group and topic, also for queues in which a group has no offset yet.

    `damage` gets the topics whose queues cannot be read, each with why: their rows have committed offsets alone.

    Raises:
        ConfigError: There is no such group, topic or queue.
    """
    names = stores.groups_of(opened, group)
    found = []
    for name in names:
        asked = [] if topic is None or not opened.progress.has(name, topic) else [topic]
        for read in opened.progress.topics_of(name) if topic is None else asked:
            found += [
                lag for lag in _lags_in(opened, name, read, damage) if queue_id is None or lag.queue_id == queue_id
            ]
    if not found:
        if topic is not None:
            stores.queues_of(opened, topic, queue_id)
        output.say("note: no group has progress here" if names else "note: no group has any progress in this store")
    return found


def _lags_in(opened: MessageStore, group: str, topic: str, damage: dict[str, str]) -> list[QueueLag]:
    from reput.errors import DamagedStoreError

    committed = opened.progress.query_all(group, topic)
    try:
        queues = {info.queue_id: info for info in opened.queues(topic)}
        return [
            _lag(opened, group, topic, number, queues.get(number), committed.get(number))
            for number in sorted({*committed, *queues})
        ]
    except DamagedStoreError as error:
        damage[topic] = str(error)
        return [_lag(opened, group, topic, number, None, committed[number]) for number in sorted(committed)]


def _lag(
    opened: MessageStore, group: str, topic: str, queue_id: int, span: StoreQueue | None, offset: int | None
) -> QueueLag:
    if span is None:
        return QueueLag(group, topic, queue_id, None, None, offset, None, None, None, None, 0)
    first, end = span.min_offset, span.max_offset
    last_ms = stores.stored_ms(opened, span, end - 1)
    if offset is None:
        return QueueLag(group, topic, queue_id, first, end, None, None, None, None, last_ms, 0)
    begin = max(offset, first)
    lag = max(0, end - begin)
    next_ms = stores.stored_ms(opened, span, begin) if lag else None
    lag_ms = 0 if not lag else None if next_ms is None or last_ms is None else last_ms - next_ms
    return QueueLag(
        group, topic, queue_id, first, end, offset, lag, lag_ms, next_ms, last_ms, max(0, min(first, end) - offset)
    )


def _groups(lags: Sequence[QueueLag]) -> list[dict[str, Any]]:
    """Return the lags by group with their totals, for JSON."""
    found = []
    for group in dict.fromkeys(lag.group for lag in lags):
        queues = [lag for lag in lags if lag.group == group]
        found.append(
            {
                "group": group,
                "lag": sum(lag.lag or 0 for lag in queues),
                "lag_ms": max((lag.lag_ms or 0 for lag in queues), default=0),
                "next_store_timestamp": min(
                    (lag.next_store_timestamp for lag in queues if lag.next_store_timestamp is not None), default=None
                ),
                "queues_without_offset": sum(lag.offset is None for lag in queues),
                "queues": [{name: value for name, value in lag._asdict().items() if name != "group"} for lag in queues],
            }
        )
    return found


# --- text -----------------------------------------------------------------------------------------


def _show(lags: Sequence[QueueLag], now_ms: int) -> None:
    rows = [
        (
            lag.group,
            lag.topic,
            lag.queue_id,
            output.or_dash(lag.max_offset),
            output.or_dash(lag.offset),
            output.or_dash(lag.lag),
            output.or_dash(lag.lag_ms, output.duration_text),
            output.or_dash(lag.next_store_timestamp, output.time_in_table),
        )
        for lag in lags
    ]
    columns = ("group", "topic", "queue", "max offset", "offset", "lag", "lag in time", "next stored")
    output.show_table("Queues", columns, rows, split_by_first=True)
    totals = [
        (
            group["group"],
            len(group["queues"]),
            group["lag"],
            output.duration_text(group["lag_ms"]),
            output.or_dash(group["next_store_timestamp"], lambda ms: output.duration_text(max(0, now_ms - ms))),
        )
        for group in _groups(lags)
    ]
    output.show_table("Groups", ("group", "queues", "lag", "lag in time", "oldest waits for"), totals)


def _say_oddities(lags: Sequence[QueueLag]) -> None:
    output.say_lines("note", [note for lag in lags if (note := _oddity(lag)) is not None])


def _say_unreadable(damage: Mapping[str, str], opened: MessageStore) -> None:
    """Name the topics whose queues cannot be read; what the open has said is not said again."""
    for text in dict.fromkeys(damage.values()):
        topics = ", ".join(topic for topic, why in damage.items() if why == text)
        output.say(f"damage: {topics}: the queues cannot be read" + ("" if text in opened.damage else f". {text}"))


def _oddity(lag: QueueLag) -> str | None:
    where = f"{lag.group}, {lag.topic}/{lag.queue_id}"
    if lag.max_offset is None:
        return f"{where}: this queue is not in the store (--clean-topic removes a topic's progress)"
    if lag.expired:
        return f"{where}: {lag.expired} messages were deleted before the group read them"
    if lag.offset is not None and lag.offset > lag.max_offset:
        return f"{where}: offset {lag.offset} is past the queue's end, {lag.max_offset}, where its next pull goes on"
    return None


def _show_changes(changes: Sequence[Change], damage: Sequence[str], as_json: bool) -> None:
    if as_json:
        verdict = {"ok": False, "damage": [*damage]} if damage else {"ok": True}
        output.emit_json({**verdict, "changes": [change._asdict() for change in changes]})
        return
    for change in changes:
        before = "none" if change.before is None else str(change.before)
        after = "none" if change.after is None else str(change.after)
        cells = change.group, f"{change.topic}/{change.queue_id}", f"{before} -> {after}"
        output.show("\t".join(map(output.in_one_line, cells)))
