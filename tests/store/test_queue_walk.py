"""The walk along a queue: pulls until one leads no further."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.formats.queue.consume_queue import OffsetRange
from reput.store.read.queue_walk import messages_of, pulls_of, walk_queue
from reput.store.read.results import GetResult, GetStatus, outside
from support.checked import assert_sound
from support.opened import CONFIG, put

if TYPE_CHECKING:
    from pathlib import Path


def queue_of(present: list[bool]) -> list[int]:
    """The offsets of a queue that have a message."""
    return [offset for offset, is_there in enumerate(present) if is_there]


@given(
    present=st.lists(st.booleans(), max_size=30),
    first=st.integers(0, 10),
    begin=st.integers(0, 40),
    end=st.none() | st.integers(0, 40),
    at_once=st.integers(1, 9),
)
def test_each_message_comes_once(present: list[bool], first: int, begin: int, end: int | None, at_once: int) -> None:
    """However a queue is cut into pulls, the walk gives its messages from the begin to the end, and then ends."""
    span = OffsetRange(min(first, len(present)), len(present))
    there = [offset for offset in queue_of(present) if offset >= span.min_offset]
    asked = []

    def pull(offset: int, most: int) -> GetResult:
        asked.append((offset, most))
        if not span.min_offset <= offset < span.max_offset:
            return outside(True, offset, span)
        # An entry without a message is passed over within a pull.
        found = [one for one in range(offset, min(offset + most, span.max_offset)) if one in there]
        places = np.array([[one, 1] for one in found], dtype=np.int64).reshape(-1)
        passed = min(offset + most, span.max_offset)
        return GetResult.of(GetStatus.FOUND, passed, span, None, places, len(found), ())

    pulls = list(pulls_of(pull, begin, end, at_once))
    found = [place for _, result in pulls for place in result.physical_offsets.tolist()]
    assert [offset for offset, _ in pulls] == [offset for offset, _ in asked]
    assert all(most <= at_once and (end is None or offset + most <= end) for offset, most in asked)
    wanted = [one for one in there if one >= begin and (end is None or one < end)]
    assert found == wanted
    assert all(after[0] == before[1].next_offset for before, after in pairwise(pulls))


def test_an_expired_begin_is_the_first_message(tmp_path: Path) -> None:
    """Messages whose log file is deleted are passed over, and the others have the numbers of their entries."""
    config = replace(CONFIG, mapped_file_size_commit_log=1 << 13, file_reserved_time=0)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 600)
        store.reput(spark=False)
        everything = [found.message.body for found in walk_queue(store.view, "t", 0, 0)]
        assert len(everything) == 600
        assert store.delete_expired(manual=True)
        first = store.min_offset("t", 0)
        assert first > 0
        for begin in (0, first - 1, first, first + 7):
            found = list(walk_queue(store.view, "t", 0, begin))
            kept = range(max(begin, first), 600)
            assert [one.queue_offset for one in found] == list(kept)
            assert [one.message.body for one in found] == [everything[number] for number in kept]
            assert [one.physical_offset for one in found] == [one.message.physical_offset for one in found]
    assert_sound(tmp_path / "s", config)


def test_a_walk_ends_where_the_queue_ended_when_it_began(tmp_path: Path) -> None:
    """Messages that are put during a walk are not in it, unless it is one of pulls without an end."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 5)
        walk = walk_queue(store.view, "t", 0, 2)
        numbers = [next(walk).queue_offset]
        put(store, 5)
        assert numbers + [found.queue_offset for found in walk] == [2, 3, 4]
        open_end = messages_of(lambda offset, most: store.get_message("t", 0, offset, most), 2)
        assert [found.queue_offset for found in open_end] == list(range(2, 10))
    assert_sound(tmp_path / "s", CONFIG)
