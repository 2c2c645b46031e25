"""The end of a log in memory, as the writer and the kernels of puts see it.

The writer holds its lock while it reads several words of the vector, or changes one. A kernel keeps the GIL, and stores
nothing while a thread holds the lock, so it needs no lock of its own.
"""

from __future__ import annotations

import ctypes
from array import array
from mmap import mmap
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from reput.kernels.layouts.place import END_LAYOUT, EndAt
from reput.kernels.layouts.vectors import address_of
from reput.log.encode.message import PutResult, PutStatus

if TYPE_CHECKING:
    from reput.log.encode.encode import RecordEncoder

_ANSWER = PutResult(PutStatus.PUT_OK)
"""The answer to every put that the kernel stores, but for its numbers."""
OFFSET: int = EndAt.offset
"""The word of `LogEnd.offset`."""
LAST_MS: int = EndAt.last_ms
"""The word of `LogEnd.last_ms`."""
_ROOM_END: int = EndAt.room_end


def _held_at(lock: Lock) -> int:
    """Return the address of the byte whose lowest bit is set while a thread holds a lock; 0 if it has none.

    The byte is found by a look at the object, free and held; its first two words are those of every object.
    """
    first, size = 2 * ctypes.sizeof(ctypes.c_void_p), type(lock).__basicsize__
    free = ctypes.string_at(id(lock), size)
    with lock:
        held = ctypes.string_at(id(lock), size)
    found = [at for at in range(first, size) if free[at] != held[at]]
    is_bit = len(found) == 1 and (free[found[0]], held[found[0]]) == (0, 1)
    return id(lock) + found[0] if is_bit else 0


def not_placed(*_: object) -> PutResult | None:
    """Leave every message to the general way, as `place_record` leaves some."""
    return None


class LogEnd:
    """The log's end, the memory there, and what all records of a put share.

    `at` is the address of the vector for the kernel (`END_LAYOUT`).

    Args:
        offset: Log offset after the last record.
        last_ms: Store time of the last record, in ms.
        records: The encoder of records, which has the hosts.
        max_body: Most bytes of a body.
        lock: The writer's.
    """

    __slots__ = ("_hosts", "_lock", "at", "is_guarded", "memory", "start", "vector")

    def __init__(self, offset: int, last_ms: int, records: RecordEncoder, max_body: int, lock: Lock) -> None:
        self.memory: mmap | None = None
        """The memory of the current file; None if there is none."""
        self.start = 0
        """Log offset at which the current file begins."""
        self._hosts = born_host, tail = tuple(np.frombuffer(part, dtype=np.uint8) for part in records.host_parts)
        words = array("q", bytes(END_LAYOUT.size))
        self.vector: array[int] = words
        """The words that kernels read. Ctrl-C may come with a call, as of a property; setting a word makes no call."""
        words[EndAt.max_body], words[EndAt.sys_flag] = max_body, records.host_bits
        words[EndAt.born_host_at], words[EndAt.born_host_size] = address_of(born_host), len(born_host)
        words[EndAt.tail_at], words[EndAt.tail_size] = address_of(tail), len(tail)
        words[OFFSET], words[_ROOM_END], words[LAST_MS] = offset, -1, last_ms
        self._lock, words[EndAt.held_at] = lock, _held_at(lock)
        self.is_guarded = words[EndAt.held_at] != 0
        """True if kernels see who holds the lock; otherwise they must not store."""
        # In CPython this is its address.
        words[EndAt.answer_at] = id(_ANSWER)
        self.at = words.buffer_info()[0]

    @property
    def offset(self) -> int:
        """Log offset after the last record."""
        return self.vector[OFFSET]

    @offset.setter
    def offset(self, offset: int) -> None:
        self.vector[OFFSET] = offset

    @property
    def room_end(self) -> int:
        """Log offset up to which the memory takes records; -1 if there is none."""
        return self.vector[_ROOM_END]

    @property
    def last_ms(self) -> int:
        """Store time of the last record, in ms."""
        return self.vector[LAST_MS]

    @last_ms.setter
    def last_ms(self, time_ms: int) -> None:
        self.vector[LAST_MS] = time_ms

    def shut(self) -> None:
        """Take no records until room is made."""
        self.vector[_ROOM_END] = -1

    def drop_memory(self) -> None:
        """Take no records, and let the memory go."""
        self.shut()
        self.memory = None

    def take_memory(self, memory: mmap, start: int, room_end: int) -> None:
        """Take records up to log offset `room_end` in the memory of a file that begins at `start`."""
        if memory is not self.memory or start != self.start:
            # The array is gone after this line, so that the file can be closed; the address lives as long as the
            # memory. After an interrupt here the next call does it again.
            self.vector[EndAt.memory_at] = address_of(np.frombuffer(memory, dtype=np.uint8)) - start
            self.memory, self.start = memory, start
        self.vector[_ROOM_END] = room_end

    def publish_at(self, wrote_at: int, confirmed_at: int) -> None:
        """Set the addresses where the end is published: to all, and to readers (0: not with each put)."""
        self.vector[EndAt.wrote_at], self.vector[EndAt.confirmed_at] = wrote_at, confirmed_at
