"""The files of the timer wheel as they are written: RocketMQ's layout, read again by what reads RocketMQ's."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.errors import DamagedStoreError, NoSpaceError, ReputError
from reput.files import fs
from reput.formats import paths
from reput.formats.pending import timer_checkpoint, timer_wheel
from reput.formats.pending.timer_checkpoint import TimerCheckpoint
from reput.formats.pending.timer_log import DELETE, FOLDER, UNIT, UNIT_SIZE, TimerUnit
from reput.formats.pending.timer_wheel import SLOT, SLOT_SIZE, SLOTS
from reput.store.pending.timer_log import TimerLogReader
from reput.store.pending.timer_wheel import WheelReader, read_timer_checkpoint
from reput.store.write.timer_files import ROLL_WINDOW_MS, TimerFiles, TimerState, WheelSlot
from support.disks import failing
from support.power.disk import NOTHING, Disk
from support.power.journal import Write
from support.power.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_MS = 1_900_000_000_000
LOG_SIZE = 10 * UNIT_SIZE + 20
"""Ten units a file, and no room for an eleventh with its blank."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty store's folder."""
    return tmp_path


def opened(root: Path) -> TimerFiles:
    """The files, as they are written now."""
    return TimerFiles(root, LOG_SIZE)


def unit(number: int, magic: int = 0) -> TimerUnit:
    """A message to take in."""
    return TimerUnit(0, 0, magic, 0, 0, number * 1000, 500 + number, number)


def places(files: TimerFiles, second: int) -> list[int]:
    """The log offsets of the messages of a second."""
    found = files.units_of(BEGIN_MS + second * 1000)
    assert found.damage is None
    return [one.physical_offset for one in found.units]


@pytest.mark.behaviour(
    "TimerWheelTest.testPutGet",
    "TimerWheelTest.testRecoveryData",
    "TimerWheelTest.testRecoveryFixedTTL",
    "TimerLogTest.testRecovery",
)
@given(seconds=st.lists(st.integers(0, 5), max_size=40), cuts=st.sets(st.integers(0, 39)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_second_has_its_messages_in_order(
    tmp_path_factory: pytest.TempPathFactory, seconds: list[int], cuts: set[int]
) -> None:
    """Each second returns what was taken in for it, over any number of files and opens; other readers see the same."""
    root = tmp_path_factory.mktemp("store")
    files = opened(root)
    files.persist(TimerState(0, BEGIN_MS))
    for number, second in enumerate(seconds):
        if number in cuts:
            files.close()
            files = opened(root)
        files.add(BEGIN_MS + second * 1000, BEGIN_MS, unit(number))
    wanted = [[n * 1000 for n, at in enumerate(seconds) if at == second] for second in range(6)]
    assert [places(files, second) for second in range(6)] == wanted
    used = sorted({BEGIN_MS + second * 1000 for second in seconds})
    assert files.first_used(BEGIN_MS, BEGIN_MS + 10_000) == (used[0] if used else None)
    files.close()
    log, checkpoint = TimerLogReader(root), read_timer_checkpoint(root)
    assert checkpoint is not None
    wheel = WheelReader(root / timer_wheel.FILE_NAME, log, checkpoint)
    slots = {slot.time_ms: [log.unit_at(at).physical_offset for at in slot.positions] for slot in wheel.slots()}
    assert slots == {BEGIN_MS + second * 1000: places for second, places in enumerate(wanted) if places}


@pytest.mark.behaviour("TimerWheelTest.testPutRevise")
def test_slots_that_a_kill_has_lost_come_from_the_log(root: Path) -> None:
    """An open finds units that no slot refers to, and mends the slots; the last unit says how far the queue is."""
    with opened(root) as files:
        files.persist(TimerState(0, BEGIN_MS))
        for number in range(25):
            files.add(BEGIN_MS + number % 3 * 1000, BEGIN_MS, unit(number))
    slot = BEGIN_MS // 1000 % SLOTS * SLOT_SIZE
    fs.write_at(str(root / timer_wheel.FILE_NAME), SLOTS * SLOT_SIZE, fs.owner_of(root), bytes(2 * SLOT_SIZE), slot)
    with opened(root) as files:
        assert [places(files, second) for second in range(3)] == [
            [number * 1000 for number in range(25) if number % 3 == second] for second in range(3)
        ]
        assert files.last_unit is not None
        assert files.last_unit.physical_offset == 24_000


def test_a_unit_that_refers_to_a_later_one_ends_a_slot_in_one_way(root: Path) -> None:
    """The unit itself is good; who writes the wheel and who reads it end the slot there, and name the same damage."""
    with opened(root) as files:
        for number in range(2):
            files.add(BEGIN_MS, BEGIN_MS, unit(number))
        log = root / FOLDER / paths.offset_name(0)
        at = UNIT_SIZE + UNIT.dtype.fields["previous_position"][1]
        fs.write_at(str(log), LOG_SIZE, fs.owner_of(root), (5 * UNIT_SIZE).to_bytes(8, "big"), at)
        found = files.units_of(BEGIN_MS)
    assert [one.physical_offset for one in found.units] == [1000]
    what = f"the unit at {UNIT_SIZE} refers to a later one, {5 * UNIT_SIZE}"
    assert found.damage is not None
    assert found.damage.endswith(what)
    checkpoint = TimerCheckpoint(last_read_time_ms=BEGIN_MS)
    (slot,) = WheelReader(root / timer_wheel.FILE_NAME, TimerLogReader(root), checkpoint).slots()
    assert slot.damage is not None
    assert (list(slot.positions), slot.damage.what) == ([UNIT_SIZE], what)


def test_a_time_beyond_the_window_is_cut(root: Path) -> None:
    """A message that is due later than two days is given out earlier, marked as rolled; marks of deletion are kept."""
    with opened(root) as files:
        files.add(BEGIN_MS + ROLL_WINDOW_MS + 1000, BEGIN_MS, unit(1))
        files.add(BEGIN_MS + 2 * ROLL_WINDOW_MS, BEGIN_MS, unit(2, DELETE))
        (near,) = files.units_of(BEGIN_MS + ROLL_WINDOW_MS // 2).units
        (far,) = files.units_of(BEGIN_MS + ROLL_WINDOW_MS).units
    assert (near.is_rolled, near.is_delete_mark) == (True, False)
    # A mark that is rolled marks nothing yet.
    assert (far.is_rolled, far.magic & DELETE, far.is_delete_mark) == (True, DELETE, False)


@pytest.mark.behaviour("TimerWheelTest.testRecoveryFixedTTL")
def test_a_wheel_of_another_length_is_refused(root: Path) -> None:
    """The file is named, and nothing is written to it."""
    path = root / timer_wheel.FILE_NAME
    path.write_bytes(b"short")
    with pytest.raises(DamagedStoreError, match=str(path)):
        opened(root)
    assert path.read_bytes() == b"short"


@pytest.mark.behaviour("TimerWheelTest.testGetNum")
def test_a_slot_counts_its_messages(root: Path) -> None:
    """Each message adds one to the count of its second, and each mark of deletion takes one, also after an open."""
    for magics in ((0, 0, 0), (DELETE,)):
        with opened(root) as files:
            for magic in magics:
                files.add(BEGIN_MS, BEGIN_MS, unit(1, magic))
    data = (root / timer_wheel.FILE_NAME).read_bytes()
    slot = WheelSlot(*SLOT.struct.unpack_from(data, BEGIN_MS // 1000 % SLOTS * SLOT_SIZE))
    assert slot.balance == 2


@pytest.mark.behaviour(
    "TimerCheckPointTest.testCheckPoint",
    "TimerCheckPointTest.testNewCheckPoint",
    "TimerCheckPointTest.testEncodeDecode",
)
def test_progress_is_there_at_the_next_open(root: Path) -> None:
    """Seven values survive an open; a checkpoint of an older broker has four, and counts from 0."""
    with opened(root) as files:
        files.add(BEGIN_MS, BEGIN_MS, unit(1))
        for number in (1, 2):
            files.persist(TimerState(number, BEGIN_MS + number))
        noted = files.checkpoint
    assert noted[:4] == (BEGIN_MS + 2, UNIT_SIZE, 2, 2)
    assert noted.counter == 2
    with opened(root) as files:
        assert files.checkpoint == noted
    path = root / paths.CONFIG / timer_checkpoint.FILE_NAME
    path.write_bytes(path.read_bytes()[:32].ljust(4096, b"\0"))
    with opened(root) as files:
        assert files.checkpoint == TimerCheckpoint(*noted[:4])


def test_a_file_of_the_timer_log_that_cannot_be_made(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full as the log goes on to its next file takes nothing in; with room the log goes on there."""
    with opened(root) as files:
        for number in range(10):
            files.add(BEGIN_MS, BEGIN_MS, unit(number))
        for function in ("open_sized", "pwrite"):
            with monkeypatch.context() as patch:
                patch.setattr(fs, function, failing(getattr(fs, function), errno.ENOSPC, 1))
                with pytest.raises(NoSpaceError):
                    files.add(BEGIN_MS, BEGIN_MS, unit(10))
        files.add(BEGIN_MS, BEGIN_MS, unit(10))
        assert places(files, 0) == [number * 1000 for number in range(11)]
    with opened(root) as files:
        assert places(files, 0) == [number * 1000 for number in range(11)]


def test_a_failed_sync_keeps_the_checkpoint_of_timers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed sync a later one proves nothing: the checkpoint stays, and the next open writes all again."""
    with opened(root) as files:
        files.persist(TimerState(0, BEGIN_MS))
        files.add(BEGIN_MS, BEGIN_MS, unit(1))
        with monkeypatch.context() as patch:
            patch.setattr(fs, "sync", failing(fs.sync, errno.EIO, 1))
            patch.setattr(fs, "sync_data", failing(fs.sync_data, errno.EIO, 1))
            with pytest.raises(ReputError, match="cannot"):
                files.persist(TimerState(1, BEGIN_MS))
        with pytest.raises(ReputError, match="an earlier sync has failed"):
            files.persist(TimerState(1, BEGIN_MS))
    kept = read_timer_checkpoint(root)
    assert kept is not None
    assert kept.last_timer_log_flush_pos == 0
    with Recorder(root) as recorder, opened(root) as files:
        files.persist(TimerState(1, BEGIN_MS))
    written = {one.offset + len(one.data) for one in recorder.journal if isinstance(one, Write)}
    slot = BEGIN_MS // 1000 % SLOTS * SLOT_SIZE
    assert UNIT_SIZE in written
    assert any(end > slot for end in written)


def test_the_names_of_timer_files_are_durable_before_the_checkpoint(tmp_path: Path) -> None:
    """A power cut that keeps the checkpoint keeps the wheel, and each file of the timer log below it."""
    root = tmp_path / "disk"
    (root / paths.CONFIG).mkdir(parents=True)
    with Recorder(root) as recorder, opened(root) as files:
        for number in range(25):
            files.add(BEGIN_MS, BEGIN_MS, unit(number))
            files.persist(TimerState(number, BEGIN_MS))
    disk = Disk(recorder.before)
    for entry in recorder.journal:
        disk.apply(entry)
        kept = disk.state(NOTHING)
        data = kept.get(f"{paths.CONFIG}/{timer_checkpoint.FILE_NAME}")
        if isinstance(data, bytes):
            end = timer_checkpoint.decode_timer_checkpoint(data).last_timer_log_flush_pos
            assert timer_wheel.FILE_NAME in kept
            assert all(f"{FOLDER}/{paths.offset_name(start)}" in kept for start in range(0, end, LOG_SIZE))
