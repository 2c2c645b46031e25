"""Stores with work that waits, made here: timer wheels, half messages, and databases.

with waiting_store(tmp_path) as store:          an open store with small files
    place = put_timer(store, due_ms, "orders")  a timer message in its queue
write_wheel(folder, [unit, ...])                a wheel and a log of these units, each in the slot of its time
write_database(folder, {"timer": {key: value}}) a database with these families
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import reput
from reput.config import StoreConfig
from reput.files import fs
from reput.files.database_owner import DatabaseOwner
from reput.formats import paths
from reput.formats.pending import timer_checkpoint, timer_log, timer_wheel
from reput.formats.pending.timer_checkpoint import TimerCheckpoint, encode_timer_checkpoint
from reput.formats.pending.timer_log import UNIT_SIZE, TimerUnit, encode_timer_unit
from reput.formats.pending.timer_wheel import SLOT, SLOTS, WHEEL_SIZE
from reput.formats.topics.system_topics import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SMALL = StoreConfig(mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=6000)
DUE_MS = 1_800_000_000_000
TIMER_LOG_FILE = 100 * UNIT_SIZE + 20


class PutTimer(NamedTuple):
    """A message that was put: where its record is, and when it is due."""

    physical_offset: int
    size: int
    due_ms: int


@contextmanager
def waiting_store(folder: Path) -> Iterator[reput.MessageStore]:
    """Open a new store below a folder."""
    with reput.MessageStore.open(folder / "store", SMALL, create=True) as store:
        yield store


def put(
    store: reput.MessageStore,
    topic: str,
    body: bytes = b"body",
    queue_id: int = 0,
    tags: str | None = None,
    **properties: str,
) -> PutTimer:
    """Put a message with these properties; the answer's time is that of TIMER_OUT_MS."""
    done = store.put_message(reput.Message(topic, body, tags=tags, properties=properties), queue_id)
    found = store.message_at(done.physical_offset)
    assert found is not None
    return PutTimer(done.physical_offset, len(found.raw), int(properties.get("TIMER_OUT_MS", 0)))


def put_timer(
    store: reput.MessageStore, due_ms: int, topic: str = "orders", key: str = "u", **properties: str
) -> PutTimer:
    """Put a timer message as a broker does."""
    named = {"REAL_TOPIC": topic, "REAL_QID": "2", "TIMER_OUT_MS": str(due_ms), "UNIQ_KEY": key, **properties}
    return put(store, TIMER_TOPIC, **named)


def unit_of(timer: PutTimer, magic: int = 1, time_ms: int | None = None) -> TimerUnit:
    """Return the unit of a message; `write_wheel` gives it the unit before it."""
    time = timer.due_ms if time_ms is None else time_ms
    return TimerUnit(UNIT_SIZE, -1, magic, time - 5000, 5000, timer.physical_offset, timer.size, 0)


def write_wheel(
    root: Path, units: Sequence[TimerUnit], checkpoint: TimerCheckpoint | None = None, in_wheel: int | None = None
) -> None:
    """Write a wheel and a log with these units; the wheel has only the first `in_wheel` of them."""
    last_of: dict[int, int] = {}
    slots: dict[int, tuple[int, int, int]] = {}
    log = bytearray()
    for number, unit in enumerate(units):
        position = number * UNIT_SIZE
        log += encode_timer_unit(unit._replace(previous_position=last_of.get(unit.time, -1)))
        last_of[unit.time] = position
        if in_wheel is None or number < in_wheel:
            first, _, count = slots.get(unit.time, (position, 0, 0))
            slots[unit.time] = first, position, count + 1
    assert len(log) <= TIMER_LOG_FILE
    fs.make_dirs(root / timer_log.FOLDER)
    fs.write_whole(root / timer_log.FOLDER / paths.offset_name(0), bytes(log).ljust(TIMER_LOG_FILE, b"\0"))
    with (root / timer_wheel.FILE_NAME).open("wb") as wheel:
        wheel.truncate(WHEEL_SIZE)
        for time_ms, (first, last, count) in slots.items():
            wheel.seek(time_ms // 1000 % SLOTS * SLOT.size)
            wheel.write(SLOT.struct.pack(time_ms // 1000, first, last, count, 0))
    offset = len(units)
    checkpoint = checkpoint or TimerCheckpoint(DUE_MS - 1_000_000, len(log), offset, offset)
    fs.make_dirs(root / paths.CONFIG)
    fs.write_whole(root / paths.CONFIG / timer_checkpoint.FILE_NAME, encode_timer_checkpoint(checkpoint))


def write_database(folder: Path, families: Mapping[str, Mapping[bytes, bytes]]) -> None:
    """Write a database with these families."""
    with DatabaseOwner(folder, ("default", *families), folder.parent / "logs", fs.owner_of(folder.parent)) as owner:
        batch = owner.batch()
        for name, entries in families.items():
            batch.put_all(name, entries.keys(), entries.values())
        owner.write(batch)
