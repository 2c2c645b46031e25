"""Timer messages that wait, in stores made here: each way in which a wheel and its log can differ."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import reput
from reput.files import fs
from reput.files.database_owner import DatabaseOwner
from reput.formats import paths
from reput.formats.pending import timer_log, timer_wheel
from reput.formats.pending.timer_checkpoint import TimerCheckpoint
from reput.formats.pending.timer_database import QUEUE_OFFSET_KEY, TIMELINE_KEY, timer_key
from reput.formats.pending.timer_log import DELETE, ROLL, UNIT_SIZE
from reput.formats.pending.timer_wheel import SLOT, SLOTS
from reput.store.pending.verify import RecordState
from support.checked import assert_sound
from support.encoders import encode_timer_mark, encode_timer_value
from support.pending import DUE_MS, PutTimer, put, put_timer, unit_of, waiting_store, write_database, write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from reput.store.pending.timer_row import PendingTimer


def timers_of(root: Path) -> tuple[list[PendingTimer], list[str], list[str]]:
    """Return the rows of a store, its damage, and its notes."""
    with reput.MessageStore.open(root, read_only=True) as store:
        pending = store.pending
        rows = list(pending.timers())
        return rows, pending.damage, pending.notes


@pytest.fixture
def timers(tmp_path: Path) -> list[PutTimer]:
    """A store with four timer messages in their queue: two are due at one second."""
    with waiting_store(tmp_path) as store:
        times = (DUE_MS + 3000, DUE_MS, DUE_MS + 3000, DUE_MS + 1000)
        return [put_timer(store, time, key=f"u{number}") for number, time in enumerate(times)]


@pytest.fixture
def root(tmp_path: Path, timers: list[PutTimer]) -> Path:
    """The folder of the same store, with a wheel that has taken in all of them."""
    assert_sound(tmp_path / "store")
    write_wheel(tmp_path / "store", [unit_of(timer) for timer in timers])
    return tmp_path / "store"


def keys_of(rows: list[PendingTimer]) -> list[str | None]:
    """Return the unique keys of rows."""
    return [row.unique_key for row in rows]


def test_timers_come_by_time_and_within_a_second_in_the_order_of_the_log(root: Path) -> None:
    """The wheel gives out the oldest message of a slot first."""
    rows, damage, _ = timers_of(root)

    assert (keys_of(rows), damage) == (["u1", "u3", "u0", "u2"], [])
    assert {row.state for row in rows} == {RecordState.VERIFIED}
    assert {(row.topic, row.queue_id, row.source) for row in rows} == {("orders", 2, "wheel")}


def test_delivered_slots_stay_in_the_wheel_and_do_not_count(root: Path, timers: list[PutTimer]) -> None:
    """Messages that are due before the checkpoint's read time have been delivered."""
    write_wheel(root, [unit_of(timer) for timer in timers], TimerCheckpoint(DUE_MS + 1000, 4 * UNIT_SIZE, 4, 4))

    assert keys_of(timers_of(root)[0]) == ["u3", "u0", "u2"]


@pytest.mark.behaviour("TimerMessageStoreTest.testStateAndRecover")
def test_units_that_the_wheel_lacks_are_taken_from_the_log(root: Path, timers: list[PutTimer]) -> None:
    """A broker that was killed has a log that is newer than its wheel, and reads it when it starts."""
    write_wheel(root, [unit_of(timer) for timer in timers], in_wheel=1)

    assert sorted(map(str, keys_of(timers_of(root)[0]))) == ["u0", "u1", "u2", "u3"]


def test_messages_that_were_not_taken_in_are_read_from_the_queue(root: Path, timers: list[PutTimer]) -> None:
    """The last unit of the log says how far the queue was taken in, if the checkpoint is older."""
    units = [unit_of(timer) for timer in timers[:2]]
    write_wheel(root, units, TimerCheckpoint(DUE_MS - 1000, 2 * UNIT_SIZE, 0, 0))
    rows, damage, _ = timers_of(root)

    assert [(row.unique_key, row.source) for row in rows] == [
        ("u1", "wheel"),
        ("u0", "wheel"),
        ("u2", "queue"),
        ("u3", "queue"),
    ]
    assert damage == []


@pytest.mark.behaviour("TimerMessageStoreTest.testRollMessage")
def test_a_rolled_message_has_both_its_times(tmp_path: Path) -> None:
    """A message after the window is given out earlier, and says when it is due and how often it was put back."""
    with waiting_store(tmp_path) as store:
        timer = put_timer(store, DUE_MS + 86_400_000, TIMER_ROLL_TIMES="3")
    write_wheel(tmp_path / "store", [unit_of(timer, 1 | ROLL, DUE_MS)])
    (row,) = timers_of(tmp_path / "store")[0]

    assert (row.wheel_timestamp, row.deliver_timestamp) == (DUE_MS, timer.due_ms)
    assert (row.is_rolled, row.roll_times, row.state) == (True, 3, RecordState.VERIFIED)


@pytest.mark.behaviour("TimerMessageStoreTest.testDeleteTimerMessage")
@pytest.mark.parametrize("mark", ["u", "orders+u"])
@pytest.mark.parametrize("in_wheel", [True, False])
def test_a_recalled_message_says_so(tmp_path: Path, mark: str, in_wheel: bool) -> None:
    """A mark of deletion in the same slot, or on its way there, recalls a message; the mark itself is no row."""
    with waiting_store(tmp_path) as store:
        timers = [put_timer(store, DUE_MS), put_timer(store, DUE_MS, key="other")]
        deletion = put_timer(store, DUE_MS, key="m", TIMER_DEL_UNIQKEY=mark)
    units = [unit_of(timer) for timer in timers] + ([unit_of(deletion, 1 | DELETE)] if in_wheel else [])
    write_wheel(tmp_path / "store", units)
    rows = timers_of(tmp_path / "store")[0]

    assert [(row.unique_key, row.state) for row in rows] == [
        ("u", RecordState.RECALLED),
        ("other", RecordState.VERIFIED),
    ]


def test_each_unit_that_differs_from_the_log_says_how(root: Path, timers: list[PutTimer]) -> None:
    """Another record, another time, another size, a place that holds no record, and one after the log's end."""
    with reput.MessageStore.open(root) as store:
        plain = put(store, "orders")
        end = store.view.follower.offset
    one = unit_of(timers[1])
    units = [
        one._replace(physical_offset=plain.physical_offset, record_size=plain.size),
        one._replace(physical_offset=timers[3].physical_offset),
        one._replace(record_size=one.record_size + 1),
        one._replace(physical_offset=timers[1].physical_offset + 1),
        one._replace(physical_offset=end),
    ]
    write_wheel(root, units)
    rows, damage, _ = timers_of(root)

    assert [row.state for row in rows] == [
        RecordState.ANOTHER,
        RecordState.ANOTHER,
        RecordState.ANOTHER,
        RecordState.DAMAGED,
        RecordState.MISSING,
    ]
    assert "is of topic orders" in str(rows[0].reason)
    assert f"is due at {timers[3].due_ms}, not {timers[1].due_ms}" in str(rows[1].reason)
    assert {row.topic for row in rows} == {None}
    assert damage == []


def test_a_timer_whose_log_file_was_deleted_is_expired(tmp_path: Path) -> None:
    """The wheel refers to a record below the log's begin, which a broker cannot deliver."""
    with waiting_store(tmp_path) as store:
        timer = put_timer(store, DUE_MS)
        while store.view.log.end_offset < 3 << 18:
            put(store, "orders", bytes(20_000))
    write_wheel(tmp_path / "store", [unit_of(timer)])
    (tmp_path / "store" / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    rows = timers_of(tmp_path / "store")[0]

    assert [row.state for row in rows] == [RecordState.EXPIRED]
    assert "the log begins at 262144" in str(rows[0].reason)


@pytest.mark.parametrize("size", [0, 31, 38_707_199, 38_707_201])
def test_a_wheel_of_another_length_is_named_and_the_queue_still_read(root: Path, size: int) -> None:
    """RocketMQ does not start with such a wheel; the text says what helps."""
    os.truncate(root / timer_wheel.FILE_NAME, size)
    rows, damage, _ = timers_of(root)

    assert rows == []
    assert len(damage) == 1
    assert f"{root / 'timerwheel'}: {size} bytes" in damage[0]
    assert "Restore it" in damage[0]


def test_a_damaged_unit_loses_its_slot_only(root: Path) -> None:
    """The chain of one second breaks, which is named with its places; other seconds are whole."""
    with (root / timer_log.FOLDER / paths.offset_name(0)).open("r+b") as log:
        log.seek(0)
        log.write(b"\xff" * 20)
    rows, damage, _ = timers_of(root)

    assert keys_of(rows) == ["u1", "u3", "u2"]
    assert len(damage) == 1
    assert f"slot at {(DUE_MS + 3000) // 1000 % SLOTS * SLOT.size}, time {DUE_MS + 3000}" in damage[0]
    assert "at 0 (log offset 0)" in damage[0]


def test_a_short_timer_log_gave_a_line_a_slot(root: Path) -> None:
    """A file that lost its end is one damage, with the number of its slots and the first; other seconds are whole."""
    log = root / timer_log.FOLDER / paths.offset_name(0)
    os.truncate(log, UNIT_SIZE + 10)
    rows, (damage,), _ = timers_of(root)

    assert rows == []
    first = f"slot at {DUE_MS // 1000 % SLOTS * SLOT.size}, time {DUE_MS}:"
    assert damage.startswith(f"{log}: units of 3 slots cannot be read. The first is {root / 'timerwheel'}: {first}")
    assert "Their other messages are unknown" in damage


def test_a_chain_that_turns_back_ends(root: Path, timers: list[PutTimer]) -> None:
    """A unit that refers to itself or to a later one is damage, and no endless loop."""
    path = root / timer_log.FOLDER / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    data[4:12] = (2 * UNIT_SIZE).to_bytes(8, "big")
    path.write_bytes(data)
    rows, damage, _ = timers_of(root)

    assert keys_of(rows) == ["u1", "u3", "u0", "u2"]
    assert "refers to a later one" in damage[0]


def test_garbage_in_slots_is_passed_over(root: Path) -> None:
    """A slot at a wrong place, with a negative time or position, is one that a broker does not find either."""
    with (root / timer_wheel.FILE_NAME).open("r+b") as wheel:
        for number, slot in enumerate([(-1, 0, 0, 1, 0), (7, 0, 0, 1, 0), ((1 << 62), 0, -5, 1, 0)]):
            wheel.seek((5000 + number) * SLOT.size)
            wheel.write(SLOT.struct.pack(*slot))

    assert len(timers_of(root)[0]) == 4


def test_a_short_checkpoint_is_named(root: Path) -> None:
    """The file is too short to say how far the wheel is."""
    (root / paths.CONFIG / "timercheck").write_bytes(b"\0" * 8)
    _, damage, _ = timers_of(root)

    assert f"{root / 'config' / 'timercheck'}: 8 bytes" in damage[0]


@pytest.mark.parametrize("at", [0, 8, 16])
@pytest.mark.parametrize("word", [b"\xff" * 8, b' "a": 1,'])
def test_a_checkpoint_of_other_bytes_was_believed(root: Path, at: int, word: bytes) -> None:
    """Bytes of another file give times and places that no broker writes: the file is named, and no timer is passed."""
    path = root / paths.CONFIG / "timercheck"
    data = bytearray(path.read_bytes())
    data[at : at + 8] = word
    path.write_bytes(data)
    _, damage, _ = timers_of(root)

    assert f"{path}: no checkpoint of timers has time" in damage[0]


def test_a_snapshot_that_is_newer_counts(root: Path) -> None:
    """With timerWheelSnapshotFlush a broker writes the wheel to timerwheel.POSITION."""
    wheel = root / timer_wheel.FILE_NAME
    wheel.rename(wheel.with_suffix(f".{4 * UNIT_SIZE}"))

    assert keys_of(timers_of(root)[0]) == ["u1", "u3", "u0", "u2"]


def test_delay_levels_come_beside_the_timers(root: Path, timers: list[PutTimer]) -> None:
    """A message of a delay level is due its level's delay after it was stored, unless its level is past it."""
    with reput.MessageStore.open(root) as store:
        named = {"REAL_TOPIC": "payments", "REAL_QID": "1", "DELAY": "3"}
        for number in range(3):
            put(store, "SCHEDULE_TOPIC_XXXX", queue_id=2, UNIQ_KEY=f"d{number}", **named)
        stored = [message.store_timestamp for message in store.get_message("SCHEDULE_TOPIC_XXXX", 2, 0)]
    (root / paths.CONFIG / "delayOffset.json").write_bytes(b'{"offsetTable":{3:1}}')
    rows, damage, _ = timers_of(root)
    delayed = [row for row in rows if row.topic == "payments"]

    assert [(row.unique_key, row.deliver_timestamp, row.source) for row in delayed] == [
        ("d1", stored[1] + 10_000, "delay level 3"),
        ("d2", stored[2] + 10_000, "delay level 3"),
    ]
    assert len(rows) == 6
    assert damage == []


def database_of(timers: list[PutTimer]) -> dict[bytes, bytes]:
    """Return the entries of a database that has taken in these messages."""
    entries = {
        timer_key(timer.due_ms, b"u%d" % number): encode_timer_value(timer.size, timer.physical_offset)
        for number, timer in enumerate(timers)
    }
    return {**entries, QUEUE_OFFSET_KEY: encode_timer_mark(len(timers))}


def test_a_database_gives_its_timers_by_time(tmp_path: Path, timers: list[PutTimer]) -> None:
    """Timers due before timeline_checkpoint were delivered; those that the database lacks are in the queue."""
    entries = {**database_of(timers[:3]), TIMELINE_KEY: encode_timer_mark(DUE_MS + 1000)}
    write_database(tmp_path / "store" / paths.INDEX_DATABASE, {"timer": entries})
    rows, damage, notes = timers_of(tmp_path / "store")

    assert [(row.unique_key, row.source) for row in rows] == [
        ("u0", paths.INDEX_DATABASE),
        ("u2", paths.INDEX_DATABASE),
        ("u3", "queue"),
    ]
    assert damage == []
    assert notes == []


def test_values_of_another_message_and_garbage_are_named(tmp_path: Path, timers: list[PutTimer]) -> None:
    """An entry whose record has another unique key is another one; a value of another length is damage."""
    entries = database_of(timers)
    entries[timer_key(timers[0].due_ms, b"u0")] = encode_timer_value(timers[1].size, timers[1].physical_offset)
    entries[timer_key(DUE_MS, b"odd")] = b"garbage"
    write_database(tmp_path / "store" / paths.INDEX_DATABASE, {"timer": entries})
    rows, damage, _ = timers_of(tmp_path / "store")

    assert {row.unique_key: row.state for row in rows}["u0"] is RecordState.ANOTHER
    assert len(rows) == 4
    assert "7 bytes" in damage[0]


def test_a_key_without_a_time_was_passed_over_in_silence(tmp_path: Path, timers: list[PutTimer]) -> None:
    """A key that is too short for a time is damage, before and after the keys that have one."""
    mark = {TIMELINE_KEY: encode_timer_mark(DUE_MS)}
    entries = {**database_of(timers), **mark, b"": b"x", b"\x00\x00\x01": bytes(12), b"abc": b"def"}
    write_database(tmp_path / "store" / paths.INDEX_DATABASE, {"timer": entries})
    rows, damage, _ = timers_of(tmp_path / "store")

    assert len(rows) == 4
    for text, key in zip(damage, ("of no bytes", "000001", "616263"), strict=True):
        assert f"timer key {key}: no timer message; RocketMQ skips it" in text


def test_a_database_that_is_no_database_is_named_and_the_rest_still_read(root: Path) -> None:
    """A half-copied database is damage with its folder; the wheel is read all the same."""
    folder = root / paths.INDEX_DATABASE
    folder.mkdir()
    (folder / "CURRENT").write_text("MANIFEST-000004\n")
    rows, damage, _ = timers_of(root)

    assert len(rows) == 4
    assert str(folder) in damage[0]
    assert "`reput rebuild --only index` makes the database anew" in damage[0]


def test_a_database_that_a_broker_holds_is_read_beside_it(tmp_path: Path, timers: list[PutTimer]) -> None:
    """An owner has the database open and writes it: what it has written is read, and its lock is left alone."""
    folder = tmp_path / "store" / paths.INDEX_DATABASE
    write_database(folder, {"timer": database_of(timers[:2])})
    with DatabaseOwner(folder, ("default", "timer"), tmp_path / "logs", fs.owner_of(tmp_path)) as owner:
        batch = owner.batch()
        batch.put_all("timer", *zip(*database_of(timers).items(), strict=True))
        owner.write(batch)
        rows, damage, _ = timers_of(tmp_path / "store")

    assert [row.source for row in rows] == [paths.INDEX_DATABASE] * 4
    assert damage == []
