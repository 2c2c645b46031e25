"""Messages of several queues come in the order of the log, many at once."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.cli.get.read import Found, in_log_order

FILE_SIZE = 100
pulls = st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=3)


def found(offsets: list[int]) -> Found:
    """Messages at these log offsets."""
    starts = sorted({offset // FILE_SIZE * FILE_SIZE for offset in offsets})
    maps = [(start, np.full(FILE_SIZE, start // FILE_SIZE, dtype=np.uint8)) for start in starts]
    return Found(np.array(offsets, dtype=np.int64), np.ones(len(offsets), dtype=np.int32), maps)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(pulls, max_size=4))
def test_queues_are_merged_as_one_message_at_a_time(steps: list[list[list[int]]]) -> None:
    """However the messages of queues come in pulls, the order is that of a merge of single messages."""
    queues, count = [], len(steps)
    for number, queue in enumerate(steps):
        place, made = number, []
        for pull in queue:
            offsets = []
            for step in pull:
                # Each place in the log is one queue's: a multiple of `count`, and its number.
                place += (step + 1) * count
                offsets.append(place)
            made.append(offsets)
        queues.append(made)
    expected = list(heapq.merge(*([offset for pull in queue for offset in pull] for queue in queues)))
    together = list(in_log_order([iter([found(pull) for pull in queue]) for queue in queues]))
    assert [offset for one in together for offset in one.offsets.tolist()] == expected


@settings(deadline=None)
@given(offsets=st.lists(st.lists(st.integers(0, 300), max_size=8), min_size=2, max_size=3))
def test_a_queue_keeps_its_own_order(offsets: list[list[int]]) -> None:
    """A queue whose messages are not in the order of the log keeps its order, as in a merge of single messages."""
    queues = [[3 * one + number for one in queue] for number, queue in enumerate(offsets)]
    together = list(in_log_order([iter([found(queue)]) for queue in queues]))
    assert [offset for one in together for offset in one.offsets.tolist()] == list(heapq.merge(*queues))


@settings(deadline=None)
@given(offsets=st.lists(st.integers(0, 400), max_size=20))
def test_runs_of_one_file(offsets: list[int]) -> None:
    """The runs cover all messages in order, each with the file that holds them, and neighbours differ."""
    one = found(offsets)
    runs = list(one.by_file())
    assert [n for _, _, rows in runs for n in range(rows.start, rows.stop)] == list(range(len(offsets)))
    for start, array, rows in runs:
        assert {offset // FILE_SIZE * FILE_SIZE for offset in offsets[rows]} == {start}
        assert array[0] == start // FILE_SIZE
    assert all(before[0] != after[0] for before, after in pairwise(runs))
