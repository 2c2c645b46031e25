"""Zeroing what a crash has left in a queue: all that is no entry of a record that the log has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reput.files import fs
from reput.formats import paths
from reput.formats.queue.consume_queue import ENTRY
from reput.queue import cut
from reput.queue.files import list_queue_files
from support.power.journal import Sync, Write
from support.power.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_SIZE = 10


def zeroed(folder: Path, offsets: list[int], *, begin: int = 0, whole: int = 0, end: int = 1 << 40) -> list[int]:
    """The log offsets of a queue's entries after the cut; -1 for an entry of zeros."""
    rows = np.zeros(len(offsets), dtype=ENTRY.dtype)
    there = np.array(offsets, dtype=np.int64) >= 0
    rows["physical_offset"], rows["size"] = np.where(there, offsets, 0), np.where(there, _SIZE, 0)
    path = folder / f"{0:020d}"
    path.write_bytes(rows.tobytes())
    cut.zero_past(list_queue_files(folder), ENTRY, begin, whole, end, fs.owner_of(folder))
    found = np.frombuffer(path.read_bytes(), dtype=ENTRY.dtype)
    return [int(row["physical_offset"]) if row["size"] else -1 for row in found]


def test_the_rest_of_a_torn_entry_was_taken_for_the_first_record(tmp_path: Path) -> None:
    """A power cut in the cut leaves an entry of which only the offset is zeroed: it names the log's first record.

    The sweep of power cuts found it, in a queue that begins with that record.
    """
    assert zeroed(tmp_path, [0, -1, -1, 0, 90], end=50) == [0, -1, -1, -1, -1]


def test_the_rest_of_an_entry_was_taken_for_a_blank(tmp_path: Path) -> None:
    """An entry that only fills a place has no tags; the sweep of power cuts found one that a wrong sector has made."""
    rows = np.zeros(3, dtype=ENTRY.dtype)
    rows["size"], rows["tags_code"] = (1, 1, 0), (0, 3, 0)
    path = tmp_path / f"{0:020d}"
    path.write_bytes(rows.tobytes())
    cut.zero_past(list_queue_files(tmp_path), ENTRY, 0, 0, 1 << 40, fs.owner_of(tmp_path))
    assert np.frombuffer(path.read_bytes(), dtype=ENTRY.dtype)["size"].tolist() == [1, 0, 0]


def test_entries_that_are_known_to_be_whole_stay(tmp_path: Path) -> None:
    """The entries before the first one to check are not looked at; a record at the first byte to check is one."""
    assert zeroed(tmp_path, [70, 10, 20, 30], begin=1, whole=10) == [70, 10, 20, 30]
    assert zeroed(tmp_path, [70, 10, 20, 30], begin=2, whole=21) == [70, 10, -1, 30]


@given(st.lists(st.integers(-1, 40), max_size=30), st.integers(1, 5))
def test_what_is_left_ascends(tmp_path_factory: pytest.TempPathFactory, offsets: list[int], block: int) -> None:
    """However many entries are read at once, each that is left has a record above all before it, and none else went."""
    folder = tmp_path_factory.mktemp("queue")
    one = zeroed(folder, offsets, end=30)
    before = cut.BLOCK_ENTRIES
    try:
        cut.BLOCK_ENTRIES = block
        assert zeroed(folder, offsets, end=30) == one
    finally:
        cut.BLOCK_ENTRIES = before
    highest = -1
    for offset, left in zip(offsets, one, strict=True):
        good = highest < offset <= 30 - _SIZE
        assert left == (offset if good else -1)
        highest = max(highest, left)


def test_a_cut_that_is_made_again_writes_its_zeros_once_more(tmp_path: Path) -> None:
    """After a failed sync the zeros may be in memory alone: a cut that finds them there writes them again."""
    (tmp_path / "disk").mkdir()
    file = tmp_path / "disk" / paths.offset_name(0)
    file.write_bytes(bytes(100))
    for again, writes in ((False, 0), (True, 1)):
        with Recorder(tmp_path / "disk") as recorder:
            files, owner = list_queue_files(tmp_path / "disk"), fs.owner_of(tmp_path)
            assert not cut.zero_past(files, ENTRY, 2, 0, 0, owner, again=again)
        found = [one for one in recorder.journal if isinstance(one, Write)]
        assert [(one.offset, one.data) for one in found] == [(40, bytes(60))] * writes
        assert sum(isinstance(one, Sync) for one in recorder.journal) == writes
