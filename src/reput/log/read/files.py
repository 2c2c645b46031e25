"""The files of a CommitLog: a listing, the checks that RocketMQ makes when it loads them, and where their data may end.

`LogFiles` is a listing: a value that a plan keeps. `reput.log.read.maps.LogMaps` maps the files of a log that may grow.

Source: `MappedFileQueue.load`: it loads the files in the order of their names and removes a zero-length last file. It
fails if any other file has not the configured length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from reput.errors import DamagedStoreError, NotAStoreError, ReputError, UnsupportedStoreError
from reput.files import fs
from reput.files.gone import is_gone
from reput.formats import paths
from reput.formats.log import record

_DLEDGER_MAGICS = {1, 2}
_SCAN_BYTES = 1 << 20
_ZEROS = bytes(_SCAN_BYTES)
_WITHOUT_THAT = (
    "Without that `reput rebuild --salvage` builds the indexes of all other records (`reput convert --salvage` does "
    "so, too) and `reput dump log` shows them, but `get` and other readers refuse the store"
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the log: its path, its start offset in the log, its length, and where its data ends at the latest."""

    path: Path
    start: int
    size: int
    data_end: int

    @property
    def end(self) -> int:
        """Log offset after the file."""
        return self.start + self.size


class LogListing(Protocol):
    """The files of a log in order, as a walk and look-ups need them: `LogFiles` or `LogMaps`."""

    @property
    def folder(self) -> Path:
        """The commitlog folder."""

    @property
    def files(self) -> Sequence[LogFile]:
        """The files in order."""

    @property
    def min_offset(self) -> int:
        """Log offset of the first byte kept, 0 without files."""

    @property
    def end_offset(self) -> int:
        """Log offset after the last file."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a log in order; `gaps` are (begin, end) log offsets that no file covers, `notes` list oddities."""

    folder: Path
    files: tuple[LogFile, ...]
    file_size: int
    gaps: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def min_offset(self) -> int:
        """Log offset of the first byte kept, 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end_offset(self) -> int:
        """Log offset after the last file."""
        return self.files[-1].end if self.files else 0

    @property
    def has_odd_size(self) -> bool:
        """True if a file has not the length of the others: RocketMQ would not load this log."""
        return any(file.size != self.file_size for file in self.files)

    @property
    def is_whole(self) -> bool:
        """True if no file is missing or of odd length: only then readers take the store."""
        return not self.gaps and not self.has_odd_size


def list_log_files(
    folder: Path, configured_size: int | None = None, tolerant: bool = False, below: int | None = None
) -> LogFiles:
    """List the files of the log in `folder`.

    Args:
        folder: The store's commitlog folder.
        configured_size: mappedFileSizeCommitLog; None if it is unknown, then the files determine it.
        tolerant: Accept files of odd sizes and holes between files, and list them in `notes` (salvage).
        below: Leave out files that begin at this log offset or later: a writer may be creating them now.

    Raises:
        NotAStoreError: There is no such folder.
        DamagedStoreError: A file has another length than the rest, or one is missing in the middle.
        UnsupportedStoreError: The files are DLedger's.
    """
    if not fs.exists(folder):
        raise NotAStoreError(f"{folder}: no such folder, so this is no RocketMQ store (give the storePathRootDir)")
    named = []
    for entry in fs.list_dir(folder):
        start = paths.parse_offset_name(entry.name) if entry.is_file else None
        if start is not None and (below is None or start < below):
            # RocketMQ allows a link to a file on another disk.
            named.append((start, _shown(folder, entry), fs.size_in(folder, entry)))
    notes: list[str] = []
    if named and named[-1][2] == 0:
        notes.append(f"{named[-1][1]}: empty last file, which RocketMQ removes when it loads the log; ignored")
        named.pop()
    file_size = configured_size or _likely_size([(start, size) for start, _, size in named])
    files = []
    for start, path, size in named:
        if size != file_size:
            _odd(
                f"{path}: {size} bytes, the log's files have {file_size}; RocketMQ would not load this log",
                f"Restore the file to {file_size} bytes, or name another size of the log's files with --set "
                f"mappedFileSizeCommitLog=N. {_WITHOUT_THAT}",
                tolerant,
                notes,
            )
        try:
            end = start + fs.end_of_data(path, size)
        except ReputError as error:
            if not is_gone(error):
                raise
            # A writer has deleted it since it was listed; one in the middle is a gap.
            continue
        files.append(LogFile(path, start, size, end))
    _refuse_dledger(files)
    return LogFiles(folder, tuple(files), file_size, _gaps(files, tolerant, notes), tuple(notes))


def _shown(folder: Path, entry: fs.DirEntry) -> Path:
    """Return the path of a file as errors name it: of a log over several paths the one that its link leads to."""
    path = folder / entry.name
    return path.readlink() if folder.parent.name.startswith(paths.LOG_LINKS_PREFIX) and entry.is_link else path


def written_end(path: Path, begin: int, end: int) -> int:
    """Return the position after the last byte of [begin, end) of a file that is not zero; `begin` if all are zero."""
    position = min(end, fs.end_of_data(path, end))
    while position > begin:
        chunk = max(position - _SCAN_BYTES, begin)
        data = fs.read_bytes(path, position - chunk, chunk) or b""
        # A copy of a log has zeros in the place of holes, up to a gigabyte. `rstrip` takes 1 ns for each.
        if data != _ZEROS[: len(data)]:
            return chunk + len(data.rstrip(b"\0"))
        position = chunk
    return begin


def sync_log(log: LogFiles) -> None:
    """Make the log durable: each of its files, also linked ones, and its folder. Clean files cost nothing."""
    for file in log.files:
        fs.sync_path(file.path)
    fs.sync_path(log.folder)


def _likely_size(files: list[tuple[int, int]]) -> int:
    """Return the file size on which names and lengths agree best; RocketMQ's default without files."""
    votes = Counter(size for _, size in files if size)
    votes.update(after[0] - before[0] for before, after in pairwise(files))
    return votes.most_common(1)[0][0] if votes else 1 << 30


def _odd(what: str, remedy: str, tolerant: bool, notes: list[str]) -> None:
    if not tolerant:
        raise DamagedStoreError(f"{what}. {remedy}")
    notes.append(what)


def _gaps(files: list[LogFile], tolerant: bool, notes: list[str]) -> tuple[tuple[int, int], ...]:
    gaps = []
    for before, after in pairwise(files):
        if after.start < before.end:
            raise DamagedStoreError(
                f"{after.path}: starts at {after.start}, inside {before.path.name} which ends at {before.end}. "
                "Cut that one back to where this one starts, or remove the one that does not belong to this log"
            )
        if after.start > before.end:
            place = before.path.parent / paths.offset_name(before.end)
            why = f", and {place} is a folder: move it away" if fs.is_dir(place) else ""
            _odd(
                f"{before.path}: ends at {before.end} and the next file starts at {after.start}: "
                f"{after.start - before.end} bytes of log are missing{why}",
                f"Restore the missing file. {_WITHOUT_THAT}",
                tolerant,
                notes,
            )
            gaps.append((before.end, after.start))
    return tuple(gaps)


def _refuse_dledger(files: list[LogFile]) -> None:
    if not files:
        return
    head = fs.read_bytes(files[0].path, 8) or b""
    first, second = record.BLANK.struct.unpack(head.ljust(8, b"\0"))
    magics = (record.MAGIC_V1, record.MAGIC_V2, record.MAGIC_BLANK)
    if first in _DLEDGER_MAGICS and second not in magics and second > record.MIN_RECORD_SIZE:
        raise UnsupportedStoreError(f"{files[0].path}: a DLedger log, which reput does not read yet")
