"""Entries that wait in the backlog come to their queues' tails as if they had been put there at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.log.record import Record, encode_record
from reput.formats.queue.consume_queue import QueueKey
from reput.kernels import SWITCH, backlog_kernels, kernels
from reput.kernels.layouts.columns import IN_QUEUE, Columns, DecodeRules, Stop
from reput.kernels.layouts.log import LogBytes
from reput.kernels.layouts.pack import EntrySources
from reput.kernels.layouts.vectors import address_of
from reput.queue.backlog import Backlog
from reput.queue.queues import Queues
from support.twins import TWINS

if TYPE_CHECKING:
    from reput.kernels import BacklogKernels

QUEUES = 5
PUTS = st.lists(st.tuples(st.integers(0, QUEUES - 1), st.integers(0, 6)), max_size=20)
"""Queue and queue offset of records, in log order."""
STEPS = st.lists(st.tuples(st.booleans(), PUTS, st.none() | st.integers(0, QUEUES - 1)), max_size=6)
"""A piece, true if it waits, and the queue that is read after it."""


class NothingDurable:
    """No queue has durable entries."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None

    def spans(self, _topic: bytes | None = None) -> Any:
        """No queues."""
        return iter(())

    def block_end(self, _key: QueueKey, _offset: int) -> int:
        """Nothing ends a read."""
        return 1 << 62


def key(queue: int) -> QueueKey:
    """A queue by its number."""
    return QueueKey(b"topic-%d" % (queue // 2), queue)


def table_of_queues() -> Columns:
    """Columns whose table of queues has all of these."""
    log, at = b"", 0
    for queue in range(QUEUES):
        log += encode_record(Record(key(queue).topic, b"", queue_id=queue, physical_offset=at))
        at = len(log)
    columns = Columns(QUEUES, QUEUES, QUEUES)
    delays_ms = np.array([-1], dtype=np.int64)
    buffer = np.frombuffer(log, dtype=np.uint8)
    kernels().decode_range(LogBytes.whole(buffer, 0), 0, at, DecodeRules(0, True, delays_ms), columns.arrays)
    assert columns.queues == QUEUES
    return columns


def sources(puts: list[tuple[int, int]], begin: int) -> EntrySources:
    """The sources of the entries of such records; each has a place in the log of its own."""
    count = len(puts)
    queue, offset = np.array(puts, dtype=np.int64).reshape(count, 2).T
    position = begin + 1000 * np.arange(count)
    size, flags = np.full(count, 91, np.int32), np.full(count, IN_QUEUE, np.uint8)
    flags[1::7] = 0
    return EntrySources(position, size, queue.astype(np.int32), offset.copy(), position + 1, flags)


def put_at_once(queues: Queues, given: EntrySources) -> None:
    """Each entry to its queue's tail, one by one."""
    backlog = Backlog()
    for n in range(len(given.flags)):
        backlog.add(table_of_queues(), EntrySources(*(column[n : n + 1] for column in given)))
        for one in backlog.take_all():
            queues.extend(*one)


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_waiting_changes_nothing(steps: list[tuple[bool, list[tuple[int, int]], int | None]]) -> None:
    """The tails are those of entries that came one by one, whatever waits and whatever is read meanwhile."""
    columns, begin = table_of_queues(), 100_000
    lazy, eager = Queues(NothingDurable()), Queues(NothingDurable())  # type: ignore[arg-type]
    for waits, puts, read in steps:
        given = sources(puts, begin)
        begin += 1000 * len(puts)
        if waits:
            lazy.wait(columns, given)
        else:
            put_at_once(lazy, given)
        put_at_once(eager, given)
        if read is not None:
            asked = key(read)
            assert lazy.knows(asked) == eager.knows(asked)
            assert lazy.max_offset(asked) == eager.max_offset(asked)
            assert lazy.min_offset(asked) == eager.min_offset(asked)
            assert lazy.entries(asked, 0, 100).tolist() == eager.entries(asked, 0, 100).tolist()
    assert sorted(lazy.spans()) == sorted(eager.spans())
    assert vars(lazy.tail) == vars(eager.tail)
    assert lazy.backlog.count == 0


def test_a_backlog_grows_and_is_emptied() -> None:
    """Many more entries than there was room for at first come out by queue in log order, and nothing is left."""
    columns, backlog = table_of_queues(), Backlog()
    puts = [(n % QUEUES, n // QUEUES) for n in range(20_000)]
    added = [backlog.add(columns, sources(puts[at : at + 3000], at)) for at in range(0, 20_000, 3000)]
    assert sum(added) == backlog.count
    offsets = {one.key: one.offsets() for one in backlog.take_all()}
    assert set(offsets) == {key(queue) for queue in range(QUEUES)}
    assert all(found == sorted(found) for found in offsets.values())
    assert backlog.count == 0
    assert not backlog.holds(key(0))
    assert backlog.take(key(0)) is None


@pytest.fixture(params=TWINS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of kernel."""
    monkeypatch.setenv(SWITCH, request.param)
    backlog_kernels.cache_clear()
    return str(request.param)


def test_a_queue_is_found_by_its_name_and_id(kind: str) -> None:
    """Neither another id, nor another topic, nor a row that came later is taken for it."""
    columns = table_of_queues()
    addresses = columns.queue_table.addresses()
    table = address_of(addresses)
    run: BacklogKernels = backlog_kernels()
    for queue in range(QUEUES):
        topic = key(queue).topic
        assert run.find_row(topic, queue, QUEUES, table) == queue
        assert run.find_row(topic, queue, queue, table) == -1
        assert run.find_row(topic, queue + 7, QUEUES, table) == -1
        assert run.find_row(topic[:-1], queue, QUEUES, table) == -1


def test_a_table_of_queues_that_grows_finds_its_rows(kind: str) -> None:
    """After the table has grown each queue has the row that it had."""
    columns = table_of_queues()
    for _ in range(3):
        columns.grow(Stop.QUEUES_FULL)
    addresses = columns.queue_table.addresses()
    table = address_of(addresses)
    for queue in range(QUEUES):
        topic = key(queue).topic
        assert backlog_kernels().find_row(topic, queue, QUEUES, table) == queue


@settings(deadline=None)
@given(PUTS, st.lists(st.integers(0, QUEUES - 1), unique=True))
def test_both_kinds_of_kernels(puts: list[tuple[int, int]], asked: list[int]) -> None:
    """Both number, chain and take the same."""
    given, found = sources(puts, 0), []
    for which in TWINS:
        run, count = backlog_kernels(which), len(puts)
        marks, rows, numbers = (np.zeros(max(count, QUEUES), dtype=np.int32) for _ in range(3))
        numbered = run.number_rows(given.queue, given.flags, marks, rows, numbers[:count])
        entries, offset = np.zeros(20 * count, dtype=np.uint8), np.zeros(count, dtype=np.int64)
        previous, newest = np.zeros(count, dtype=np.int32), np.full(QUEUES, -1, dtype=np.int32)
        used = run.chain_entries(given, 0, entries, offset, previous, newest)
        start, index = np.zeros(len(asked) + 1, dtype=np.int64), np.zeros(count, dtype=np.int32)
        wanted = np.array(asked, dtype=np.int64)
        total = run.take_chains(wanted, newest, previous, start, index)
        # Taken once, nothing is left; without room nothing is taken.
        again = run.take_chains(wanted, newest, previous, np.zeros_like(start), index[:0])
        left = run.take_chains(np.arange(QUEUES), newest, previous, np.zeros(QUEUES + 1, np.int64), index[:0])
        arrays = marks, rows, numbers, entries, offset, previous, newest, start, index
        found.append((numbered, used, total, again, left, *(array.tolist() for array in arrays)))
    assert found[0] == found[1]
    assert found[0][2] + found[0][4] == found[0][1]
