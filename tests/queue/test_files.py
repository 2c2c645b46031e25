"""The queues on disk, where each ends, and the file size that they show; hostile names and lengths among them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from reput.formats import paths
from reput.formats.queue.consume_queue import DEFAULT_FILE_SIZE, ENTRY_SIZE, PRE_BLANK, Entry, encode_entry
from reput.queue import files
from reput.queue.files import found_file_size, list_queues, max_offset, valid_entries

if TYPE_CHECKING:
    from pathlib import Path

    from reput.queue.files import QueueFolder

GOOD = encode_entry(Entry(100, 50, 7))
NONE = bytes(ENTRY_SIZE)


def a_queue(folder: Path, contents: dict[int, bytes], topic: str = "t", queue_id: int = 0) -> QueueFolder:
    """A queue with these files, by their start in bytes."""
    path = folder / topic / str(queue_id)
    path.mkdir(parents=True)
    for start, data in contents.items():
        (path / paths.offset_name(start)).write_bytes(data)
    return next(queue for queue in list_queues(folder) if queue.path == path)


def test_queues_are_listed_by_topic_and_number(tmp_path: Path) -> None:
    """Topics come by name and queues by number; folders that are no number are passed over, as RocketMQ does."""
    for topic, name in (("b", "10"), ("b", "9"), ("a", "0"), ("a", "-1"), ("a", "x"), ("a", "01")):
        (tmp_path / topic / name).mkdir(parents=True)
    (tmp_path / "a" / "7").touch()
    (tmp_path / "file").touch()
    assert [(queue.topic, queue.queue_id) for queue in list_queues(tmp_path)] == [("a", 0), ("b", 9), ("b", 10)]
    assert list(list_queues(tmp_path / "missing")) == []


def test_files_are_listed_by_start(tmp_path: Path) -> None:
    """Only names of 20 digits that fit a long are files of a queue, and folders are not."""
    queue = a_queue(tmp_path, {200: GOOD, 100: b""})
    for name in ("100", "9" * 20, "-0000000000000000001", paths.offset_name(300) + "x"):
        (queue.path / name).touch()
    (queue.path / paths.offset_name(400)).mkdir()
    (queue,) = list_queues(tmp_path)
    assert [(file.start, file.size) for file in queue.files] == [(100, 0), (200, ENTRY_SIZE)]
    assert queue.bound == 200 // ENTRY_SIZE + 1


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (GOOD[:-1], 0),
        (NONE, 0),
        (GOOD + NONE + GOOD, 1),
        (PRE_BLANK + GOOD, 2),
        (GOOD * 3 + b"rest", 3),
        (GOOD + encode_entry(Entry(-1, 50, 0)), 1),
        (GOOD + encode_entry(Entry(100, -1, 0)), 1),
    ],
)
def test_entries_count_up_to_the_first_that_is_not_valid(data: bytes, count: int) -> None:
    """An entry is valid by its offset and size alone; pre-blanks are, zeros and half entries are not."""
    assert valid_entries(data) == count


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 14])
def test_max_offset_reads_in_blocks(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is after the last valid entry of the last file that has any, however many entries are read at once."""
    monkeypatch.setattr(files, "BLOCK_ENTRIES", block)
    ends = [
        ({0: GOOD * 5}, 5),
        ({0: GOOD * 3 + NONE * 2}, 3),
        ({0: GOOD * 5, 100: GOOD * 4 + NONE}, 9),
        ({0: GOOD * 5, 100: NONE * 5}, 5),
        ({0: GOOD * 5, 100: b""}, 5),
        ({0: GOOD * 2 + NONE + GOOD * 2}, 2),
        ({100: NONE * 5}, 5),
        ({0: GOOD * 4 + GOOD[:9]}, 4),
        ({0: b""}, None),
        ({7: GOOD}, None),
        ({}, None),
    ]
    for number, (contents, end) in enumerate(ends):
        assert max_offset(a_queue(tmp_path, contents, queue_id=number), 1000) == end, contents


def test_max_offset_past_what_a_log_can_hold(tmp_path: Path) -> None:
    """An end past the bound is no end, whether a file's name or its entries say it."""
    assert max_offset(a_queue(tmp_path, {0: GOOD * 5}), 4) is None
    assert max_offset(a_queue(tmp_path, {(1 << 63) - 8 - ((1 << 63) - 8) % 20: GOOD}, queue_id=1), 1 << 40) is None


def test_a_file_of_any_length_is_read_within_bounds(tmp_path: Path, limits: list[int]) -> None:
    """A sparse file of a terabyte costs no more than its first block."""
    queue = a_queue(tmp_path, {0: GOOD})
    os.truncate(queue.files[0].path, 1 << 40)
    (queue,) = list_queues(tmp_path)
    limits.clear()
    assert max_offset(queue, 1 << 62) == 1
    assert sum(limits) < 1 << 20


SIZES: dict[str, tuple[list[dict[int, int]], int, bool]] = {
    "no queues": ([], DEFAULT_FILE_SIZE, False),
    "one file": ([{0: 400}], 400, False),
    "several files": ([{0: 400, 400: 400}, {0: 400}], 400, False),
    "a cut-off last file": ([{0: 400, 400: 60}], 400, True),
    "cut-off files alone": ([{0: 60, 400: 60, 800: 20}], 400, True),
    "most are cut off alike": ([{0: 60}, {0: 60}, {0: 60, 400: 60}, {400: 400}], 400, True),
    "a missing file": ([{0: 400, 800: 400}], 400, False),
    "an empty last file": ([{0: 400, 400: 0}], 400, False),
    "lengths that disagree": ([{0: 400}, {0: 200}], DEFAULT_FILE_SIZE, True),
    "one against many": ([{0: 400}, {0: 400}, {0: 200}], 400, True),
    "no whole entries": ([{0: 401}], DEFAULT_FILE_SIZE, True),
    "a stray name": ([{0: 400, 400: 400, 800: 400}, {7: 400}], 400, False),
    "nothing but a stray name": ([{7: 0}], DEFAULT_FILE_SIZE, False),
}


@pytest.mark.parametrize(("queues", "size", "is_odd"), SIZES.values(), ids=SIZES)
def test_names_tell_the_file_size(tmp_path: Path, queues: list[dict[int, int]], size: int, is_odd: bool) -> None:
    """The distance of names shows the size before lengths do; a disagreeing length is reported, and settles nothing."""
    for number, contents in enumerate(queues):
        a_queue(tmp_path, {start: b"x" * length for start, length in contents.items()}, queue_id=number)
    reported = found_file_size(list_queues(tmp_path))
    assert (reported.size, reported.odd is not None) == (size, is_odd)
