"""The end of a queue on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.formats import paths
from reput.formats.queue.consume_queue import PRE_BLANK, Entry, blank_end, decode_entry, encode_entry
from reput.queue.files import list_queues, max_offset, valid_entries
from reput.store.compare.queue_rules import entries_after

if TYPE_CHECKING:
    from pathlib import Path

GOOD = encode_entry(Entry(100, 50, 7))


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (bytes(60), 0),
        (GOOD * 3 + bytes(40), 3),
        (PRE_BLANK * 2 + GOOD, 3),
        (GOOD + bytes(20) + GOOD, 1),
        (encode_entry(Entry(-1, 50, 0)) + GOOD, 0),
        (GOOD + encode_entry(Entry(100, -5, 0)), 1),
        (GOOD + GOOD[:19], 1),
    ],
)
def test_valid_entries(data: bytes, count: int) -> None:
    """Entries count from the start while RocketMQ takes them for entries."""
    assert valid_entries(data) == count


def queue_with(folder: Path, *files: tuple[int, bytes]) -> int | None:
    """Return the end of a queue with these files."""
    path = folder / "topic" / "3"
    path.mkdir(parents=True)
    for start, data in files:
        (path / paths.offset_name(start)).write_bytes(data)
    (queue,) = list_queues(folder)
    assert (queue.topic, queue.queue_id) == ("topic", 3)
    return max_offset(queue, 1000)


def test_queue_ends(tmp_path: Path) -> None:
    """A queue ends after the last valid entry of its last file that has one."""
    full, half = GOOD * 5, GOOD * 2 + bytes(60)
    assert queue_with(tmp_path / "none") is None
    assert queue_with(tmp_path / "half", (0, half)) == 2
    assert queue_with(tmp_path / "two", (0, full), (100, half)) == 7
    assert queue_with(tmp_path / "late", (200, half)) == 12
    assert queue_with(tmp_path / "empty", (0, full), (100, bytes(100))) == 5
    assert queue_with(tmp_path / "zero length", (0, full), (100, b"")) == 5
    assert queue_with(tmp_path / "kept", (200, bytes(100))) == 10
    assert queue_with(tmp_path / "far", ((1 << 50) * 20, half)) is None
    assert queue_with(tmp_path / "odd name", (7, half)) is None


def test_blanks_that_keep_a_numbering_may_stand_behind() -> None:
    """After the last record a run of blanks from which RocketMQ can continue is sound; any other entry is not."""
    assert list(entries_after(blank_end(3) + bytes(40)).places) == []
    assert list(entries_after(PRE_BLANK * 3).places) == []
    assert list(entries_after(blank_end(2) + blank_end(2) + bytes(20)).places) == []
    assert list(entries_after(PRE_BLANK * 2 + bytes(40)).places) == [0, 1]
    assert list(entries_after(blank_end(2) + GOOD).places) == [2]
    assert list(entries_after(bytes(20) + blank_end(2)).places) == [1, 2]
    assert list(entries_after(b"").places) == []


def test_a_queue_of_blanks_ends_with_one_of_size_1() -> None:
    """RocketMQ takes the last entry's end for what is built already: it must be below any new message's."""
    entries = [decode_entry(blank_end(3), at) for at in (0, 20, 40)]
    assert all(entry.is_pre_blank and entry.is_valid for entry in entries)
    assert [entry.physical_offset + entry.size for entry in entries] == [0x7FFFFFFF] * 2 + [1]
    assert blank_end(0) == b""


def test_folders_that_are_no_queue(tmp_path: Path) -> None:
    """Files between the topics, and folders that are no number, are passed over."""
    for name in ("a/0", "a/01", "a/-1", "a/x", "a/4294967296", "b/7"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "CURRENT").touch()
    (tmp_path / "a" / "5").touch()
    assert [(queue.topic, queue.queue_id) for queue in list_queues(tmp_path)] == [("a", 0), ("b", 7)]
