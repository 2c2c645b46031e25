"""The walk that bounds a stream's batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.connect.options.options import TopicChoice
from reput.connect.options.selection import Selection
from reput.connect.stream_walk import Limits, StreamWalk
from reput.errors import DamagedLogError
from reput.formats import paths
from reput.formats.log.record import CHECK_BODY, Verdict
from reput.log.read.decode import DecodeSettings
from reput.log.read.files import list_log_files
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

_DECODE = DecodeSettings(CHECK_BODY, tag_items=False, delays_ms=())


def damaged_log(store: Path) -> LogBuilder:
    """A log whose first file ends in damage."""
    log = LogBuilder(4096)
    log.message("orders")
    log.garbage(b"rubbish!" * 10)
    log.roll()
    log.message("orders")
    log.write(store)
    return log


def walk_over(store: Path, *, tolerant: bool) -> StreamWalk:
    """A walk over the log of a store."""
    log = list_log_files(store / paths.COMMIT_LOG)
    return StreamWalk(log, _DECODE, Selection(TopicChoice()), tolerant=tolerant)


def test_a_tolerant_stream_gets_past_a_file_that_ends_in_damage(tmp_path: Path) -> None:
    """With failOnDataLoss=false a batch goes on in the next file, and the damage is in none of its cuts."""
    log = damaged_log(tmp_path)
    walked = walk_over(tmp_path, tolerant=True).run(0, Limits())
    first, last = log.placed
    assert (walked.last, walked.end) == (last.offset, log.end)
    assert [(cut.begin, cut.end) for cut in walked.cuts] == [(0, first.offset + len(first.data)), (4096, log.end)]


def test_a_strict_stream_stops_before_damage(tmp_path: Path) -> None:
    """A batch ends before damage; if the writer has confirmed the log beyond it, the walk raises."""
    log = damaged_log(tmp_path)
    walk = walk_over(tmp_path, tolerant=False)
    end = log.placed[0].offset + len(log.placed[0].data)
    walked = walk.run(0, Limits())
    assert (walked.end, walked.verdict) == (end, Verdict.BAD_MAGIC)
    with pytest.raises(DamagedLogError, match=f"log offset {end}.*confirmed up to {log.end}"):
        walk.run(0, Limits(confirmed=log.end))


def test_a_batch_keeps_its_limits(tmp_path: Path) -> None:
    """A batch takes at most the bytes and messages that it may, but at least one record."""
    log = LogBuilder(1 << 16)
    for _ in range(20):
        log.message("orders")
    log.write(tmp_path)
    walk = walk_over(tmp_path, tolerant=False)
    ends = [put.offset + len(put.data) for put in log.placed]
    assert walk.run(0, Limits(bytes=1)).end == ends[0]
    assert walk.run(0, Limits(bytes=ends[4] + 1)).end == ends[4]
    assert walk.run(0, Limits(messages=7)).end == ends[6]
    assert walk.run(ends[6], Limits(messages=7)).last == log.placed[13].offset
    assert walk.run(0, Limits(offset=0)).cuts == []
