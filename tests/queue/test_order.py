"""The order rule of a queue: one machine, compared with a plain statement of the rule, in every place that uses it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import TailFullError
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey, decode_entry
from reput.pipeline.build.reorder.queue_builder import QueueOutcome, build_queue
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.parts import QueueRanges
from reput.queue.batch_kind import take_batches
from reput.queue.order import EMPTY, OrderState, QueueOrder, consecutive_runs, decide
from reput.queue.runs import EntryRun
from reput.queue.tail import Tail
from support.out_of_order import CASES, Case

KEY = QueueKey(b"t", 0)
PLACE = 1 << 30
"""The log offset of the first record: high enough for any queue offset of these tests."""

# Few numbers, so that they repeat, restart and leave gaps; whole stretches, since only those are taken back.
STRETCHES = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 8), st.integers(1, 4)),
        st.tuples(st.just(0), st.integers(1, 9)),
    ),
    max_size=12,
)


class Plain(NamedTuple):
    """A queue by the plain statement: the record of each queue offset (None: a blank), the first offset, restarts."""

    holds: list[int | None]
    first: int
    restarts: int


def plainly(offsets: list[int], end: int = 0) -> Plain:
    """State the rule record by record: the queue is a list, and a look at the whole log finds repeated stretches."""
    holds: list[int | None] = []
    first, restarts = end or -1, 0
    for number, offset in enumerate(offsets):
        following = first + len(holds)
        if first < 0:
            first, holds = offset, [number]
        elif offset >= following:
            holds += [*[None] * (offset - following), number]
        elif offset == 0:
            after = number + 1
            while after < len(offsets) and offsets[after] == offsets[after - 1] + 1:
                after += 1
            if after == len(offsets) or offsets[after] != following:
                first, holds, restarts = 0, [number], restarts + 1
    return Plain(holds, max(first, 0), restarts)


def numbered(stretches: list[tuple[int, int]]) -> list[int]:
    """The queue offsets of stretches (first, count), one after the other."""
    return [first + n for first, count in stretches for n in range(count)]


def entries_of(count: int) -> bytes:
    """Entries of `count` records, numbered by their places in the log."""
    return b"".join(ENTRY.struct.pack(PLACE + number, 100, 0) for number in range(count))


def records_in(data: bytes | bytearray) -> list[int | None]:
    """The records that entries lead to (None: a blank)."""
    found = [decode_entry(data, at) for at in range(0, len(data), ENTRY_SIZE)]
    return [None if entry.is_pre_blank else entry.physical_offset - PLACE for entry in found]


def in_tail(offsets: list[int], end: int = 0, piece: int = 1 << 20) -> tuple[list[int | None], int, bool]:
    """The tail's queue after these records, which come `piece` at a time; the files end at queue offset `end`."""
    table, data = Tail(), memoryview(entries_of(len(offsets)))
    tail = table.begin(KEY, end)
    for at in range(0, len(offsets), piece):
        some = np.array(offsets[at : at + piece], dtype=np.int64)
        for low, high in consecutive_runs(some):
            table.take(tail, int(some[low]), data[(at + low) * ENTRY_SIZE : (at + high) * ENTRY_SIZE])
    assert table.entries == len(tail.entries) // ENTRY_SIZE
    assert tail.next == tail.first + table.entries
    return records_in(tail.entries), tail.first, tail.restarted


class Built:
    """A queue in memory, as a job builds it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, run: EntryRun) -> None:
        """Append entries."""
        self.data += run.entries

    def blank(self, begin: int, end: int, following: EntryRun) -> None:
        """Append blanks."""
        assert following.first == end
        self.data += ENTRY.struct.pack(0, 0x7FFFFFFF, 0) * (end - begin)

    def drop(self) -> None:
        """Begin again."""
        self.data.clear()


def built(offsets: list[int], end: int = 0, piece: int = 1 << 20) -> tuple[list[int | None], QueueOutcome]:
    """The queue that a job builds from these records, and what it reports; a split has `piece` records."""
    target, data = Built(), memoryview(entries_of(len(offsets)))

    def runs() -> list[EntryRun]:
        found = []
        for at in range(0, len(offsets), piece):
            some = np.array(offsets[at : at + piece], dtype=np.int64)
            for low, high in consecutive_runs(some):
                found.append(EntryRun(int(some[low]), data[(at + low) * ENTRY_SIZE : (at + high) * ENTRY_SIZE]))
        return found

    outcome = build_queue(KEY, lambda: iter(runs()), target, end)
    return records_in(target.data), outcome


@given(STRETCHES, st.integers(0, 5), st.integers(1, 30))
def test_tail_and_job_build_what_the_rule_says(stretches: list[tuple[int, int]], end: int, piece: int) -> None:
    """The tail of a store and the queue of a rebuild hold the entries of the plain statement, however they come."""
    offsets = numbered(stretches)
    plain = plainly(offsets, end)
    assert in_tail(offsets, end, piece) == (plain.holds, plain.first, plain.restarts > 0)
    holds, outcome = built(offsets, end, piece)
    assert holds == plain.holds
    assert (outcome.first, outcome.restarts) == (plain.first, plain.restarts)
    assert outcome.next == plain.first + len(plain.holds)
    assert outcome.blanks == plain.holds.count(None)
    assert outcome.entries == len(holds) - outcome.blanks
    assert outcome.entries + outcome.repeats + outcome.dropped == len(offsets)


def test_a_repeated_stretch_that_goes_further_keeps_its_rest() -> None:
    """Tail and rebuild agree where a stretch from 0 goes above the old end, and the old end comes again."""
    offsets = [*range(5), *range(10), 5, 6]
    assert plainly(offsets) == Plain([*range(5), *range(10, 15)], 0, 0)
    assert in_tail(offsets)[0] == built(offsets)[0] == plainly(offsets).holds


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_known_cases(case: Case) -> None:
    """The plain statement gives what the peer was seen to do, and so do tail and job."""
    assert plainly(case.offsets).holds == case.holds
    assert in_tail(case.offsets)[0] == case.holds
    holds, outcome = built(case.offsets)
    assert holds == case.holds
    assert (outcome.repeats, outcome.blanks, outcome.restarts, outcome.dropped) == case[2:]


@given(STRETCHES, st.integers(0, 5))
def test_a_run_is_its_entries_one_by_one(stretches: list[tuple[int, int]], end: int) -> None:
    """The number of consecutive entries that a step takes makes no difference to the state after it."""
    one = many = OrderState.at(end)
    for first, count in stretches:
        many = decide(many, first, first + count).state
        for offset in range(first, first + count):
            one = decide(one, offset, offset + 1).state
        assert one == many


@given(STRETCHES, st.integers(1, 6))
def test_a_merge_finds_the_queues_out_of_order(stretches: list[tuple[int, int]], piece: int) -> None:
    """A queue is reordered unless its first run is followed only by runs that are appended."""
    offsets, table = numbered(stretches), SplitQueues()
    for at in range(0, len(offsets), piece):
        some = np.array(offsets[at : at + piece], dtype=np.int64)
        steady = len(consecutive_runs(some)) == 1
        table.add(
            QueueRanges([KEY], *(np.array([n], dtype=np.int64) for n in (some[0], some[-1], len(some), int(steady))))
        )
    assert bool(table.out_of_order()) == (len(consecutive_runs(np.array(offsets, dtype=np.int64))) > 1)


def batches(*ranges: tuple[int, int]) -> np.ndarray:
    """Entries of batches with these base offsets and counts, one record after the other."""
    rows = [(100 * n, 100, 0, n, base, messages, -1, 0) for n, (base, messages) in enumerate(ranges)]
    return np.array(rows, dtype=BATCH_ENTRY.dtype)


def kept(order: QueueOrder, *ranges: tuple[int, int], piece: int = 1 << 20) -> list[tuple[int, int]]:
    """The batches in the queue after these have come, `piece` at a time."""
    queue: list[tuple[int, int]] = []
    for at in range(0, len(ranges), piece):
        for run in take_batches(order, batches(*ranges[at : at + piece])):
            if run.restarts:
                queue.clear()
            queue += [(int(row["base_offset"]), int(row["messages"])) for row in run.entries]
    return queue


def test_consecutive_batches() -> None:
    """Batches that go on where the one before ended are kept."""
    order = QueueOrder()
    assert kept(order, (0, 3), (3, 1), (4, 7)) == [(0, 3), (3, 1), (4, 7)]
    assert (order.state.next, order.entries, order.repeats, order.missing, order.restarts) == (11, 3, 0, 0, 0)


def test_batches_with_an_expired_front() -> None:
    """A queue that begins above 0 lacks nothing."""
    order = QueueOrder()
    assert kept(order, (40, 3)) == [(40, 3)]
    assert (order.state.next, order.missing) == (43, 0)


def test_a_gap_between_batches() -> None:
    """Offsets without a message are counted, and no entry is written for them."""
    order = QueueOrder()
    assert kept(order, (0, 3), (5, 1), (10, 1)) == [(0, 3), (5, 1), (10, 1)]
    assert (order.state.next, order.missing) == (11, 6)


@pytest.mark.parametrize("again", [(1, 3), (2, 9), (3, 1)])
def test_a_repeated_batch(again: tuple[int, int]) -> None:
    """A batch that begins below the end of the one before is left out, and the next one is kept."""
    order = QueueOrder(OrderState(next=4, last=0), entries=1)
    assert kept(order, again, (4, 2)) == [(4, 2)]
    assert (order.state.next, order.repeats, order.restarts) == (6, 1, 0)


@pytest.mark.parametrize("before", [[(0, 3)], [(0, 3), (3, 2)], [(7, 3)], [(7, 3), (10, 2)]])
def test_batches_restart(before: list[tuple[int, int]]) -> None:
    """A queue that begins at 0 again is a new one."""
    order = QueueOrder()
    assert kept(order, *before, (0, 1), (1, 4)) == [(0, 1), (1, 4)]
    assert (order.state.next, order.entries, order.restarts, order.dropped) == (5, 2, 1, len(before))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=12), st.integers(1, 5))
def test_base_offsets_never_fall_however_batches_come(ranges: list[tuple[int, int]], piece: int) -> None:
    """In a queue base offsets never fall, and in how many pieces the entries come makes no difference."""
    whole, pieces = QueueOrder(), QueueOrder()
    queue = kept(whole, *ranges)
    assert kept(pieces, *ranges, piece=piece) == queue
    assert all(base >= before + count for (before, count), (base, _) in pairwise(queue))
    assert vars(whole) == vars(pieces)
    assert whole.entries == len(queue)
    assert whole.entries + whole.repeats + whole.dropped == len(ranges)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), max_size=12))
def test_messages_alone_are_batches_of_one(ranges: list[tuple[int, int]]) -> None:
    """A queue of batches of one message keeps what a ConsumeQueue whose restarts are final keeps."""
    offsets = numbered(ranges)
    order, state, entries = QueueOrder(), EMPTY, list[int]()
    for offset in offsets:
        step = decide(state, offset, offset + 1, is_final=True)
        entries = [] if step.restarts else entries
        entries += [] if step.repeats else [offset]
        state = step.state
    assert [base for base, _ in kept(order, *((offset, 1) for offset in offsets))] == entries
    assert order.state == state


def test_two_records_of_a_hostile_log_filled_the_memory_with_blanks() -> None:
    """A gap that has no room is an error before it is filled, and nothing of it is kept."""
    table, place = Tail(), 1 << 50
    table.most_entries = 1000
    entry = memoryview(ENTRY.struct.pack(place, 100, 0))
    tail = table.begin(KEY, 0)
    table.take(tail, 0, entry)
    with pytest.raises(TailFullError, match="queue offset 5000, after 4999 numbers without a message"):
        table.take(tail, 5000, entry)
    table.take(tail, 900, entry)
    assert table.entries == len(tail.entries) // ENTRY_SIZE == 901
