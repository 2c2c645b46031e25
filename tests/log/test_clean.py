"""Expired files go, the oldest first; a disk that fills makes more go, and puts stop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import ConfigError
from reput.files import disk_space, fs
from reput.log.append.clean import AgedFile, clean, decide_removal
from reput.log.append.settings import LogSettings
from reput.log.encode.message import Message, PutStatus
from support.appends import open_log, read_log

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
SETTINGS = LogSettings()
EMPTY, USED, FULLER, FULL = 10, 76, 86, 91


def aged(*hours: float) -> list[AgedFile]:
    """Files of these ages, the first the oldest."""
    return [AgedFile(number * 1000, NOW_MS - int(age * HOUR_MS)) for number, age in enumerate(hours)]


def test_expired_files_go_by_time_up() -> None:
    """At the hour of deleteWhen 10 of 15 expired files go, then the other 5; the last file stays however old it is."""
    files = aged(*[100] * 15, 1)
    first = decide_removal(files, NOW_MS, 4, EMPTY, SETTINGS)
    assert first.remove == tuple(range(0, 10_000, 1000))
    second = decide_removal(files[10:], NOW_MS, 4, EMPTY, SETTINGS)
    assert second.remove == tuple(range(10_000, 15_000, 1000))
    assert decide_removal(files[15:], NOW_MS, 4, EMPTY, SETTINGS).remove == ()
    assert decide_removal(aged(100), NOW_MS, 4, FULL, SETTINGS).remove == ()
    assert decide_removal([], NOW_MS, 4, FULL, SETTINGS).remove == ()


@pytest.mark.parametrize(
    ("hour", "disk", "manual", "goes"),
    [(5, EMPTY, False, 0), (4, EMPTY, False, 2), (5, USED, False, 2), (5, EMPTY, True, 2), (5, 75, False, 0)],
)
def test_when_expired_files_go(hour: int, disk: int, manual: bool, goes: int) -> None:
    """By the hour, by a disk over its ratio, or when asked; always up to the first file that has not expired."""
    files = aged(100, 72, 71.9, 100, 0)
    assert len(decide_removal(files, NOW_MS, hour, disk, SETTINGS, manual=manual).remove) == goes


def test_a_filling_disk_takes_files_of_any_age() -> None:
    """Above the forcible ratio 10 files a run go whatever their age, unless that is switched off."""
    files = aged(*[0] * 15)
    assert len(decide_removal(files, NOW_MS, 5, FULLER, SETTINGS).remove) == 10
    assert decide_removal(files, NOW_MS, 5, 85, SETTINGS).remove == ()
    kept = LogSettings(clean_file_forcibly_enable=False)
    assert decide_removal(files, NOW_MS, 5, FULLER, kept).remove == ()
    # As with RocketMQ there must be a reason to run at all: the ratio is reached, or it is the hour.
    patient = LogSettings(disk_max_used_space_ratio=95)
    assert decide_removal(files, NOW_MS, 5, FULLER, patient).remove == ()
    assert len(decide_removal(files, NOW_MS, 4, FULLER, patient).remove) == 10


@pytest.mark.parametrize(("percent", "full"), [(90, False), (91, True), (100, True)])
def test_puts_stop_above_the_warning_level(percent: int, full: bool) -> None:
    """The disk-full flag goes up above the warning level, and down again with room."""
    assert decide_removal([], NOW_MS, 5, percent, SETTINGS).disk_full is full


def test_ratios_have_bounds() -> None:
    """Ratios outside RocketMQ's bounds are taken as the nearest that it allows."""
    low = LogSettings(disk_max_used_space_ratio=0, disk_space_clean_forcibly_ratio=0, disk_space_warning_level_ratio=0)
    assert not decide_removal([], NOW_MS, 5, 35, low).disk_full
    assert decide_removal([], NOW_MS, 5, 36, low).disk_full
    assert len(decide_removal(aged(0, 0), NOW_MS, 5, 31, low).remove) == 1
    assert len(decide_removal(aged(0, 0), NOW_MS, 5, 30, low).remove) == 0
    assert len(decide_removal(aged(100, 0), NOW_MS, 5, 11, low).remove) == 1
    high = LogSettings(disk_space_warning_level_ratio=100)
    assert decide_removal([], NOW_MS, 5, 91, high).disk_full


@given(
    st.lists(st.integers(0, 200), max_size=30),
    st.integers(0, 23),
    st.integers(0, 100),
    st.booleans(),
    st.integers(1, 12),
)
def test_laws(ages: list[int], hour: int, disk: int, manual: bool, batch: int) -> None:
    """Files go oldest first without a hole, at most a batch, never the last, and each run has a reason."""
    files = aged(*ages)
    decision = decide_removal(files, NOW_MS, hour, disk, LogSettings(delete_file_batch_max=batch), manual=manual)
    removed = len(decision.remove)

    assert decision.remove == tuple(file.start for file in files[:removed])
    assert removed <= min(batch, max(len(files) - 1, 0))
    assert bool(decision.reason) == bool(removed)
    if disk <= 85:
        assert all(age >= 72 for age in ages[:removed])


@pytest.mark.parametrize("text", ["24", "4;x", "-1", "04,05"])
def test_hours_that_are_none(text: str) -> None:
    """DeleteWhen is a list of hours with semicolons between them."""
    with pytest.raises(ConfigError, match="deleteWhen"):
        LogSettings(delete_when=text)
    assert LogSettings(delete_when="04;16").delete_hours() == {4, 16}


def test_clean_removes_and_the_log_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed files are gone from the disk, views of them stay good, and the log is appended to as before."""
    settings = LogSettings(mapped_file_size_commit_log=1000)
    monkeypatch.setattr(disk_space, "disk_use", lambda _: disk_space.DiskUse(10, 90))
    with open_log(tmp_path, file_size=1000) as log:
        for _ in range(5):
            log.append(Message("orders", bytes(800)))
        log.flush()
        for number in range(3):
            os.utime(tmp_path / f"{number * 1000:020d}", (1000, 1000))
        (tmp_path / "unknown").touch()
        with fs.mapped(tmp_path / f"{0:020d}", 0, 1000) as view:
            before = view.tobytes()
            assert clean(tmp_path, settings, deletes=True, manual=True).remove == (0, 1000, 2000)
            assert view.tobytes() == before
        assert clean(tmp_path, settings, deletes=True, manual=True).remove == ()
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"{3000:020d}", f"{4000:020d}", "unknown"]
        assert log.append(Message("orders", b"")).status is PutStatus.PUT_OK
    assert [record.queue_offset for record in read_log(tmp_path, 3000)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("used", "usable", "percent"), [(0, 0, 0), (0, 100, 0), (1, 999, 1), (900, 100, 90), (901, 99, 91)]
)
def test_the_disks_use_is_rounded_up(used: int, usable: int, percent: int) -> None:
    """A disk just above a ratio counts as above it, as RocketMQ has it."""
    assert disk_space.DiskUse(used, usable).percent == percent
