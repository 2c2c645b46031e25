"""The walk along the log: its states, its pieces, and what a tolerant walk passes over."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.formats import paths
from reput.formats.log.record import CHECK_BODY, Verdict
from reput.log.read.files import list_log_files
from reput.log.read.maps import LogMaps
from reput.log.read.scan import Gap, Keep, LogWalk, RangeWalk, WalkState, checking
from support.records import LogBuilder, logs
from support.small_logs import small_log, written


def damaged_log() -> LogBuilder:
    """A log with damage between records, and a file that ends in damage."""
    log = small_log(5, 1 << 14)
    log.garbage(b"no record at all" * 5)
    log.message("orders")
    log.garbage(b"rubbish!" * 10)
    log.roll()
    log.message("payments")
    return log


def positions(walk: LogWalk) -> list[int]:
    """The log offsets of the records of all pieces."""
    return [offset for piece in walk.pieces() for offset in piece.position.tolist()]


@given(log=logs(), piece_bytes=st.integers(1, 5000), garbage=st.binary(max_size=64))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_pieces_hold_the_records_of_the_plain_walk(log: LogBuilder, piece_bytes: int, garbage: bytes) -> None:
    """Pieces of any size hold the same records as the plain walk, and stop at the same place for the same reason."""
    log.garbage(garbage)
    with tempfile.TemporaryDirectory() as folder:
        files = written(log, Path(folder))
        plain = LogWalk(files, files.min_offset)
        records = [(found.offset, len(found.data)) for found in plain]
        walk = LogWalk(files, files.min_offset, checking(CHECK_BODY)._replace(piece_bytes=piece_bytes))
        found = [
            place for piece in walk.pieces() for place in zip(piece.position.tolist(), piece.size.tolist(), strict=True)
        ]
        assert found == records
        assert (walk.offset, walk.state, walk.verdict) == (plain.offset, plain.state, plain.verdict)


def test_a_walk_says_why_it_stopped(tmp_path: Path) -> None:
    """Zeros, damage, a limit and a missing file are four ends of a walk."""
    log = small_log()
    files = written(log, tmp_path)
    walk = LogWalk(files, 0)
    assert positions(walk) == [put.offset for put in log.placed]
    assert (walk.state, walk.verdict, walk.offset) == (WalkState.BROKEN, Verdict.ZERO, log.end)
    limit = log.placed[7].offset
    walk = LogWalk(files, 0, until=limit)
    assert len(positions(walk)) == 7
    assert (walk.state, walk.offset) == (WalkState.LIMIT, limit)
    (tmp_path / paths.COMMIT_LOG / paths.offset_name(4096)).unlink()
    walk = LogWalk(list_log_files(tmp_path / paths.COMMIT_LOG, tolerant=True), 0)
    assert max(positions(walk)) < 4096
    assert (walk.state, walk.offset) == (WalkState.NO_FILE, 4096)


def test_a_tolerant_walk_passes_damage_and_missing_files(tmp_path: Path) -> None:
    """A tolerant walk finds each record after damage, after a file that ends in damage, and after a missing file."""
    log = damaged_log()
    walk = LogWalk(written(log, tmp_path / "a"), 0, tolerant=True)
    assert positions(walk) == [put.offset for put in log.placed]
    assert walk.records_end == log.end
    walk = LogWalk(walk.log, 0, tolerant=True)
    assert [record.offset for record in walk] == [put.offset for put in log.placed]
    assert walk.verdict is Verdict.ZERO
    strict = LogWalk(walk.log, 0)
    assert len(positions(strict)) == 5
    assert (strict.state, strict.verdict) == (WalkState.BROKEN, Verdict.BAD_MAGIC)
    log = small_log()
    log.write(tmp_path / "b")
    (tmp_path / "b" / paths.COMMIT_LOG / paths.offset_name(4096)).unlink()
    walk = LogWalk(list_log_files(tmp_path / "b" / paths.COMMIT_LOG, tolerant=True), 0, tolerant=True)
    assert positions(walk) == [put.offset for put in log.placed if not 4096 <= put.offset < 8192]


def test_a_caller_ends_the_walk_inside_a_piece(tmp_path: Path) -> None:
    """After `stop_at` the walk reads no further, and its records end at that boundary."""
    log = small_log()
    walk = LogWalk(written(log, tmp_path), 0)
    pieces = 0
    for _ in walk.pieces():
        pieces += 1
        walk.stop_at(log.placed[3].offset)
    assert pieces == 1
    assert (walk.state, walk.offset, walk.records_end) == (WalkState.LIMIT, *[log.placed[3].offset] * 2)


@pytest.mark.parametrize("keep", list(Keep))
def test_columns_keep_what_the_rules_say(keep: Keep, tmp_path: Path) -> None:
    """RECORDS adds the pieces up, QUEUES keeps the rows of queues, NOTHING begins each piece with empty columns."""
    log = small_log(30, 1 << 16)
    [file] = written(log, tmp_path).files
    buffer = np.fromfile(file.path, dtype=np.uint8)
    rules = checking(CHECK_BODY)._replace(piece_bytes=1, keep=keep)
    walk = RangeWalk(buffer, 0, rules, 0, end=log.end)
    records, queues, steps = [], [], 0
    while walk.step():
        steps += 1
        records.append(walk.columns.records)
        queues.append(walk.columns.queues)
    assert steps == 30
    assert records == (list(range(1, 31)) if keep is Keep.RECORDS else [1] * 30)
    assert queues == ([1] * 30 if keep is Keep.NOTHING else [1, 2, *[3] * 28])


def test_a_range_is_searched_and_skipped(tmp_path: Path) -> None:
    """A range that begins anywhere finds its first record, and names each gap with the record after it."""
    log = damaged_log()
    file = written(log, tmp_path).files[0]
    buffer = np.fromfile(file.path, dtype=np.uint8)
    walk = RangeWalk(buffer, 0, checking(CHECK_BODY)._replace(keep=Keep.RECORDS), 1)
    assert walk.seek(file.size)
    assert walk.offset == log.placed[1].offset
    while walk.step():
        pass
    gap = walk.skip(file.size)
    assert gap == Gap(log.placed[4].offset + len(log.placed[4].data), log.placed[5].offset, Verdict.BAD_MAGIC)
    while walk.step():
        pass
    assert walk.state is WalkState.BROKEN
    assert walk.skip(file.size) is None
    assert walk.position.tolist() == [put.offset for put in log.placed[1:6]]


def test_maps_group_offsets_by_file(tmp_path: Path) -> None:
    """Offsets come back by file, a short file as it is; a missing file is left out, or an error if that is strict."""
    log = small_log()
    folder = log.write(tmp_path) / paths.COMMIT_LOG
    short = folder / paths.offset_name(8192)
    short.write_bytes(short.read_bytes()[:1000])
    (folder / paths.offset_name(4096)).unlink()
    maps = LogMaps(folder, 4096)
    offsets = np.array([8200, 10, 4100, 20, -1], dtype=np.int64)
    grouped = {start: (len(array), rows.tolist()) for array, rows, start in maps.by_file(offsets)}
    assert grouped == {0: (4096, [1, 3]), 8192: (1000, [0])}
    with pytest.raises(Exception, match=paths.offset_name(4096)):
        list(maps.by_file(offsets, strict=True))
