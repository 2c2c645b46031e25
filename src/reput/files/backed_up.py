"""A JSON file with a backup, as brokers keep their tables in `config`.

A file that is missing, empty or damaged is read from its backup, as the broker does. Each write replaces the file at
once, and its backup before it, so each is whole at any instant. Damaged files are kept under another name when the
file is written; the broker overwrites them.

Source: `ConfigManager.load`, `loadBak`; `MixAll.string2File`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from reput.errors import DamagedStoreError, ReputError
from reput.files import fs
from reput.files.folders import make_durable_dir

_Parsed = TypeVar("_Parsed")


def backup_of(path: Path) -> Path:
    """Return the path of a file's backup."""
    return path.with_name(f"{path.name}.bak")


class BackedUpKind(NamedTuple, Generic[_Parsed]):
    """The rules and texts of one kind of files.

    Attributes:
        decode: returns the content of bytes; raises DamagedStoreError, with the second argument as the place.
        nothing: the content if neither the file nor its backup is there.
        size_limit: the maximum bytes of a good file.
        older: says that the backup was read, with {} for its path.
        without: says what follows if there is no content.
    """

    decode: Callable[[bytes, str], _Parsed]
    nothing: _Parsed
    size_limit: int
    older: str
    without: str


class LoadedFile(NamedTuple, Generic[_Parsed]):
    """The content of a file or of its backup. `notes`: the problems of a file whose content comes from elsewhere."""

    content: _Parsed
    is_of_backup: bool
    notes: list[str]


class BackedUpFile(Generic[_Parsed]):
    """A file with a backup."""

    def __init__(self, path: Path, kind: BackedUpKind[_Parsed]) -> None:
        self.path = path
        self._kind = kind
        self._written: bytes | None = None
        self._damaged: list[Path] = []
        self._has_durable_folder = False

    def load(self) -> LoadedFile[_Parsed]:
        """Read the file, or its backup if it is missing, empty or damaged. No file changes.

        Raises:
            DamagedStoreError: the file is damaged, and its backup is missing or damaged too.
        """
        kind, backup, self._written, self._damaged = self._kind, backup_of(self.path), None, []
        found, data, wrong = self._decoded(self.path)
        if found is not None:
            self._written = data
            return LoadedFile(found, False, [])
        older, _, wrong_too = self._decoded(backup)
        if older is not None:
            return LoadedFile(older, True, [f"{wrong}. {kind.older.format(backup)}"])
        if self._damaged:
            raise DamagedStoreError(
                f"{wrong}; {wrong_too}. Put a good copy in their place, or move them away: {kind.without}"
            )
        # A broker that was killed, or lost power, in its first write leaves an empty file.
        notes = [] if data is None else [f"{wrong}; {wrong_too}: {kind.without}"]
        return LoadedFile(kind.nothing, False, notes)

    def _decoded(self, path: Path) -> tuple[_Parsed | None, bytes | None, str]:
        """Return the content of a file, its bytes, and the problem if there is no content."""
        limit = self._kind.size_limit
        data = fs.read_bytes(path, limit + 1)
        if not data:
            return None, data, f"{path}: {'is missing' if data is None else 'is empty'}"
        try:
            if len(data) <= limit:
                return self._kind.decode(data, str(path)), data, ""
            wrong = f"{path}: damaged: it has over {limit} bytes"
        except DamagedStoreError as error:
            wrong = str(error)
        self._damaged.append(path)
        return None, data, wrong

    def replace(self, data: bytes, now_ms: int) -> None:
        """Replace the file; the content before becomes its backup. The next call tries again what has failed.

        Args:
            data: the new bytes.
            now_ms: names the damaged files, in milliseconds since 1970.

        Raises:
            ReputError: the system refuses a call, the disk is full, or no reader would take that much.
        """
        if len(data) > self._kind.size_limit:
            raise ReputError(
                f"{self.path}: not written: it would have {len(data)} bytes, and readers take at most "
                f"{self._kind.size_limit}. Remove groups or topics that are not needed any more; the file of before "
                "stays until then"
            )
        folder = self.path.parent
        if not self._has_durable_folder:
            # Also if it exists: an earlier call may have made it, and failed to sync its name.
            make_durable_dir(folder, fs.owner_of(folder.parent))
            self._has_durable_folder = True
        owner = fs.owner_of(folder)
        while self._damaged:
            if fs.exists(self._damaged[-1]):
                fs.rename(self._damaged[-1], _free_name(self._damaged[-1], now_ms))
            self._damaged.pop()
        if self._written is not None:
            fs.write_whole(backup_of(self.path), self._written, owner)
        fs.write_whole(self.path, data, owner)
        self._written = data


def _free_name(path: Path, now_ms: int) -> Path:
    while fs.exists(free := path.with_name(f"{path.name}.damaged-{now_ms}")):
        now_ms += 1
    return free
