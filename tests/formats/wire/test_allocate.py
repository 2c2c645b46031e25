"""Shares of consumers in the queues of a topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.wire.allocate import allocate_averagely


@pytest.mark.parametrize(
    ("queues", "members", "shares"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (4, 2, [[0, 1], [2, 3]]),
        (2, 4, [[0], [1], [], []]),
        (0, 2, [[], []]),
    ],
)
def test_shares_are_those_of_the_java_client(queues: int, members: int, shares: list[list[int]]) -> None:
    """The shares that `AllocateMessageQueueAveragely` gives: neighbours, the first members have one more."""
    ids = [f"c{number}" for number in range(members)]
    assert [allocate_averagely(range(queues), ids, one) for one in ids] == shares


@given(st.integers(0, 50), st.integers(1, 20))
def test_each_queue_has_one_consumer(queues: int, members: int) -> None:
    """All shares together are all queues, in order, and no two differ by more than one queue."""
    ids = [f"{number:02}" for number in range(members)]
    shares = [allocate_averagely(range(queues), ids, one) for one in ids]
    assert [queue for share in shares for queue in share] == list(range(queues))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_stranger_has_no_queue() -> None:
    """A consumer that the broker does not know takes nothing."""
    assert allocate_averagely([0, 1], ["a", "b"], "c") == []
