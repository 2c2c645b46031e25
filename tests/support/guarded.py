"""Memory between two pages that nobody may touch: one byte too far, either way, and the process dies.

    room = GuardedRoom(1 << 16)
    room.at_end(data)       an array whose last byte is the last one before a guard page
    room.at_start(data)     an array whose first byte comes right after a guard page
    guard_outputs(columns)  the same for the arrays that a kernel fills

Use it in a process of its own: the death is a SIGSEGV.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.kernels.layouts.columns import Columns

PAGE = mmap.PAGESIZE
PROT_NONE = 0

OUTPUTS = (
    "position",
    "size",
    "queue",
    "queue_offset",
    "tags_code",
    "store_timestamp",
    "flags",
    "first_item",
    "item_hash",
    "queue_id",
    "topic_at",
    "topic_size",
    "topic_hash",
    "is_schedule",
    "names",
    "hash_table",
    "hash_key",
    "state",
)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class GuardedRoom:
    """Room for `size` bytes, rounded up to pages, with a guard page before and one after."""

    def __init__(self, size: int) -> None:
        self.size = max(-(-size // PAGE), 1) * PAGE
        self._map = mmap.mmap(-1, self.size + 2 * PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (address, address + PAGE + self.size):
            if _libc.mprotect(guard, PAGE, PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)[PAGE : PAGE + self.size]

    def at_end(self, data: bytes) -> NDArray[np.uint8]:
        """`data` at the end of the room, read-only."""
        return self._filled(self._bytes[self.size - len(data) :], data)

    def at_start(self, data: bytes) -> NDArray[np.uint8]:
        """`data` at the start of the room, read-only."""
        return self._filled(self._bytes[: len(data)], data)

    def array(self, length: int, dtype: Any) -> NDArray[Any]:
        """An array of `length` values to be filled, at the end of the room."""
        return self._bytes[self.size - length * np.dtype(dtype).itemsize :].view(dtype)

    @staticmethod
    def _filled(place: NDArray[np.uint8], data: bytes) -> NDArray[np.uint8]:
        place[:] = np.frombuffer(data, dtype=np.uint8)
        place.flags.writeable = False
        return place


def guarded_array(length: int, dtype: Any) -> NDArray[Any]:
    """An array in a room of its own, zeros, its end at a guard page."""
    return GuardedRoom(length * np.dtype(dtype).itemsize).array(length, dtype)


def guard_outputs(columns: Columns) -> Columns:
    """Move the columns' arrays to places that end at guard pages; keep their content."""
    for name in OUTPUTS:
        array = getattr(columns, name)
        guarded = guarded_array(len(array), array.dtype)
        guarded[:] = array
        setattr(columns, name, guarded)
    return columns
