"""`reput pending`: show what waits in a store, each row compared with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput import times
from reput.cli.pending.rows import MoreTotals, PendingTable, queue_text, show_pending
from reput.cli.shared import opened as stores
from reput.cli.shared import options, output
from reput.cli.shared.groups import VerbGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.embedded import MessageStore
    from reput.store.pending.half_row import PendingTransaction
    from reput.store.pending.pop_row import PendingPop
    from reput.store.pending.timer_row import PendingTimer
    from reput.store.pending.work import PendingWork

_topic_option = stores.topic_option("Only messages for this topic.")


@click.group(cls=VerbGroup)
def pending() -> None:
    """Show what waits in a store: timer messages, transactions without an end, messages that pop consumers hold.

    Each row is compared with the log. Its state is `verified`, or says why not: `recalled` a later message marks it as
    deleted; `expired` its log file was deleted; `missing` the log ends before it; `damaged` there is no good record;
    `another` there is another record. The exit code is 1 if a row is missing, damaged or another, or if bytes could not
    be read. The command changes nothing, and a broker may have the store open: what it has not flushed is not shown.

    \b
    reput pending timers /data/store
    reput pending transactions /data/store --json
    reput pending pop /data/store -g billing
    """  # noqa: D301 - click wants the control character


@pending.command(short_help="Show timer messages that have not been delivered.")
@options.store_argument
@_topic_option
@click.option(
    "--until", type=stores.time_value, metavar="TIME", help=f"Only messages due then or before. {stores.TIME_HELP}"
)
@options.rows_option()
@options.config_options
@options.json_lines_option
def timers(
    store: str,
    topic: str | None,
    until: int | None,
    max_messages: int | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the timer messages of STORE that have not been delivered.

    Messages of the timer wheel, RocksDB and delay levels come first, by the time of their delivery. If a message is due
    after the wheel's window, the time is that at which the wheel puts it back into its queue (rolled). Messages that
    neither wheel nor RocksDB has taken in from their queue yet come last.

    \b
    reput pending timers /data/store
    reput pending timers /data/store -t orders --until now
    reput pending timers /data/store --json -c 10
    """  # noqa: D301 - click wants the control character
    now_ms = times.now_ms()

    def cells(timer: PendingTimer) -> tuple[object, ...]:
        return (
            output.time_in_table(timer.deliver_timestamp),
            _until_text(timer.deliver_timestamp - now_ms),
            queue_text(timer.topic, timer.queue_id),
            " ".join(timer.keys) or output.or_dash(timer.unique_key),
            timer.physical_offset,
            timer.source + (", rolled" if timer.is_rolled else ""),
            str(timer.state),
        )

    names = ("due", "in", "topic/queue", "key", "log offset", "waits in", "state")
    opening = stores.reading(store, options.config_of(config_path, assignments, store))
    table = PendingTable("Timers", names, cells)

    def unknown(opened: MessageStore) -> None:
        _refuse_unknown_topic(opened, topic, opened.pending.timers(topic))

    return show_pending(opening, table, lambda work: work.timers(topic, until), unknown, max_messages, as_json)


@pending.command(short_help="Show half messages without an end.")
@options.store_argument
@_topic_option
@options.rows_option()
@options.config_options
@options.json_lines_option
def transactions(
    store: str,
    topic: str | None,
    max_messages: int | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the half messages of STORE that have neither been committed nor rolled back.

    Messages of the half topic come first, in its order, then those of RocksDB, then those that still wait as timer
    messages.
    The number of checks says how often the broker has asked the producer.

    \b
    reput pending transactions /data/store
    reput pending transactions /data/store -t orders --json
    """  # noqa: D301 - click wants the control character
    now_ms = times.now_ms()

    def cells(half: PendingTransaction) -> tuple[object, ...]:
        born_ms = half.born_timestamp
        return (
            output.or_dash(born_ms, output.time_in_table),
            queue_text(half.topic, half.queue_id),
            output.or_dash(half.producer_group),
            output.or_dash(half.unique_key),
            half.check_times,
            half.source,
            str(half.state),
            output.or_dash(born_ms, lambda ms: output.duration_text(max(0, now_ms - ms))),
        )

    names = ("born", "topic/queue", "producer", "unique key", "checks", "waits in", "state", "age")
    opening = stores.reading(store, options.config_of(config_path, assignments, store))
    table = PendingTable("Transactions", names, cells)

    def unknown(opened: MessageStore) -> None:
        _refuse_unknown_topic(opened, topic, ())

    return show_pending(opening, table, lambda work: work.transactions(topic), unknown, max_messages, as_json)


@pending.command(short_help="Show messages that pop consumers hold.")
@options.store_argument
@click.option("-g", "--group", help="Only this consumer group.")
@_topic_option
@options.rows_option()
@options.config_options
@options.json_lines_option
def pop(
    store: str,
    group: str | None,
    topic: str | None,
    max_messages: int | None,
    config_path: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the messages of STORE that pop consumers hold: given to a group, and neither acked nor put back.

    A held message is invisible to other pops until its time, and may then be given again. Messages of checkpoints,
    which wait as timer messages or in the revive topic, come first, then those of RocksDB, then those of orderly
    consumers. The lag of a group in a queue counts what is above its committed offset; the true lag adds what is in
    flight below it.

    \b
    reput pending pop /data/store
    reput pending pop /data/store -g billing --json
    """  # noqa: D301 - click wants the control character
    now_ms = times.now_ms()

    def cells(held: PendingPop) -> tuple[object, ...]:
        return (
            held.group,
            queue_text(held.topic, held.queue_id),
            held.offset,
            output.time_in_table(held.visible_timestamp),
            _until_text(held.visible_timestamp - now_ms),
            held.attempts,
            output.or_dash(held.physical_offset),
            held.source,
            str(held.state),
        )

    names = ("group", "topic/queue", "offset", "invisible until", "in", "attempts", "log offset", "state in", "state")
    opening = stores.reading(store, options.config_of(config_path, assignments, store), with_progress=True)
    table = PendingTable("Messages in flight", names, cells, _lags)

    def unknown(opened: MessageStore) -> None:
        _refuse_unknown_topic(opened, topic, opened.pending.pop(None, topic))
        if group is not None and next(opened.pending.pop(group), None) is None:
            stores.groups_of(opened, group)

    return show_pending(opening, table, lambda work: work.pop(group, topic), unknown, max_messages, as_json)


def _refuse_unknown_topic(opened: MessageStore, topic: str | None, waiting: Iterable[object]) -> None:
    """Refuse a topic that the store does not have, unless messages for it are among those `waiting`.

    Raises:
        ConfigError: There is no such topic.
    """
    from reput.store.read.topic_messages import refuse_unknown

    if topic is not None and next(iter(waiting), None) is None:
        refuse_unknown(opened.view, topic)


def _lags(work: PendingWork) -> MoreTotals:
    lags = work.lags()
    rows = [
        (
            lag.group,
            queue_text(lag.topic, lag.queue_id),
            output.or_dash(lag.committed_offset),
            lag.max_offset,
            output.or_dash(lag.lag),
            lag.in_flight,
            output.or_dash(lag.true_lag),
        )
        for lag in lags
    ]
    names = ("group", "topic/queue", "committed offset", "max offset", "lag", "in flight", "true lag")
    return MoreTotals("Lags", names, rows, [lag._asdict() for lag in lags])


def _until_text(left_ms: int) -> str:
    return output.duration_text(left_ms) if left_ms >= 0 else "overdue"
