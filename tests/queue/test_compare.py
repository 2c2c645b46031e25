"""The one comparison of entries says what a look at each pair of entries says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, LAST_BLANK, PRE_BLANK
from reput.queue.compare import Compared, Differences, compare, compare_entries, rows_of, runs, side_by_side
from reput.queue.kinds import EntryRows

ONE, OTHER, NOTHING = b"\1" * ENTRY_SIZE, b"\2" * ENTRY_SIZE, bytes(ENTRY_SIZE)
ENTRIES = st.sampled_from([ONE, OTHER, NOTHING, PRE_BLANK, LAST_BLANK])
PAIRS = st.lists(st.tuples(ENTRIES.filter(lambda entry: entry != NOTHING), ENTRIES), max_size=12)


def array(entries: list[bytes]) -> np.ndarray:
    """Entries one after the other."""
    return np.frombuffer(b"".join(entries), dtype=np.uint8)


@given(PAIRS)
def test_rows(pairs: list[tuple[bytes, bytes]]) -> None:
    """Rows differ where their bytes do; a row that is no entry, zeros or what the kind says, is missing."""
    wanted, present = (rows_of(array([pair[side] for pair in pairs]), ENTRY_SIZE) for side in (0, 1))
    for no_entry in (None, OTHER):
        empty = no_entry or NOTHING
        missing, wrong = compare(wanted, present, None if no_entry is None else array([no_entry]))
        assert missing.tolist() == [n for n, (one, other) in enumerate(pairs) if one != other and other == empty]
        assert wrong.tolist() == [n for n, (one, other) in enumerate(pairs) if other not in (one, empty)]


@given(PAIRS, st.integers(0, 12))
def test_entries_of_files(pairs: list[tuple[bytes, bytes]], there: int) -> None:
    """One blank is as good as another, and what a short file does not reach is missing."""
    blank = {PRE_BLANK, LAST_BLANK}
    pairs = [(one, other if n < there else NOTHING) for n, (one, other) in enumerate(pairs)]
    found = compare_entries(array([one for one, _ in pairs]), array([other for _, other in pairs[:there]]))
    assert found.missing.tolist() == [n for n, (_, other) in enumerate(pairs) if other == NOTHING]
    assert found.wrong.tolist() == [
        n for n, pair in enumerate(pairs) if len({*pair} - {NOTHING}) == 2 and not {*pair} <= blank
    ]


@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9))), max_size=4))
def test_pieces_are_counted(pieces: list[tuple[set[int], set[int]]]) -> None:
    """Differences piece by piece come to the counts, the first numbers and the records of all of them."""
    compared = Compared()
    for number, (missing, wrong) in enumerate(pieces):
        found = Differences(np.array(sorted(missing), dtype=int), np.array(sorted(wrong), dtype=int))
        wanted = np.zeros(10, dtype=ENTRY.dtype)
        wanted["physical_offset"] = 1000 + 10 * number + np.arange(10)
        compared.add(10 * number, found, wanted)
    missing, wrong = ([10 * n + one for n, piece in enumerate(pieces) for one in piece[kind]] for kind in (0, 1))
    assert (compared.missing, compared.wrong) == (len(missing), len(wrong))
    assert (compared.first_missing, compared.first_wrong) == (min(missing, default=-1), min(wrong, default=-1))
    assert compared.is_equal == (not missing and not wrong)
    assert compared.missing_from == min((1000 + one for one in missing), default=-1)
    assert compared.lacking_to == max((1000 + one for one in missing + wrong), default=-1)


@given(st.sets(st.integers(0, 30)))
def test_runs(numbers: set[int]) -> None:
    """Runs are whole, apart from one another, and come to all the numbers."""
    found = list(runs(np.array(sorted(numbers), dtype=np.int64)))
    assert [one for begin, end in found for one in range(begin, end)] == sorted(numbers)
    assert all(end < begin for (_, end), (begin, _) in pairwise(found))


OFFSETS = st.dictionaries(st.integers(0, 12), ENTRIES.filter(lambda entry: entry != NOTHING), max_size=6)


def entry_rows(entries: dict[int, bytes]) -> EntryRows:
    """Entries by their queue offset, in order."""
    first = np.array(sorted(entries), dtype=np.int64)
    return EntryRows(first, first + 1, rows_of(array([entries[n] for n in sorted(entries)]), ENTRY_SIZE))


@given(OFFSETS, OFFSETS)
def test_aligned(left: dict[int, bytes], right: dict[int, bytes]) -> None:
    """Both sides have a row for each queue offset of either; it is zeros where the side has no entry."""
    for side, wanted in zip(side_by_side(entry_rows(left), entry_rows(right)), (left, right), strict=True):
        assert side.first.tolist() == sorted({*left, *right})
        assert side.next.tolist() == [offset + 1 for offset in side.first.tolist()]
        assert [row.tobytes() for row in side.rows] == [wanted.get(n, NOTHING) for n in side.first.tolist()]


def test_aligned_out_of_order() -> None:
    """Entries whose queue offsets do not ascend are compared in their order, so none is lost."""
    left = EntryRows(
        np.array([5, 5], dtype=np.int64), np.array([6, 6], dtype=np.int64), rows_of(array([ONE, OTHER]), ENTRY_SIZE)
    )
    right = entry_rows({5: OTHER})
    ours, theirs = side_by_side(left, right)
    assert compare(ours.rows, theirs.rows).missing.tolist() == [1]
    assert compare(ours.rows, theirs.rows).wrong.tolist() == [0]
