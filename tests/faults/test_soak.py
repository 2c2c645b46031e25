"""The soak: a short one loses nothing, and its verdict sees what is lost and what grows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.checked import assert_sound
from support.soak import verdict
from support.soak.__main__ import Soak, SoakError
from support.soak.board import Board, Timed, Weather
from support.soak.programs import body_of
from support.soak.samples import Sample, disk_bytes, sample
from support.soak.verdict import Moment

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.mark.xdist_group("soak")
def test_a_short_soak_loses_nothing(tmp_path: Path) -> None:
    """In each weather all that is stored is read in order, and found by key, beside a follower and rebuilds."""
    soak = Soak(tmp_path, seconds=0, turn_s=1.0, seed=1)
    soak.run()
    board = soak.board
    assert board.put.min() > 0
    assert board.state[Board.ASKED] > 0
    assert board.state[Board.FOLLOWED] > 0
    assert all(board.times[weather].sum() for weather in Weather)
    assert len(soak.report()) > len(Weather)
    assert "none lost" in soak.last_line(1.0)
    assert_sound(tmp_path / "store")


def test_a_program_that_ends_is_an_error(tmp_path: Path) -> None:
    """A soak ends with the last words of a program that has ended."""
    (tmp_path / "store").write_bytes(b"no folder")
    with pytest.raises(SoakError, match=r"has ended: (?s:.*)store"):
        Soak(tmp_path, seconds=0, turn_s=1.0, seed=1).run()


def test_what_is_lost_is_said(tmp_path: Path) -> None:
    """A message too few, and a body that differs, are named with their queue."""
    board = Board(tmp_path / "board", new=True)
    assert verdict.lost(board) == []
    board.put[3], board.read[3] = 7, 6
    board.put_sums[4] = 1
    assert verdict.lost(board) == [
        "queue 3: 7 messages were stored, 6 read",
        "queue 4: the checksums of what was stored and of what was read differ",
    ]


@pytest.mark.parametrize(
    ("last", "disk", "said"),
    [
        (Sample(100 * MIB, 20, 9), 80 * MIB, []),
        (Sample(150 * MIB, 20, 9), 80 * MIB, ["writer: 104,857,600 bytes of memory in"]),
        (Sample(100 * MIB, 29, 9), 80 * MIB, ["writer: 20 handles in"]),
        (Sample(100 * MIB, 20, 12), 80 * MIB, ["writer: 9 threads in"]),
        (Sample(100 * MIB, 20, 9), 180 * MIB, ["the store: 83,886,080 bytes on the disk in"]),
    ],
    ids=["flat", "memory", "handles", "threads", "disk"],
)
def test_what_grows_is_said(last: Sample, disk: int, said: list[str]) -> None:
    """Memory, handles, threads and disk that are higher in the last third than in the second one are named."""
    start, first = Moment({"writer": Sample(1, 1, 1)}, 1), Moment({"writer": Sample(100 * MIB, 20, 9)}, 80 * MIB)
    moments = [start] * 40 + [first] * 40 + [Moment({"writer": last}, disk)] * 40
    found = verdict.grown(moments)
    assert [one[: len(begin)] for one, begin in zip(found, said, strict=True)] == said


def test_indexes_that_fall_back_are_said() -> None:
    """A follower that is further and further from the end of the log is named."""
    moments = [Moment({}, 1, lag) for lag in [0] * 40 + [10 * MIB] * 40 + [200 * MIB] * 40]
    assert [one.partition(":")[0] for one in verdict.grown(moments)] == ["the follower"]
    assert "209,715,200 in the last one" in verdict.grown(moments)[0]


def test_histograms_know_the_time_within_a_quarter(tmp_path: Path) -> None:
    """A quantile is that of the times counted, rounded up by a quarter at most."""
    board = Board(tmp_path / "board", new=True)
    for microseconds in range(1, 1001):
        board.took(Timed.PUT, microseconds * 1000)
    for share in (0.5, 0.99):
        found = board.quantile_ms(Weather.CALM, Timed.PUT, share)
        assert share <= found <= share * 1.26
    assert board.quantile_ms(Weather.CALM, Timed.GET, 0.5) != board.quantile_ms(Weather.CALM, Timed.GET, 0.5)


def test_samples_see_this_process(tmp_path: Path) -> None:
    """A sample has memory, handles and threads; a process that is gone has none."""
    seen = sample(os.getpid())
    assert seen is not None
    assert seen.memory > MIB
    assert min(seen.handles, seen.threads) > 0
    assert sample(1 << 30) is None
    (tmp_path / "file").write_bytes(body_of(1, 2) + bytes(4096))
    assert disk_bytes(tmp_path) >= 4096
