"""The files that a log's writer has open: the current one, and full ones that are not durable yet."""

from __future__ import annotations

from pathlib import Path

from reput.errors import ConfigError
from reput.files import fs
from reput.formats import paths
from reput.formats.log.record import BLANK_SIZE, encode_blank
from reput.log.append.append_file import AppendFile


class RollingFiles:
    """The writer's open files, from file to file as the log grows; `end_offset` is the log's end now.

    The class takes no lock: the writer holds its own in `make_room` and `commit`.

    Raises:
        ConfigError: `end_offset` lies in no file and begins none, or that file has another size than `file_size`.
    """

    def __init__(
        self, folder: Path, file_size: int, owner: fs.Owner, *, end_offset: int, write_buffered: bool = False
    ) -> None:
        self._folder = folder
        self._size = file_size
        self._owner = owner
        self._write_buffered = write_buffered
        self.current: AppendFile | None = None
        self.retired: list[AppendFile] = []
        # Another program may have made the last file, and not synced its name.
        self.names_changed = True
        """True if new files have names that are not durable yet."""
        self.start = _start_of(folder, end_offset, file_size)
        """Start of the current file, or of the file that the next record creates."""

    def make_room(self, end: int, size: int, by_write: bool = False) -> tuple[AppendFile, int]:
        """Return the file that takes `size` bytes, and their log offset: `end`, or the start of the next file.

        `by_write`: the caller stores them with `AppendFile.write`, not in its memory. An error changes nothing.

        Raises:
            NoSpaceError, AccessError: The disk has no room for them, or the process must not create the file.
        """
        # An interrupted call may have gone on to the next file unnoticed.
        end = max(end, self.start)
        file = self.current
        if file is None:
            file = self._open(self.start, end - self.start)
        try:
            position = end - file.start
            if position + size + BLANK_SIZE <= file.size:
                file.make_room(position, position + size, by_write)
                self.current = file
                return file, end
            if position == file.reserved:
                # A file that is opened again at its very end: the blank record needs a block.
                file.make_room(position, position)
            # A later file must not be on the disk while this one has no name there: no log has such a hole.
            fs.sync_path(self._folder)
            following = self._open(file.end, 0)
            try:
                following.make_room(0, size, by_write)
                _end_file(file, position)
            except BaseException:
                if file.committed > position:  # noqa: PLR1730 - a call could be interrupted
                    # A smaller record may overwrite the blank record.
                    file.committed = position
                following.close()
                raise
        except BaseException:
            if file is not self.current:
                file.close()
            raise
        # An assignment, not a call: after a call an interrupt could find the file half retired.
        self.retired += [file]
        self.current, self.start = following, following.start
        file.drop_memory()
        return following, following.start

    def _open(self, start: int, position: int) -> AppendFile:
        self.names_changed = True
        return AppendFile(
            self._folder, start, self._size, self._owner, position=position, write_buffered=self._write_buffered
        )

    def sync_range(self, offsets: range) -> None:
        """Make the bytes of an earlier writer at these log offsets durable; their files may be open or not."""
        first = offsets.start // self._size * self._size
        for start in range(first, offsets.stop, self._size) if offsets else ():
            path = self._folder / paths.offset_name(start)
            if fs.exists(path):
                fs.sync_path(path)

    def forget(self, files: list[AppendFile]) -> None:
        """Close retired files that are durable now."""
        for file in files:
            self.retired.remove(file)
            file.close()

    def close(self) -> None:
        """Close all files."""
        for file in self.retired:
            file.close()
        self.retired.clear()
        if self.current is not None:
            self.current.close()
            self.current = None


def _end_file(file: AppendFile, position: int) -> None:
    """Put the blank record after the last record. After a failure it can be repeated, or records can continue there."""
    left = file.size - position
    if left >= BLANK_SIZE:
        file.memory[position : position + BLANK_SIZE] = encode_blank(left)
    file.commit(min(position + BLANK_SIZE, file.size))


def _start_of(folder: Path, end_offset: int, file_size: int) -> int:
    """Return the start of the file that holds `end_offset`, or `end_offset` itself if a file begins there."""
    files = [
        (start, entry)
        for entry in fs.list_dir(folder)
        if entry.is_file and (start := paths.parse_offset_name(entry.name)) is not None
    ]
    for start, entry in files:
        if entry.size not in {0, file_size} and start + max(entry.size, file_size) > end_offset:
            raise ConfigError(
                f"{folder / entry.name}: {entry.size} bytes, and mappedFileSizeCommitLog is {file_size}; "
                "give the size that the log's files have"
            )
        if start < end_offset < start + file_size:
            return start
    if files and end_offset != files[0][0] and all(start + file_size != end_offset for start, _ in files):
        raise ConfigError(f"{folder}: no file holds log offset {end_offset}, where the log is said to end")
    if not files and end_offset % file_size:
        raise ConfigError(f"{folder}: no file holds log offset {end_offset}, where the log is said to end")
    return end_offset
