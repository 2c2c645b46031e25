"""What a queue of batches keeps of the entries that come in log order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.batch_consume_queue import BATCH_ENTRY
from reput.queue.batch_order import BatchOrder


def entries(*ranges: tuple[int, int]) -> np.ndarray:
    """Entries of these base offsets and counts, one record behind the other."""
    rows = [(100 * n, 100, 0, n, base, messages, -1, 0) for n, (base, messages) in enumerate(ranges)]
    return np.array(rows, dtype=BATCH_ENTRY.dtype)


def kept(order: BatchOrder, *ranges: tuple[int, int]) -> list[tuple[int, int]]:
    """The batches in the queue after these have come."""
    queue: list[tuple[int, int]] = []
    for run in order.sort_out(entries(*ranges)):
        if run.restarts:
            queue.clear()
        queue += [(int(row["base_offset"]), int(row["messages"])) for row in run.entries]
    return queue


def test_straight() -> None:
    """Batches that go on where the one before ended are kept."""
    order = BatchOrder()
    assert kept(order, (0, 3), (3, 1), (4, 7)) == [(0, 3), (3, 1), (4, 7)]
    assert (order.next, order.batches, order.repeats, order.missing, order.restarts) == (11, 3, 0, 0, 0)


def test_expired_front() -> None:
    """A queue that begins above 0 lacks nothing."""
    order = BatchOrder()
    assert kept(order, (40, 3)) == [(40, 3)]
    assert (order.next, order.missing) == (43, 0)


def test_gap() -> None:
    """Offsets without a message are counted, and nothing stands for them."""
    order = BatchOrder()
    assert kept(order, (0, 3), (5, 1), (10, 1)) == [(0, 3), (5, 1), (10, 1)]
    assert (order.next, order.missing) == (11, 6)


@pytest.mark.parametrize("again", [(0, 3), (2, 9), (3, 1)])
def test_repeat(again: tuple[int, int]) -> None:
    """A batch that begins below the end of the one before is left out, and what follows it is kept."""
    order = BatchOrder(next_offset=4, batches=1)
    assert kept(order, again, (4, 2)) == [(4, 2)]
    assert (order.next, order.repeats, order.restarts) == (6, 1, 0)


def test_restart() -> None:
    """A queue that begins at 0 again, and was more than one batch, is a new one."""
    order = BatchOrder()
    assert kept(order, (0, 3), (3, 2), (0, 1), (1, 4)) == [(0, 1), (1, 4)]
    assert (order.next, order.batches, order.restarts, order.dropped) == (5, 2, 1, 2)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=12), st.integers(1, 5))
def test_offsets_never_fall_however_they_come(ranges: list[tuple[int, int]], step: int) -> None:
    """In a queue base offsets never fall, and in how many pieces the entries come makes no difference."""
    whole, pieces = BatchOrder(), BatchOrder()
    expected = kept(whole, *ranges)
    queue: list[tuple[int, int]] = []
    for begin in range(0, len(ranges), step):
        for run in pieces.sort_out(entries(*ranges[begin : begin + step])):
            if run.restarts:
                queue.clear()
            queue += [(int(row["base_offset"]), int(row["messages"])) for row in run.entries]
    assert queue == expected
    assert all(base >= before + count for (before, count), (base, _) in pairwise(queue))
    assert vars(whole) == vars(pieces)
    assert whole.batches == len(queue)
