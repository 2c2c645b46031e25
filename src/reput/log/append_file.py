"""The file of a log that is being filled: full size from the start, blocks reserved ahead, written through memory.

With a write buffer (transientStorePool) that memory is no map of the file: `commit` writes it there, step by step.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from reput.errors import NoSpaceError
from reput.files import fs
from reput.formats import paths
from reput.formats.record import BLANK_SIZE
from reput.log.settings import PAGE_SIZE

RESERVE_STEP = 64 << 20
"""At most this many bytes of disk are set aside at once, ahead of what is written."""
RESERVE_STEP_MIN = 1 << 20
"""The first step of a log. Each further one is as long as the log so far: a small store stays small."""
TOUCH_STEP = 1 << 20
"""Bytes of zeros that are written at once in front of records that go through the map.

Page by page the map's own faults take up to 480 ns a record of 296 bytes, so many zeros 60. (MADV_POPULATE_WRITE: no
less, and now and then as much as the faults.)
"""
_ZEROS = memoryview(bytes(TOUCH_STEP))


class AppendFile:
    """One open file of the log; positions are counted from its start.

    `memory` is what records are stored to. `room_end` is as far as a record may reach: blocks are reserved up to there,
    and the blank record fits behind it. `committed` is as far as the file itself holds what was stored to `memory`;
    `mapped` is from where on the map may have pages.

    Raises:
        NoSpaceError, AccessError: it cannot be made.
    """

    __slots__ = (
        "committed", "descriptor", "mapped", "memory", "path", "reserved", "room_end", "size", "start", "touched",
        "write_buffered",
    )  # fmt: skip

    def __init__(
        self, folder: Path, start: int, size: int, owner: fs.Owner, *, position: int = 0, write_buffered: bool = False
    ) -> None:
        self.path = folder / paths.offset_name(start)
        self.start = start
        self.size = size
        self.write_buffered = write_buffered
        self.reserved = self.committed = self.touched = position
        self.mapped = position // PAGE_SIZE * PAGE_SIZE
        self.room_end = 0
        self.descriptor = fs.open_sized(str(self.path), size, owner)
        try:
            with fs.errors_named(self.path, "map"):
                self.memory = fs.memory(size) if write_buffered else fs.map_to_write(self.descriptor, size)
        except BaseException:
            fs.close(self.descriptor)
            raise

    @property
    def end(self) -> int:
        """Log offset behind the file."""
        return self.start + self.size

    def make_room(self, begin: int, end: int, by_write: bool = False) -> None:
        """Reserve blocks for [begin, end) at the log's end, and for as much more as goes at once.

        The blank record's place counts as needed. What is stored with `write` needs no pages in the map (`by_write`).

        Raises:
            NoSpaceError: the disk has not even the blocks up to `end`.
        """
        needed = min(end + BLANK_SIZE, self.size)
        if needed > self.reserved:
            self._reserve(needed)
        if self.write_buffered:
            self.touched = self.reserved
        elif needed > self.touched and not by_write:
            self._touch(begin, needed)
        self.room_end = self.touched - BLANK_SIZE

    def _touch(self, begin: int, needed: int) -> None:
        """Have the pages up to `needed` in memory, and as many more as go at once; full ones leave the map.

        (Those that stay are protected one by one when they are flushed, with a call to the other processors each: that
        took a tenth of a put.)
        """
        fs.forget_pages(self.memory, self.mapped, begin)
        self.mapped = max(self.mapped, begin // PAGE_SIZE * PAGE_SIZE)
        at, end = max(self.touched, begin), min(max(self.touched, begin, needed) + TOUCH_STEP, self.reserved)
        while at < end:
            piece = _ZEROS[: end - at]
            with fs.errors_named(self.path, f"write {len(piece)} bytes at {at}"):
                fs.pwrite(self.descriptor, piece, at)
            at += len(piece)
        self.touched = end

    def _reserve(self, needed: int) -> None:
        with fs.errors_named(self.path, f"reserve blocks up to {needed}"):
            step = min(max(self.start + self.reserved, RESERVE_STEP_MIN), RESERVE_STEP)
            end = min(max(self.reserved + step, needed), self.size)
            try:
                with fs.errors_named(self.path, f"reserve blocks up to {end}"):
                    fs.reserve(self.descriptor, self.reserved, end - self.reserved)
            except NoSpaceError:
                # Near the end of the disk a record may still fit where a step does not.
                end = needed
                fs.reserve(self.descriptor, self.reserved, end - self.reserved)
        self.reserved = end

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Store bytes at a position for which there is room.

        Many at once are cheaper to write than to store to the map: that takes a fault a page, and fills it with zeros
        first (6 GB/s against 1).

        Raises:
            NoSpaceError, ReputError: not all of them are in the file.
        """
        if self.write_buffered:
            self.memory[position : position + len(data)] = data
            return
        with fs.errors_named(self.path, f"write {len(data)} bytes at {position}"):
            fs.pwrite(self.descriptor, data, position)
        self.touched = max(self.touched, position + len(data))

    def wipe(self, position: int, size: int) -> None:
        """Have zeros where something was stored with `write`, or was to be; asks for no memory. Raises as `write`."""
        for at in range(position, position + size, TOUCH_STEP):
            self.write(at, _ZEROS[: min(TOUCH_STEP, position + size - at)])

    def commit(self, position: int) -> None:
        """Have the file hold what was stored up to `position`."""
        begin = self.committed
        if not self.write_buffered or position <= begin:
            self.committed = position
            return
        with fs.errors_named(self.path, f"write {position - begin} bytes at {begin}"):
            view = memoryview(self.memory)
            try:
                fs.pwrite(self.descriptor, view[begin:position], begin)
            finally:
                view.release()
        # Before the pages go: an interrupt between would have them written once more, as zeros.
        self.committed = position
        fs.forget_pages(self.memory, begin // PAGE_SIZE * PAGE_SIZE, position)

    def sync(self) -> None:
        """Make what the file holds durable."""
        with fs.errors_named(self.path, "sync"):
            fs.sync_data(self.descriptor)

    def drop_memory(self) -> None:
        """Let go of the memory; views that readers hold keep a map until the last of them is gone."""
        with contextlib.suppress(BufferError):
            self.memory.close()

    def close(self) -> None:
        """Let go of memory and descriptor."""
        self.drop_memory()
        fs.close(self.descriptor)
