"""Reading a log record by record: walks, their ends, and any offset's next record."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from reput.formats import paths
from reput.formats.log.record import CHECK_NONE, Verdict
from reput.log.read.files import list_log_files
from reput.log.read.reader import end_of, find_record, next_boundary, place, record_at, written_bytes
from reput.log.read.scan import LogRecord, LogWalk, checking
from support import golden
from support.records import LogBuilder
from support.small_logs import small_log, written

if TYPE_CHECKING:
    from pathlib import Path


def test_a_walk_gives_every_record(tmp_path: Path) -> None:
    """A walk from the log's start gives each record once, with its bytes, over all files."""
    log = small_log()
    walk = LogWalk(written(log, tmp_path), 0)
    assert [(found.offset, found.data) for found in walk] == [(put.offset, put.data) for put in log.placed]
    end = end_of(walk)
    assert (end.offset, end.verdict, end.written, end.next_record) == (log.end, Verdict.ZERO, 0, None)
    assert not end.is_damage
    assert not end.is_torn


@pytest.mark.golden
def test_a_walk_ends_where_rocketmq_says() -> None:
    """On RocketMQ's own logs the walk ends at the max offset that RocketMQ gave."""
    for name in ("basic", "crash", "batch"):
        low, high = next(iter(golden.answers(name)))["log"]
        walk = LogWalk(list_log_files(golden.shared(name) / paths.COMMIT_LOG), low)
        assert sum(1 for _ in walk) == golden.facts(name).messages
        assert walk.offset == high


def test_any_offset_finds_the_next_record(tmp_path: Path) -> None:
    """From any offset the next record is the first that starts there or later; a blank leads to the next file."""
    log = small_log()
    files = written(log, tmp_path)
    starts = [put.offset for put in log.placed]
    for before, after in pairwise(starts):
        for offset in {before + 1, (before + after) // 2, after - 1, after}:
            boundary = next_boundary(files, offset)
            assert offset <= boundary <= after
            assert next(iter(LogWalk(files, boundary))).offset == after
    assert next_boundary(files, 0) == 0


def test_an_offset_behind_the_end_is_its_own_answer(tmp_path: Path) -> None:
    """After the last record nothing is found, and the walk from there ends at once."""
    log = small_log()
    files = written(log, tmp_path)
    for offset in (log.end, log.end + 17, files.end_offset, files.end_offset + 1):
        walk = LogWalk(files, next_boundary(files, offset))
        assert not list(walk)
        assert not end_of(walk).is_damage


def test_an_imitation_in_a_body_is_no_boundary(tmp_path: Path) -> None:
    """A record inside a body, though it names its very place, is not what an offset before it finds."""
    log = LogBuilder(1 << 16)
    log.message("orders")
    outer, inner = log.imitation("orders", before=b"x" * 100, after=b"y" * 100)
    after = log.message("orders")
    files = written(log, tmp_path)
    assert find_record(files, outer.offset + 1) == inner
    assert next_boundary(files, outer.offset + 1) == after.offset
    assert next_boundary(files, inner) == after.offset


def test_damage_has_records_behind(tmp_path: Path) -> None:
    """Bytes that are no record, before good records, are damage; the next record is named."""
    log = small_log(10, 1 << 16)
    at = log.garbage(b"no record at all" * 5)
    after = log.message("orders")
    files = written(log, tmp_path)
    walk = LogWalk(files, 0)
    assert sum(1 for _ in walk) == 10
    end = end_of(walk)
    assert (end.offset, end.verdict, end.next_record) == (at, Verdict.BAD_MAGIC, after.offset)
    assert end.is_damage
    assert next_boundary(files, at + 3) == after.offset


def test_damage_reaches_over_files(tmp_path: Path) -> None:
    """Damage reaches over files: records of the next file show that the rest of the one before is damage."""
    log = small_log(10, 1 << 16)
    at = log.garbage(b"rubbish!" * 10)
    log.roll()
    after = log.message("orders")
    walk = LogWalk(written(log, tmp_path), 0)
    list(walk)
    assert (end_of(walk).offset, end_of(walk).next_record) == (at, after.offset)


def test_a_torn_tail_is_no_damage(tmp_path: Path) -> None:
    """The first half of a record, with zeros after it, is a torn end: its written bytes are counted."""
    log = small_log(10, 1 << 16)
    half = log.placed[-1].data[:100]
    at = log.garbage(half)
    walk = LogWalk(written(log, tmp_path), 0)
    list(walk)
    end = end_of(walk)
    assert end.offset == at
    assert end.is_torn
    assert not end.is_damage
    assert end.written == len(half.rstrip(b"\0"))


def test_a_bad_crc_stops_the_walk(tmp_path: Path) -> None:
    """A flipped bit in a body stops the walk, unless CRCs are not asked for."""
    log = small_log(5, 1 << 16)
    store = tmp_path
    log.write(store)
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    data[log.placed[2].offset + 95] ^= 1
    path.write_bytes(data)
    files = list_log_files(store / paths.COMMIT_LOG)
    walk = LogWalk(files, 0)
    assert len(list(walk)) == 2
    assert (end_of(walk).verdict, end_of(walk).next_record) == (Verdict.BAD_CRC, log.placed[3].offset)
    assert len(list(LogWalk(files, 0, checking(CHECK_NONE)))) == 5


def test_a_missing_file_stops_the_walk(tmp_path: Path) -> None:
    """A hole between files ends the walk before it, and counts as damage."""
    log = small_log()
    log.write(tmp_path)
    (tmp_path / paths.COMMIT_LOG / paths.offset_name(4096)).unlink()
    walk = LogWalk(list_log_files(tmp_path / paths.COMMIT_LOG, tolerant=True), 0)
    assert all(found.offset < 4096 for found in walk)
    assert (walk.offset, end_of(walk).next_record) == (4096, 8192)


def test_a_short_file_stops_the_walk(tmp_path: Path) -> None:
    """A file that lost its end stops the walk there: no byte outside is read."""
    log = small_log()
    log.write(tmp_path)
    path = tmp_path / paths.COMMIT_LOG / paths.offset_name(4096)
    path.write_bytes(path.read_bytes()[:1000])
    walk = LogWalk(list_log_files(tmp_path / paths.COMMIT_LOG, tolerant=True), 0)
    assert all(found.offset + len(found.data) <= 4096 + 1000 for found in walk)
    assert end_of(walk).next_record == 8192


def test_record_at(tmp_path: Path) -> None:
    """A place gives its record, or says what is there instead."""
    log = small_log()
    files = written(log, tmp_path)
    found = record_at(files, log.placed[3].offset)
    assert isinstance(found, LogRecord)
    assert found.decode() == log.placed[3].record
    assert isinstance(record_at(files, log.placed[3].offset + 1), Verdict)
    assert record_at(files, 1 << 40) is Verdict.ZERO


def test_places_are_named(tmp_path: Path) -> None:
    """A place is shown as file, position in it, and log offset."""
    files = written(small_log(), tmp_path)
    assert place(files, 4100).endswith(f"{paths.offset_name(4096)} at 4 (log offset 4100)")
    assert "log offset 999999" in place(files, 999_999)


def test_written_bytes_reach_to_the_last_that_is_not_zero(tmp_path: Path) -> None:
    """Zeros after the last byte do not count; a pre-allocated file after them adds nothing."""
    log = small_log(3, 1 << 16)
    end = log.end
    log.garbage(b"\0\0\1\0")
    log.write(tmp_path, preallocated=True)
    files = list_log_files(tmp_path / paths.COMMIT_LOG)
    assert written_bytes(files, end) == 3
    assert written_bytes(files, end + 3) == 0
