"""The mapped page of watermarks: each is one aligned 8-byte store, so other processes see the old value or the new."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from array import array
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reput.errors import ClosedError, DamagedStoreError
from reput.files import fs
from reput.formats.own import files as own
from reput.kernels.layouts.vectors import address_of

_BLOCK = 512
"""Bytes of a block as the system counts the blocks of a file."""
_PLACE = {field.name: number for number, field in enumerate(own.WATERMARKS.fields)}


class WatermarkCell(NamedTuple):
    """The place of one watermark: `view[0]` is the value, and `at` its address as long as the view is in use."""

    view: memoryview
    at: int

    @classmethod
    def own(cls, value: int = 0) -> Self:
        """Return a place that no other process reads."""
        memory = array("q", [value])
        return cls(memoryview(memory), memory.buffer_info()[0])


def damage_of_watermarks(path: Path) -> str:
    """Return a sentence on a file that is no watermarks file, "" for none or a missing file; nothing is changed."""
    data = fs.read_bytes(path, own.WATERMARKS_FILE_SIZE + 1)
    if data is None or (len(data) < own.WATERMARKS_FILE_SIZE and not any(data)):
        return ""
    if len(data) != own.WATERMARKS_FILE_SIZE:
        return _of_another_size(path, fs.size_of(path))
    magic = int.from_bytes(data[8 * _PLACE["magic"] :][:8], "little", signed=True)
    return "" if magic == own.WATERMARKS_MAGIC or _is_begun(magic) else _not_ours(path)


def _of_another_size(path: Path, size: int) -> str:
    return f"{path}: {size} bytes, {own.WATERMARKS_FILE_SIZE} expected. Remove it"


def _not_ours(path: Path) -> str:
    return f"{path}: this is not a watermarks file of reput. Remove it"


def _is_begun(found: int) -> bool:
    """Return True if a power cut has kept nothing of the magic number, or only its first bytes."""
    magic, there = (value.to_bytes(8, "little", signed=True) for value in (own.WATERMARKS_MAGIC, found))
    return there != magic and magic.startswith(there.rstrip(b"\0"))


class Watermarks:
    """The watermarks of a store; a missing file is created with a new store id.

    `read_only`: the file must exist, and no value can be set.

    Raises:
        DamagedStoreError: The file exists and is no watermarks file.
        ClosedError: A value is read after `close`.
    """

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self._path = path
        if read_only:
            array = fs.map_file(path, own.WATERMARKS_FILE_SIZE)
            self._memory: mmap.mmap | None = None
            self._values = array[: own.WATERMARKS.size].view("<i8")
            if self["magic"] != own.WATERMARKS_MAGIC:
                raise DamagedStoreError(_not_ours(path))
            return
        with fs.errors_named(path, "map"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                # Only zeros: its writer was killed, or the disk was full.
                unfinished = size < own.WATERMARKS_FILE_SIZE and not any(os.pread(descriptor, size, 0))
                if unfinished:
                    fs.pwrite(descriptor, bytes(own.WATERMARKS_FILE_SIZE), 0)
                elif size != own.WATERMARKS_FILE_SIZE:
                    raise DamagedStoreError(_of_another_size(path, size))
                if os.fstat(descriptor).st_blocks * _BLOCK < own.WATERMARKS_FILE_SIZE:
                    # A sparse copy of the file lacks blocks for values that are stored through the map.
                    fs.reserve(descriptor, 0, own.WATERMARKS_FILE_SIZE)
                self._memory = mmap.mmap(descriptor, own.WATERMARKS_FILE_SIZE)
            finally:
                os.close(descriptor)
        self._values = np.frombuffer(self._memory, dtype="<i8")
        if self._is_unfinished():
            self["store_id_high"] = secrets.randbits(63)
            self["store_id_low"] = secrets.randbits(63)
            self["magic"] = own.WATERMARKS_MAGIC
        elif self["magic"] != own.WATERMARKS_MAGIC:
            raise DamagedStoreError(_not_ours(path))

    def _is_unfinished(self) -> bool:
        """Return True if a power cut has kept nothing of the magic number, or only its first bytes."""
        return _is_begun(self["magic"])

    def __getitem__(self, name: str) -> int:
        try:
            return int(self._values[_PLACE[name]])
        except AttributeError:
            # A catch-up whose listener closes the store comes here, in the same thread.
            raise ClosedError(f"{self._path}: the store has been closed") from None

    def __setitem__(self, name: str, value: int) -> None:
        self._values[_PLACE[name]] = value

    def cell(self, name: str) -> WatermarkCell:
        """Return one watermark as a view of one int64 and its address: the fastest ways to publish it.

        Release the view before the watermarks are closed.
        """
        assert self._memory is not None, "read-only"
        place = _PLACE[name] * self._values.itemsize
        view = memoryview(self._memory)[place : place + self._values.itemsize].cast("q")
        return WatermarkCell(view, self.address(name))

    def address(self, name: str) -> int:
        """Return the memory address of one watermark; it is valid as long as the caller keeps `memory`."""
        return address_of(self._values) + _PLACE[name] * self._values.itemsize

    @property
    def memory(self) -> NDArray[np.int64]:
        """The object that keeps the watermarks in memory, even after they are closed."""
        return self._values

    @property
    def store_id(self) -> str:
        """The store's id as 32 hex digits."""
        return f"{self['store_id_high']:016x}{self['store_id_low']:016x}"

    def sync(self) -> None:
        """Make the page durable."""
        if self._memory is not None:
            with fs.errors_named(self._path, "sync"):
                self._memory.flush()

    def close(self) -> None:
        """Drop the map."""
        del self._values
        if self._memory is not None:
            # If a caller keeps `memory`, the map is released with it.
            with contextlib.suppress(BufferError):
                self._memory.close()
