"""All that waits in an open store: `MessageStore.pending`."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.java.hashing import java_string_hash
from reput.formats.layout import INT64_MAX
from reput.formats.pending import pop_database, timer_database, transaction_database
from reput.formats.topics.system_topics import HALF_TOPIC
from reput.index.database import REMEDY
from reput.store.pending.databases import COPY_REMEDY, family_of, guarded
from reput.store.pending.delay_levels import delayed
from reput.store.pending.half_row import PendingTransaction
from reput.store.pending.orderly import held_in_order
from reput.store.pending.pop import (
    InFlight,
    QueueOfGroup,
    count_in_flight,
    lags,
    of_checkpoint,
    of_database,
    of_orderly,
)
from reput.store.pending.pop_row import PendingPop, PopLag
from reput.store.pending.revive import Checkpoints, held_by_checkpoints, read_checkpoints
from reput.store.pending.timer_queue import TimerQueue
from reput.store.pending.timer_row import PendingTimer
from reput.store.pending.transactions import half_of_timer, topic_halves
from reput.store.pending.wheel_timers import WheelTimers
from reput.store.progress.progress import ConsumerProgress
from reput.store.read.view import StoreView
from reput.times import now_ms

if TYPE_CHECKING:
    from reput.store.pending.database_timers import DatabaseTimers


class DatabaseWork(NamedTuple):
    """Work that waits in RocksDB.

    `timer_queue_offset` is the next message of the timer topic that its timers take in.
    """

    timer_queue_offset: int
    has_timers: bool
    has_halves: bool


class PendingWork:
    """Work that waits in a store. Every row is compared with the log, and nothing is changed.

        with reput.MessageStore.open("/data/store", read_only=True) as store:
            for timer in store.pending.timers():
                print(timer.deliver_timestamp, timer.topic, timer.state)

    `damage` gets what could not be read: the other rows still come. It is complete when the rows have been read. So is
    `notes`, which has what is odd and no damage.
    """

    def __init__(self, view: StoreView, progress: Callable[[], ConsumerProgress]) -> None:
        self._view = view
        self._progress = progress
        self.damage: list[str] = []
        self.notes: list[str] = []
        self._counts: dict[QueueOfGroup, InFlight] = {}

    def timers(self, topic: str | None = None, until_ms: int | None = None) -> Iterator[PendingTimer]:
        """Iterate over the timer messages, and the messages of delay levels, that have not been delivered.

        First those in the timer wheel, in RocksDB and in delay levels, by the time at which they are given out.
        Then those that wheel and RocksDB have not taken in from their queue yet, in its order.
        Memory does not grow with their number.

        Args:
            topic: Only messages for this topic.
            until_ms: Only messages that are due at this time or before (ms since 1970).

        Returns:
            The messages.
        """
        for timer in self._timers(INT64_MAX if until_ms is None else until_ms, self.notes):
            if (topic is None or timer.topic == topic) and (until_ms is None or timer.deliver_timestamp <= until_ms):
                yield timer

    def _timers(self, until_ms: int, notes: list[str], topics: Collection[str] | None = None) -> Iterator[PendingTimer]:
        """Yield what waits for a time; `topics`: at least the timer messages for these topics, and no delay levels."""
        view, damage = self._view, self.damage
        view.catch_up()
        with contextlib.ExitStack() as opened:
            wheel = WheelTimers(view, damage)
            opened.callback(wheel.close)
            database = self._database(opened)
            taken_in = max(wheel.queue_offset, 0 if database is None else database.queue_offset)
            queue = TimerQueue(view, taken_in)
            marks = queue.marks()
            hashes = None if topics is None else frozenset(map(java_string_hash, topics))
            sources = [guarded(wheel.rows(until_ms, marks, hashes), damage)]
            if topics is None:
                sources.append(guarded(delayed(view, view.settings.delays_ms, damage), damage))
            if database is not None:
                sources.append(guarded(_noting_overdue(database, database.rows(until_ms, marks), notes), damage))
            yield from heapq.merge(*sources, key=_given_out)
            yield from guarded(queue.rows(), damage)

    def _database(self, opened: contextlib.ExitStack) -> DatabaseTimers | None:
        folder = self._view.layout.root / paths.INDEX_DATABASE
        family = opened.enter_context(family_of(folder, timer_database.FAMILY, self.damage, REMEDY))
        if family is None:
            return None
        from reput.store.pending.database_timers import DatabaseTimers

        return DatabaseTimers(self._view, family, self.damage)

    def transactions(self, topic: str | None = None) -> Iterator[PendingTransaction]:
        """Iterate over the half messages that have neither been committed nor rolled back.

        First those of the half topic, in its order; then those of RocksDB; then those that still wait for a time, as
        timer messages.

        Args:
            topic: Only messages for this topic.

        Returns:
            The messages.
        """
        for half in self._transactions():
            if topic is None or half.topic == topic:
                yield half

    def _transactions(self) -> Iterator[PendingTransaction]:
        view, damage = self._view, self.damage
        view.catch_up()
        offsets = self._offsets("half messages that wait in topics")
        if offsets is not None:
            yield from guarded(topic_halves(view, offsets), damage)
        with contextlib.ExitStack() as opened:
            yield from self._database_halves(opened)
        for timer in self._timers(INT64_MAX, []):
            if timer.topic == HALF_TOPIC:
                yield half_of_timer(view, timer)

    def _database_halves(self, opened: contextlib.ExitStack) -> Iterator[PendingTransaction]:
        view, damage = self._view, self.damage
        folder = view.layout.root / paths.INDEX_DATABASE
        family = opened.enter_context(family_of(folder, transaction_database.FAMILY, damage, REMEDY))
        if family is None:
            return iter(())
        from reput.store.pending.database_halves import database_halves

        return guarded(database_halves(view, family, damage), damage)

    def _offsets(self, left_out: str) -> ConsumerProgress | None:
        """Return the group offsets, which say how far the broker is; None if they are damaged, as `damage` says."""
        try:
            progress = self._progress()
        except DamagedStoreError as error:
            self.damage.append(f"{error}. How far the broker is, is unknown: {left_out} are left out")
            return None
        self.damage += [text for text in progress.damage if text not in self.damage]
        return progress

    def in_database(self) -> DatabaseWork:
        """Return what RocksDB has, which only a broker with `timerRocksDBEnable` and `transRocksDBEnable` ends."""
        self._view.catch_up()
        with contextlib.ExitStack() as opened:
            timers = self._database(opened)
            rows = iter(()) if timers is None else guarded(timers.rows(INT64_MAX, {}), self.damage)
            return DatabaseWork(
                0 if timers is None else timers.queue_offset,
                next(rows, None) is not None,
                next(self._database_halves(opened), None) is not None,
            )

    def pop(self, group: str | None = None, topic: str | None = None) -> Iterator[PendingPop]:
        """Iterate over the messages that pop consumers hold: given to a group, and neither acked nor put back yet.

        First those of checkpoints, by the time at which they become visible again; then those of RocksDB, likewise;
        then those of orderly consumers, by queue. Memory grows with the number of checkpoints.
        `lags` is complete when the rows have been read.

        Args:
            group: Only messages of this consumer group.
            topic: Only messages of this topic.

        Returns:
            The messages.
        """
        self._counts.clear()
        return self._counted(group, topic)

    def _counted(self, group: str | None, topic: str | None) -> Iterator[PendingPop]:
        self._view.catch_up()
        offsets = self._offsets("messages that checkpoints hold")
        rows = (row for row in self._pop(offsets) if group in {None, row.group} and topic in {None, row.topic})
        yield from count_in_flight(rows, offsets, self._counts)

    def _pop(self, offsets: ConsumerProgress | None) -> Iterator[PendingPop]:
        view, damage = self._view, self.damage
        if offsets is not None:
            held = held_by_checkpoints(view, offsets, self._timers(INT64_MAX, []), damage)
            yield from (of_checkpoint(view, one) for one in guarded(held, damage))
        with family_of(view.layout.root / pop_database.FOLDER, pop_database.FAMILY, damage, COPY_REMEDY) as family:
            if family is not None:
                yield from guarded(of_database(view, family, damage), damage)
        for record in held_in_order(view.layout.root / paths.CONFIG, damage):
            yield of_orderly(view, record)

    def checkpoints(self, revive_topics: Collection[str]) -> Checkpoints:
        """Return the checkpoints of pop consumers that are not done.

        Args:
            revive_topics: the topics to which they go from the timer topic.

        Raises:
            DamagedStoreError: The group offsets, which say how far the broker is, are damaged.
        """
        self._view.catch_up()
        timers = self._timers(INT64_MAX, [], revive_topics)
        return read_checkpoints(self._view, self._progress(), timers, self.damage)

    def lags(self) -> list[PopLag]:
        """Return the lag of each group and queue of which `pop` has given rows, and the messages in flight."""
        return lags(self._view, self._counts)


def _given_out(timer: PendingTimer) -> int:
    return timer.deliver_timestamp if timer.wheel_timestamp is None else timer.wheel_timestamp


def _noting_overdue(database: DatabaseTimers, rows: Iterator[PendingTimer], notes: list[str]) -> Iterator[PendingTimer]:
    """Yield the rows, and note those that a broker that starts now would not deliver."""
    begin_ms, overdue = now_ms() - 10_000, 0
    for row in rows:
        overdue += database.timeline_ms is None and row.deliver_timestamp < begin_ms
        yield row
    if overdue:
        notes.append(
            f"{overdue} overdue timer messages are in a database that has no timeline_checkpoint yet: RocketMQ 5.5 "
            "starts at its own clock less 10 seconds, and does not deliver them"
        )
