"""The kernel of pulls: it takes the entries that match, in bounds, and both twins take the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.queue.consume_queue import ENTRY, PRE_BLANK
from reput.kernels import kernels
from reput.kernels.layouts.columns import Choice, Pull, PullRules
from support.twins import TWINS

RULES = PullRules(
    log_begin=1000,
    log_end=5000,
    log_file_size=1000,
    codes=np.array([], dtype=np.int64),
    max_messages=32,
    max_bytes=1 << 20,
    stop_bytes=1 << 20,
)


def select(twin: str, entries: list[tuple[int, int, int]], rules: PullRules) -> tuple[Choice, list[int]]:
    """The choice of a twin, and the places that it wrote."""
    data = np.frombuffer(b"".join(ENTRY.struct.pack(*entry) for entry in entries), dtype=np.uint8)
    places = np.zeros(2 * len(entries) + 2, dtype=np.int64)
    choice = Choice(*kernels(twin).select_entries(data, rules, places))
    return choice, places[: 2 * choice.taken].tolist()


@pytest.mark.parametrize("twin", TWINS)
def test_entries_of_expired_records_are_passed_over(twin: str) -> None:
    """Entries before the log's begin, and the others of their file, are passed over; if none is left, it is said."""
    gone = [(100, 90, 0), (900, 90, 0)]
    assert select(twin, gone, RULES) == (Choice(0, 2, Pull.REMOVED, -1, -1, -1, -1), [])
    choice, places = select(twin, [*gone, (1000, 90, 0), (4990, 90, 0), (1100, 0, 0)], RULES)
    assert choice == Choice(1, 5, Pull.FOUND, 1000, 1000, 3, -1)
    assert places == [1000, 90]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("damaged", [(1990, 90, 0), (1500, 0, 0), (1500, -1, 0), (0, 0, 0), ((1 << 63) - 1, 90, 0)])
def test_a_damaged_entry_alone_is_passed_over(damaged: tuple[int, int, int], twin: str) -> None:
    """An entry whose record would be empty, or end after the log, costs no other message of its file of the log."""
    rules = RULES._replace(log_end=2000)
    assert select(twin, [damaged, (1500, 90, 0)], rules) == (Choice(1, 2, Pull.FOUND, 1500, 1500, 0, -1), [1500, 90])
    assert select(twin, [damaged], rules)[0] == Choice(0, 1, Pull.REMOVED, -1, -1, 0, -1)


@pytest.mark.parametrize("twin", TWINS)
def test_a_pull_ends_at_its_bounds(twin: str) -> None:
    """A pull ends before the entry that exceeds a bound, but takes one; it ends once it has the bytes to stop at."""
    entries = [(1000 + 100 * n, 100, n % 2) for n in range(10)]
    assert select(twin, entries, RULES._replace(max_messages=3))[0] == Choice(3, 3, Pull.FOUND, 1000, 1200, -1, -1)
    assert select(twin, entries, RULES._replace(max_bytes=250))[0] == Choice(2, 2, Pull.FOUND, 1000, 1100, -1, -1)
    assert select(twin, entries, RULES._replace(max_bytes=50))[0] == Choice(1, 1, Pull.FOUND, 1000, 1000, -1, -1)
    assert select(twin, entries, RULES._replace(stop_bytes=200))[0] == Choice(2, 2, Pull.FOUND, 1000, 1100, -1, -1)
    assert select(twin, [], RULES)[0] == Choice(0, 0, Pull.NOTHING, -1, -1, -1, -1)


@pytest.mark.parametrize("twin", TWINS)
def test_entries_that_do_not_match_are_passed_over(twin: str) -> None:
    """Blank entries and those with another tags code, cut to 32 bits, are no part of a pull."""
    blank = ENTRY.struct.unpack(PRE_BLANK)
    entries = [blank, (1000, 100, 7), (1100, 100, 8), (1200, 100, (1 << 32) + 7)]
    rules = RULES._replace(codes=np.array([7], dtype=np.int64))
    assert select(twin, entries, rules) == (Choice(2, 4, Pull.FOUND, 1000, 1200, -1, -1), [1000, 100, 1200, 100])
    assert select(twin, entries[2:3], rules)[0] == Choice(0, 1, Pull.NOTHING, -1, -1, -1, -1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 90, 999, 1000, 1500, 1999, 2000, 4990, 5000, -1, 1 << 62]),
            st.sampled_from([0, 1, 90, 1000, -1, 0x7FFFFFFF]),
            st.sampled_from([0, 7, 8, (1 << 32) + 7, -(1 << 63)]),
        ),
        max_size=12,
    ),
    st.builds(
        PullRules,
        log_begin=st.sampled_from([0, 1000, 2000]),
        log_end=st.sampled_from([2000, 5000]),
        log_file_size=st.sampled_from([1000, 100_000]),
        codes=st.sampled_from([[], [7], [7, 8]]).map(lambda codes: np.array(codes, dtype=np.int64)),
        max_messages=st.integers(1, 5),
        max_bytes=st.sampled_from([1, 200, 1 << 40]),
        stop_bytes=st.sampled_from([0, 90, 1 << 40]),
    ),
)
def test_twins_choose_alike(entries: list[tuple[int, int, int]], rules: PullRules) -> None:
    """For any entries and bounds both twins take the same entries, and say the same about them."""
    assert select("reference", entries, rules) == select("compiled", entries, rules)


@pytest.mark.parametrize("twin", TWINS)
def test_the_first_entry_in_no_order_is_named(twin: str) -> None:
    """An entry whose record does not lie after that of the one taken before is taken and named; gaps do not matter."""
    entries = [(1000, 90, 0), (2000, 90, 0), (100, 90, 0), (1500, 90, 0), (1500, 90, 0)]
    choice, places = select(twin, entries, RULES)
    assert choice == Choice(4, 5, Pull.FOUND, 1000, 2000, -1, 3)
    assert places[::2] == [1000, 2000, 1500, 1500]
