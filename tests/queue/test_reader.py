"""Reading one queue: its span by a handful of reads, its entries in order; files that lie are not believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.queue.batch_consume_queue import BatchEntry, encode_batch_entry
from reput.formats.queue.consume_queue import ENTRY_SIZE, PRE_BLANK, Entry, encode_entry
from reput.queue.batch_kind import BATCH_CODE
from reput.queue.files import QueueFile, list_queues
from reput.queue.reader import PLAIN_CODE, first_entry, queue_span, read_entries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.queue.files import QueueFolder

IN_FILE = 500
FILE_SIZE = IN_FILE * ENTRY_SIZE


def a_queue(folder: Path, first_file: int, blanks: int, records: int) -> QueueFolder:
    """A queue from file number `first_file` on: pre-blanks, then entries at 1000, 1010 ... in the log, then zeros."""
    path = folder / "t" / "0"
    path.mkdir(parents=True, exist_ok=True)
    for old in path.iterdir():
        old.unlink()
    data = PRE_BLANK * blanks + b"".join(encode_entry(Entry(1000 + 10 * n, 10, n)) for n in range(records))
    for at in range(0, max(1, len(data)), FILE_SIZE):
        piece = data[at : at + FILE_SIZE].ljust(FILE_SIZE, b"\0")
        (path / paths.offset_name(first_file * FILE_SIZE + at)).write_bytes(piece)
    (queue,) = list_queues(folder)
    return queue


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3), st.integers(0, IN_FILE - 1), st.integers(0, 3 * IN_FILE), st.integers(0, 20_000))
def test_span_is_what_a_walk_finds(
    tmp_path_factory: pytest.TempPathFactory, first_file: int, blanks: int, records: int, log_min: int
) -> None:
    """The span found by halves is the one that a walk over all entries finds, wherever the log begins."""
    queue = a_queue(tmp_path_factory.mktemp("span"), first_file, blanks, records)
    span = queue_span(queue, log_min)
    start = first_file * IN_FILE
    kept = [n for n in range(records) if 1000 + 10 * n >= log_min]
    assert span.max_offset == start + blanks + records
    assert span.min_offset == (start + blanks + kept[0] if kept else span.max_offset)
    assert span.last == (Entry(1000 + 10 * (records - 1), 10, records - 1) if records else None)


@pytest.mark.parametrize("batches", [False, True], ids=["files", "batches"])
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 700), st.integers(0, 700), st.integers(0, 700))
def test_the_first_entry_is_found_in_either_kind_of_file(
    tmp_path_factory: pytest.TempPathFactory, batches: bool, count: int, written: int, first: int
) -> None:
    """The search finds the first entry that holds; where a file was cut since it was listed, it has ended."""
    path = tmp_path_factory.mktemp("first") / paths.offset_name(0)
    if batches:
        entries = [encode_batch_entry(BatchEntry(n, 1, 0, 0, n, 1)) for n in range(written)]
    else:
        entries = [encode_entry(Entry(n, 1, 0)) for n in range(written)]
    path.write_bytes(b"".join(entries))
    code = BATCH_CODE if batches else PLAIN_CODE
    found = first_entry(
        QueueFile(path, 0, count * code.size), count, code, lambda entry: entry.physical_offset >= first
    )
    assert found == min(count, written, first)


def test_reads_do_not_grow_with_the_queue(tmp_path: Path, limits: list[int]) -> None:
    """The span of a long queue takes a few pages, not the queue."""
    queue = a_queue(tmp_path, 0, 0, 20 * IN_FILE - 3)
    limits.clear()
    assert queue_span(queue).max_offset == 20 * IN_FILE - 3
    assert sum(limits) < 4 * 4096


def test_entries_of_records_behind_a_frontier_do_not_count(tmp_path: Path) -> None:
    """With a bound the queue ends before the first entry that points to it or after it."""
    queue = a_queue(tmp_path, 0, 0, 30)
    assert queue_span(queue, 0, 1000 + 10 * 12).max_offset == 12
    assert queue_span(queue, 0, 0).max_offset == 0


@pytest.mark.parametrize(
    "contents",
    [{}, {0: b""}, {0: b"x" * 19}, {7: PRE_BLANK * 3}, {0: bytes(400)}, {0: b"\xff" * 400}],
    ids=["no file", "empty", "less than an entry", "odd start", "zeros", "all ones"],
)
def test_files_without_an_entry(tmp_path: Path, contents: dict[int, bytes]) -> None:
    """A queue whose files hold no valid entry is an empty one at its first file's start, and never an error."""
    path = tmp_path / "t" / "0"
    path.mkdir(parents=True)
    for start, data in contents.items():
        (path / paths.offset_name(start)).write_bytes(data)
    (queue,) = list_queues(tmp_path)
    assert queue_span(queue) == (0, 0, None, range(0))


def numbers(queue: QueueFolder, begin: int, end: int) -> Sequence[int]:
    """Queue offsets that a read gives, each checked against its entry."""
    found = list(read_entries(queue, begin, end))
    assert all(entry.tags_code == number for number, entry in found)
    return [number for number, _ in found]


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (0, 1), (499, 501), (0, 1500), (1200, 1200), (700, 1499)])
def test_entries_in_order(tmp_path: Path, begin: int, end: int) -> None:
    """Entries come with their queue offsets, over the ends of files."""
    assert numbers(a_queue(tmp_path, 0, 0, 3 * IN_FILE), begin, end) == list(range(begin, end))


@pytest.mark.parametrize("how", ["gone", "short", "empty", "after the end"])
def test_a_queue_with_a_hole_is_said(tmp_path: Path, how: str) -> None:
    """Entries before a file that is missing or too short are given; then an error names the first queue offset."""
    queue = a_queue(tmp_path, 0, 0, 3 * IN_FILE)
    middle = queue.files[1].path
    if how == "gone":
        middle.unlink()
    elif how == "short":
        middle.write_bytes(middle.read_bytes()[: 100 * ENTRY_SIZE + 7])
    elif how == "empty":
        middle.write_bytes(b"")
    (queue,) = list_queues(tmp_path)
    end, place = (3 * IN_FILE + 1, 3 * IN_FILE) if how == "after the end" else (3 * IN_FILE, IN_FILE)
    place += 100 if how == "short" else 0
    found: list[int] = []
    with pytest.raises(DamagedStoreError, match=f"queue offset {place} .*rebuild --only queue"):
        found.extend(number for number, _ in read_entries(queue, 0, end))
    assert found == list(range(place))


def test_a_file_cut_off_after_it_was_listed(tmp_path: Path) -> None:
    """A file that became shorter than its listing is a hole, too, not an endless read."""
    queue = a_queue(tmp_path, 0, 0, IN_FILE)
    queue.files[0].path.write_bytes(b"")
    with pytest.raises(DamagedStoreError, match="queue offset 0 "):
        list(read_entries(queue, 0, IN_FILE))
    assert queue_span(queue).max_offset == 0
