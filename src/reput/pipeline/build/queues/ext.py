"""ext-build: new entries of queues get ext units, and the entries get the units' addresses.

This stage follows all stages that write entries, because the place of a unit depends on all units before it. One task
reads a queue's new entries in order, takes store times and properties from the log, writes the units, and then replaces
tags codes by addresses. The first new unit goes after the unit of the last old entry, so a repeat writes the same bytes
in the same places and leaves no orphan.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.bitmaps import FilterBits, bitmaps_of
from reput.dispatch.sql.columns import RecordProperties
from reput.files import fs
from reput.formats.layout import numbers_at
from reput.formats.log.record import (
    BEFORE_BODY_V4,
    BODY_AT_V4,
    BODY_LENGTH_SIZE,
    FLAG_BORN_HOST_V6,
    FLAG_STORE_HOST_V6,
    HEAD,
    MAGIC_V2,
    STORE_TIMESTAMP_AT_V4,
    STORE_TIMESTAMP_AT_V6,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V6_MORE,
)
from reput.formats.paths import offset_name
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey, QueueRange, is_blank
from reput.formats.queue.consume_queue_ext import FILE_END, MAX_ADDRESS, MIN_ADDRESS, UNIT, UNIT_SIZE
from reput.formats.topics.lite_topics import is_light
from reput.log.read.maps import LogMaps
from reput.pipeline.split.ext_job import ExtJob
from reput.pipeline.split.job import Job
from reput.pipeline.split.sink import finish_folders, queue_path, refuse_linked_queue, write_entries
from reput.queue.ext import ExtReader, place_units
from reput.store.recover.ext_end import cut_units, end_of_units

_ENTRIES_AT_ONCE = 1 << 16
_QUEUES_A_TASK = 64
# The bits of the hosts are in the last byte of sysFlag.
_HOST_FLAGS_AT = HEAD.offsets["sys_flag"] + HEAD.sizes["sys_flag"] - 1


class ExtWork(NamedTuple):
    """The new entries of a queue; `afresh`: the units in its ext files are void."""

    entries: QueueRange
    afresh: bool

    @property
    def key(self) -> QueueKey:
        """The queue."""
        return self.entries.key


def ext_tasks(work: Sequence[ExtWork]) -> list[tuple[ExtWork, ...]]:
    """Cut the work into tasks. Entries of light queues have no units, as in RocketMQ."""
    work = [one for one in work if not is_light(one.key.topic)]
    return [tuple(work[at : at + _QUEUES_A_TASK]) for at in range(0, len(work), _QUEUES_A_TASK)]


def clear_units(job: Job, work: Sequence[ExtWork]) -> None:
    """Remove the ext files of queues that are built afresh, before their tasks.

    A task may have two attempts. If one has already given entries addresses, the other takes the tags codes from the
    units at these addresses, so a task must not remove units.
    """
    for one in work:
        if one.afresh:
            fs.remove_tree(queue_path(job.ext_folder, one.key))


def build_units(job: Job, work: Sequence[ExtWork]) -> int:
    """Write the units of the new entries of these queues; returns the number of units."""
    assert job.ext is not None
    units = 0
    with job.writing(), job.ext.log_maps() as log:
        reader = ExtReader(Path(job.ext_folder), job.ext.file_size)
        for one in work:
            units += _QueueUnits(job, job.ext, reader, log, one).build()
        finish_folders(job, (queue_path(job.queue_folder, one.key) for one in work))
        finish_folders(job, (queue_path(job.ext_folder, one.key) for one in work))
    return units


class _QueueUnits:
    """The units of one queue's new entries; `at` is the place of the next unit."""

    def __init__(self, job: Job, ext: ExtJob, reader: ExtReader, log: LogMaps, work: ExtWork) -> None:
        self.job, self.ext, self.reader, self.log, self.work = job, ext, reader, log, work
        self.folder = queue_path(job.ext_folder, work.key)
        self.filters = [FilterBits.of(*one) for one in ext.filters.get(work.key.topic, ())]
        self.at = 0
        if not work.afresh:
            self.at = end_of_units(Path(queue_path(job.queue_folder, work.key)), reader, work.key, work.entries.first)

    def build(self) -> int:
        """Write units and addresses, and remove the bytes after the last unit; returns the number of units."""
        units, position = 0, self.work.entries.first
        in_file = self.job.queue_file_size // ENTRY_SIZE
        while position < self.work.entries.end:
            count = min(_ENTRIES_AT_ONCE, self.work.entries.end - position, in_file - position % in_file)
            units += self._piece(position, count)
            position += count
        cut_units(self.reader, self.work.key, self.at, self.job.owner)
        return units

    def _piece(self, first: int, count: int) -> int:
        start = first * ENTRY_SIZE // self.job.queue_file_size * self.job.queue_file_size
        path = f"{queue_path(self.job.queue_folder, self.work.key)}/{offset_name(start)}"
        data = fs.read_bytes(path, count * ENTRY_SIZE, first * ENTRY_SIZE - start) or b""
        entries = np.frombuffer(bytearray(data), dtype=ENTRY.dtype, count=len(data) // ENTRY_SIZE)
        begin, size = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
        rows = np.flatnonzero((size > 0) & ~is_blank(begin, size))
        rows = rows[self._are_own(begin[rows])]
        if not len(rows):
            return 0
        units = self._units(self._plain_codes(entries["tags_code"][rows].astype(np.int64)), begin[rows])
        placed = place_units(self.at, units.shape[1], len(rows), self.ext.file_size)
        self._write(units, placed.offsets, placed.ends)
        self.at = placed.next
        entries["tags_code"][rows] = placed.offsets + np.int64(MIN_ADDRESS)
        write_entries(self.job, self.work.key, first, memoryview(entries.tobytes()))
        return len(rows)

    def _are_own(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a flag for each record at these log offsets: it is the queue's own.

        Records of other topics that give the queue further entries (multi-dispatch) leave plain tags codes.
        Source: `ConsumeQueue.multiDispatchLmqQueue`, `doDispatchLmqQueue`.
        """
        own = np.empty(len(positions), dtype=np.bool_)
        for array, mine, start in self.log.by_file(positions, strict=True):
            own[mine] = are_of_topic(array, positions[mine] - start, self.work.key.topic)
        return own

    def _plain_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return tags codes; an entry that an earlier attempt gave an address has its code in the unit."""
        addressed = np.flatnonzero(codes <= MAX_ADDRESS)
        if len(addressed):
            found = self.reader.units(self.work.key, codes[addressed])
            codes[addressed] = np.where(found.found, found.tags_code, codes[addressed])
        return codes

    def _units(self, codes: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the bytes of the units (uint8, one row each) of records at these log offsets."""
        bitmap_size = self.ext.bitmap_size if self.filters else 0
        units = np.zeros((len(codes), UNIT_SIZE + bitmap_size), dtype=np.uint8)
        head = np.zeros(len(codes), dtype=UNIT.dtype)
        head["size"], head["bitmap_size"] = UNIT_SIZE + bitmap_size, bitmap_size
        head["tags_code"] = codes
        for array, mine, start in self.log.by_file(positions, strict=True):
            inside = positions[mine] - start
            head["store_timestamp"][mine] = store_times(array, inside)
            if self.filters:
                columns = RecordProperties(array, inside)
                units[mine, UNIT_SIZE:] = bitmaps_of(self.filters, columns, bitmap_size)
        units[:, :UNIT_SIZE] = head.view(np.uint8).reshape(len(codes), UNIT_SIZE)
        return units

    def _write(self, units: NDArray[np.uint8], offsets: NDArray[np.int64], ends: tuple[int, ...]) -> None:
        refuse_linked_queue(self.job, self.folder)
        size = self.ext.file_size
        for end in ends:
            self._write_at(end // size * size, FILE_END, end % size)
        numbers = offsets // size
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers == number)
            data = memoryview(units[mine[0] : mine[-1] + 1].tobytes())
            self._write_at(number * size, data, int(offsets[mine[0]]) - number * size)

    def _write_at(self, start: int, data: bytes | memoryview, offset: int) -> None:
        path = f"{self.folder}/{offset_name(start)}"
        fs.write_at(path, self.ext.file_size, self.job.owner, data, offset)
        if self.job.sync_in_tasks:
            fs.sync_path(path)


def are_of_topic(array: NDArray[np.uint8], positions: NDArray[np.int64], topic: bytes) -> NDArray[np.bool_]:
    """Return a flag for each record that begins at these places of a log file: it is of this topic."""
    flags = array[positions + _HOST_FLAGS_AT]
    hosts = ((flags & FLAG_BORN_HOST_V6) != 0).astype(np.int64) + ((flags & FLAG_STORE_HOST_V6) != 0)
    bodies = positions + BODY_AT_V4 + hosts * V6_MORE
    # A caller may give places that hold anything: nothing outside the file is read.
    inside = bodies <= len(array)
    bodies = np.where(inside, bodies, BODY_LENGTH_SIZE)
    places = bodies + numbers_at(array, bodies - BODY_LENGTH_SIZE, BEFORE_BODY_V4.dtype["body_length"])
    inside &= (places >= 0) & (places + TOPIC_LENGTH_V2.size + len(topic) <= len(array))
    places = np.where(inside, places, 0)
    is_v2 = HEAD.taken(array, positions, "magic") == MAGIC_V2
    sizes = np.where(is_v2, TOPIC_LENGTH_V2.taken(array, places, "topic_length"), array[places])
    found: NDArray[np.bool_] = inside & (sizes == len(topic))
    rows = np.flatnonzero(found)
    begin = places[rows] + np.where(is_v2[rows], TOPIC_LENGTH_V2.size, TOPIC_LENGTH_V1.size)
    wanted = np.frombuffer(topic, dtype=np.uint8)
    found[rows] = (array[begin[:, None] + np.arange(len(topic))] == wanted).all(axis=1)
    return found


def store_times(array: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the store times (int64, ms) of the records that begin at these places of a log file."""
    is_v6 = (array[positions + _HOST_FLAGS_AT] & FLAG_BORN_HOST_V6) != 0
    places = positions + np.where(is_v6, STORE_TIMESTAMP_AT_V6, STORE_TIMESTAMP_AT_V4)
    return numbers_at(array, places, BEFORE_BODY_V4.dtype["store_timestamp"])
