"""Holes of a file that is mapped for reading: on a tmpfs, reading a hole takes memory.

A disk's file system returns zeros for a hole. A tmpfs first allocates a page for each page of the hole that a map
reads. If it has no page left, the system ends the process with SIGBUS. `read` allocates nothing.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Iterator
from enum import Enum

import numpy as np

from reput.files.pages import page_end

_LIBC = ctypes.CDLL(None, use_errno=True)
_TMPFS_MAGIC = 0x01021994
_STATFS_BYTES = 256
_MADV_POPULATE_READ = 22
_MAP_FIXED = 0x10
_MAP_FAILED = ctypes.c_void_p(-1).value
if hasattr(_LIBC, "mmap"):
    _LIBC.mmap.restype = ctypes.c_void_p
    _LIBC.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip


class Holes(Enum):
    """The content that a map shows for a hole that is filled later.

    `ZEROS`: zeros; reading takes no memory. `INNER_ZEROS`: the same for holes between data; bytes written after the
    last byte of data are visible. `LIVE`: all written bytes are visible, so holes between data take memory.
    """

    ZEROS = "zeros"
    INNER_ZEROS = "inner zeros"
    LIVE = "live"


def list_holes(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the holes of a file between two offsets, as pairs of offsets; none if the file system has no such query."""
    position = begin
    while position < end:
        try:
            data = min(os.lseek(descriptor, position, os.SEEK_DATA), end)
        except OSError as error:
            if error.errno != errno.ENXIO:
                if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                    return
                raise
            data = end
        if data > position:
            yield position, data
        if data < end:
            data = os.lseek(descriptor, data, os.SEEK_HOLE)
        position = data


def back_holes(memory: mmap.mmap, descriptor: int, offset: int, holes: Holes) -> None:
    """Make each hole in a read-only map of a file in a tmpfs safe to read; the map begins at `offset` of the file.

    The space after the last data stays as it is, except with `Holes.ZEROS`: others may append there, and readers do
    not read it before it is written.

    Raises:
        OSError: ENOSPC if the tmpfs has no room for the holes that must have memory.
    """
    if not _lies_in_memory(descriptor):
        return
    size = os.fstat(descriptor).st_size
    found = list(list_holes(descriptor, offset, offset + len(memory)))
    if holes is not Holes.ZEROS and found and found[-1][1] == min(size, offset + len(memory)):
        del found[-1]
    if not found:
        return
    address = int(np.frombuffer(memory, dtype=np.uint8).__array_interface__["data"][0])
    for begin, end in found:
        at, length = begin - offset, page_end(end - begin)
        if holes is Holes.LIVE:
            _populate(memory, descriptor, at, length)
        else:
            _cover(address + at, length)


def _lies_in_memory(descriptor: int) -> bool:
    """Return True if a file is in a tmpfs."""
    if sys.platform != "linux":
        return False
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(ctypes.c_int(descriptor), status) != 0:
        return False
    return ctypes.c_long.from_buffer(status).value == _TMPFS_MAGIC


def _cover(address: int, length: int) -> None:
    """Map zeros of no file over a range of a map; both are released together."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    if _LIBC.mmap(address, length, mmap.PROT_READ, flags, -1, 0) in (None, _MAP_FAILED):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _populate(memory: mmap.mmap, descriptor: int, at: int, length: int) -> None:
    """Make the file system allocate pages now, when it can still report that it has none."""
    try:
        memory.madvise(_MADV_POPULATE_READ, at, min(length, len(memory) - at))
    except OSError as error:
        if error.errno == errno.EFAULT:
            text = f"holes of {length} bytes at {at} take memory when they are read, and the tmpfs has none left"
            raise OSError(errno.ENOSPC, text) from error
        if error.errno != errno.EINVAL:
            raise
        # Linux before 5.14 cannot allocate these pages ahead, but can report how many are left.
        status = os.statvfs(descriptor)
        if status.f_bavail * status.f_frsize < length:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
