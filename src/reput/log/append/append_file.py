"""The current file of a log: it has its full size from the start, reserves blocks ahead, and is written through memory.

With a write buffer (transientStorePool) that memory is not a map of the file: `commit` writes it there, step by step.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from reput.errors import NoSpaceError
from reput.files import fs
from reput.files.pages import page_begin, page_end
from reput.formats import paths
from reput.formats.log.record import BLANK_SIZE

RESERVE_STEP = 64 << 20
"""Most bytes of disk that are reserved at once, ahead of the records."""
RESERVE_STEP_MIN = 1 << 20
"""The first step of a log. Each later step is as long as the log so far, so a small store stays small."""
TOUCH_STEP = 1 << 20
"""Bytes of zeros that are written at once, ahead of records that go through the map.

The map's own page faults take up to 480 ns for a record of 296 bytes; writing zeros takes 60. (MADV_POPULATE_WRITE
takes no less, and sometimes as much as the faults.)
"""
_ZEROS = memoryview(bytes(TOUCH_STEP))


class AppendFile:
    """One open file of the log; positions count from its start.

    Records are stored to `memory`. A record may reach up to `room_end`: blocks are reserved up to there, and the blank
    record fits after it. Up to `committed` the file holds the bytes of `memory`. From `mapped` on the map may have
    pages.

    Raises:
        NoSpaceError, AccessError: The file cannot be created.
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
        self.mapped = page_begin(position)
        self.room_end = 0
        self.descriptor = fs.open_sized(str(self.path), size, owner)
        try:
            if position == 0:
                # A later file must not be on the disk while this one has no length there: no log is like that.
                with fs.errors_named(self.path, "sync"):
                    fs.sync(self.descriptor)
            with fs.errors_named(self.path, "map"):
                self.memory = fs.memory(size) if write_buffered else fs.map_to_write(self.descriptor, size)
        except BaseException:
            fs.close(self.descriptor)
            raise

    @property
    def end(self) -> int:
        """Log offset after the file."""
        return self.start + self.size

    def make_room(self, begin: int, end: int, by_write: bool = False) -> None:
        """Reserve blocks for [begin, end) at the log's end, and for a step ahead.

        The place of the blank record is included. `by_write`: the bytes are stored with `write`, which needs no pages
        in the map.

        Raises:
            NoSpaceError: The disk has no blocks up to `end`.
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
        """Bring the pages up to `needed` and a step ahead into memory; full pages leave the map.

        (A flush protects each page that stays, with a call to the other processors: that took a tenth of a put.)
        """
        fs.forget_pages(self.memory, self.mapped, begin)
        self.mapped = max(self.mapped, page_begin(begin))
        at, end = max(self.touched, begin), min(max(self.touched, begin, needed) + TOUCH_STEP, self.reserved)
        while at < end:
            piece = _ZEROS[: end - at]
            with fs.errors_named(self.path, f"write {len(piece)} bytes at {at}"):
                fs.pwrite(self.descriptor, piece, at)
            at += len(piece)
        self.touched = end

    def _reserve(self, needed: int) -> None:
        """Reserve blocks up to `needed` and a step ahead, in whole pages: a block may be smaller than a page."""
        begin = page_begin(self.reserved)
        with fs.errors_named(self.path, f"reserve blocks up to {needed}"):
            step = min(max(self.start + self.reserved, RESERVE_STEP_MIN), RESERVE_STEP)
            end = min(page_end(max(self.reserved + step, needed)), self.size)
            try:
                with fs.errors_named(self.path, f"reserve blocks up to {end}"):
                    fs.reserve(self.descriptor, begin, end - begin)
            except NoSpaceError:
                # On a nearly full disk a record may fit where a step does not.
                end = min(page_end(needed), self.size)
                fs.reserve(self.descriptor, begin, end - begin)
        self.reserved = end

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Store bytes at a position for which there is room.

        Writing many bytes at once is cheaper than storing them to the map (6 GB/s against 1): the map takes a fault for
        each page, and fills it with zeros first.

        Raises:
            NoSpaceError, ReputError: Not all of them are in the file.
        """
        if self.write_buffered:
            self.memory[position : position + len(data)] = data
            return
        with fs.errors_named(self.path, f"write {len(data)} bytes at {position}"):
            fs.pwrite(self.descriptor, data, position)
        self.touched = max(self.touched, position + len(data))

    def wipe(self, position: int, size: int) -> None:
        """Zero bytes that `write` has stored, or should have stored; this needs no memory. Raises as `write`."""
        for at in range(position, position + size, TOUCH_STEP):
            self.write(at, _ZEROS[: min(TOUCH_STEP, position + size - at)])

    def commit(self, position: int) -> None:
        """Write to the file what was stored up to `position`."""
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
        # Before the pages are dropped: after an interrupt in between they would be written again, as zeros.
        self.committed = position
        fs.forget_pages(self.memory, page_begin(begin), position)

    def sync(self) -> None:
        """Make the file durable."""
        with fs.errors_named(self.path, "sync"):
            fs.sync_data(self.descriptor)

    def drop_memory(self) -> None:
        """Release the memory; a map lives as long as readers hold views of it."""
        with contextlib.suppress(BufferError):
            self.memory.close()

    def close(self) -> None:
        """Release memory and descriptor."""
        self.drop_memory()
        fs.close(self.descriptor)
