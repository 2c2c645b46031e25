"""The states that a disk may be in when the power is cut: what was synced, and any part of what was not.

    disk = Disk(recorder.before)
    for entry in journal[:call]: disk.apply(entry)
    files = disk.state(choice)          choice 0: all that is not synced has vanished; 1: all is there; others: a part

A disk keeps sectors of 512 bytes, each in one of the versions that it had since its file was synced last. The sector
that is written when the power fails may end at any byte with the version before. A file's length is one of those that
it had. Names come and go in the order of the calls, as in a file system with a journal, or each by itself. A rename is
never done by half.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from support.power.journal import ROOT, Link, Rename, Resize, Sync, SyncAll, Unlink, Write

if TYPE_CHECKING:
    from pathlib import Path

    from support.power.journal import Entry

SECTOR = 512
NOTHING, EVERYTHING = 0, 1
"""The choices that keep nothing and everything of what is not synced."""


class Folder(NamedTuple):
    """A folder of a tree."""


class SymbolicLink(NamedTuple):
    """A symbolic link of a tree."""

    target: str


Tree = dict[str, "bytes | Folder | SymbolicLink"]
"""The files, folders and links below a folder, by path; a folder comes before what it holds."""


class Disk:
    """A disk that has kept `tree` so far; `apply` goes on by one entry of a journal."""

    def __init__(self, tree: Tree) -> None:
        self.makes: dict[int, str] = {ROOT: "folder"}
        self._names: dict[int, dict[str, int]] = {ROOT: {}}
        self._data: dict[int, bytearray] = {}
        self._new_names: list[Link | Unlink | Rename] = []
        self._new_data: dict[int, list[Write | Resize]] = {}
        self._doubtful: dict[int, list[Write | Resize]] = {}
        for number, (path, found) in enumerate(sorted(tree.items()), 1):
            folder, _, name = path.rpartition("/")
            self._names[self.number_of(folder)][name] = number
            self._make(number, found)

    def _make(self, number: int, found: bytes | Folder | SymbolicLink) -> None:
        if isinstance(found, Folder):
            self.makes[number], self._names[number] = "folder", {}
        elif isinstance(found, SymbolicLink):
            self.makes[number] = f"->{found.target}"
        else:
            self.makes[number], self._data[number] = "file", bytearray(found)

    def number_of(self, path: str) -> int:
        """Return the number of a path that the disk keeps."""
        number = ROOT
        for name in path.split("/") if path else ():
            number = self._names[number][name]
        return number

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each path that the disk keeps."""
        found: dict[str, int] = {}
        waiting = [("", ROOT)]
        while waiting:
            path, folder = waiting.pop()
            for name, number in self._names[folder].items():
                found[f"{path}{name}"] = number
                if self.makes[number] == "folder":
                    waiting.append((f"{path}{name}/", number))
        return found

    @property
    def is_settled(self) -> bool:
        """True if nothing waits for a sync: the disk can only be in one state."""
        return not (self._new_names or self._new_data or self._doubtful)

    # --- the journal -----------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Take in the next entry."""
        match entry:
            case Link():
                if entry.makes:
                    self.makes[entry.number] = entry.makes
                    if entry.makes == "folder":
                        self._names[entry.number] = {}
                    elif entry.makes == "file":
                        self._data[entry.number] = bytearray()
                self._new_names.append(entry)
            case Unlink() | Rename():
                self._new_names.append(entry)
            case Write() | Resize():
                self._new_data.setdefault(entry.number, []).append(entry)
            case Sync():
                self._sync(entry)
            case SyncAll():
                for change in self._new_names:
                    _rename(self._names, change)
                self._new_names.clear()
                for number in list(self._new_data):
                    self._sync(Sync(number))

    def _sync(self, entry: Sync) -> None:
        number = entry.number
        if number in self._names and not entry.failed:
            for change in [one for one in self._new_names if number in _folders(one)]:
                _rename(self._names, change)
                self._new_names.remove(change)
            return
        changes = self._new_data.pop(number, [])
        if entry.failed:
            # The system holds these pages for clean from now on, and has lost or written each of them.
            self._doubtful.setdefault(number, []).extend(changes)
        elif changes:
            self._keep(number, changes)

    def _keep(self, number: int, changes: list[Write | Resize]) -> None:
        """Make changes durable; a page that is written again takes along what an earlier sync has failed to keep."""
        again = {page for one in changes if isinstance(one, Write) for page in _pages(one)}
        left: list[Write | Resize] = []
        for one in self._doubtful.pop(number, []):
            if isinstance(one, Resize):
                _change(self._data[number], one)
                continue
            for piece in _split(one, 4096):
                if piece.offset // 4096 in again:
                    _change(self._data[number], piece)
                else:
                    left.append(piece)
        if left:
            self._doubtful[number] = left
        for one in changes:
            _change(self._data[number], one)

    # --- the states ------------------------------------------------------------------------------

    def state(self, choice: int) -> Tree:
        """Return the files that the disk may have kept, those of number `choice`; always the same."""
        chance = random.Random(f"state {choice}")
        names = {folder: dict(found) for folder, found in self._names.items()}
        for change in self._kept_names(choice, chance):
            _rename(names, change)
        share = chance.choice((0.1, 0.5, 0.9, 0.0, 1.0))
        tree: Tree = {}
        waiting = [("", ROOT)]
        while waiting:
            path, folder = waiting.pop()
            for name, number in sorted(names[folder].items()):
                makes = self.makes[number]
                if makes == "folder":
                    tree[f"{path}{name}"] = Folder()
                    waiting.append((f"{path}{name}/", number))
                elif makes == "file":
                    tree[f"{path}{name}"] = self._bytes(number, choice, share, chance)
                else:
                    tree[f"{path}{name}"] = SymbolicLink(makes[2:])
        return tree

    def _kept_names(self, choice: int, chance: random.Random) -> list[Link | Unlink | Rename]:
        if choice in (NOTHING, EVERYTHING):
            return self._new_names if choice == EVERYTHING else []
        if chance.random() < 0.5:
            return self._new_names[: chance.randrange(len(self._new_names) + 1)]
        share = chance.choice((0.2, 0.5, 0.8, 1.0))
        return [one for one in self._new_names if chance.random() < share]

    def _bytes(self, number: int, choice: int, share: float, chance: random.Random) -> bytes:
        doubtful, new = self._doubtful.get(number, []), self._new_data.get(number, [])
        if not doubtful and not new:
            return bytes(self._data[number])
        if choice == NOTHING:
            return bytes(self._data[number])
        if choice == EVERYTHING and not doubtful:
            data = bytearray(self._data[number])
            for one in new:
                _change(data, one)
            return bytes(data)
        return _mixed(self._data[number], [*doubtful, *new], share, chance)


def _mixed(kept: bytearray, changes: list[Write | Resize], share: float, chance: random.Random) -> bytes:
    """Return a file of which each sector has one of its versions, and its length is one of those that it had."""
    sizes, pieces = [len(kept)], {}
    full = bytearray(kept)
    for one in changes:
        _change(full, one)
        if len(full) != sizes[-1]:
            sizes.append(len(full))
        if isinstance(one, Write):
            for piece in _split(one, SECTOR):
                pieces.setdefault(piece.offset // SECTOR, []).append(piece)
    data = bytearray(max(*sizes, len(kept)) if len(sizes) > 1 else len(kept))
    data[: len(kept)] = kept
    for versions in pieces.values():
        if chance.random() >= share:
            continue
        last = len(versions) if chance.random() < 0.6 else chance.randrange(1, len(versions) + 1)
        for piece in versions[: last - 1]:
            _change(data, piece)
        piece = versions[last - 1]
        torn = chance.randrange(1, len(piece.data) + 1) if chance.random() < 0.15 else len(piece.data)
        _change(data, piece._replace(data=piece.data[:torn]))
    size = sizes[-1] if chance.random() < 0.6 else chance.choice(sizes)
    return bytes(data[:size])


def _split(write: Write, size: int) -> list[Write]:
    """Return a write as pieces that lie in one block of `size` bytes each."""
    found, at, end = [], write.offset, write.offset + len(write.data)
    while at < end:
        until = min(end, (at // size + 1) * size)
        found.append(Write(write.number, at, write.data[at - write.offset : until - write.offset]))
        at = until
    return found


def _pages(write: Write) -> range:
    return range(write.offset // 4096, (write.offset + max(len(write.data), 1) - 1) // 4096 + 1)


def _change(data: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Resize):
        if change.size < len(data):
            del data[change.size :]
        else:
            data.extend(bytes(change.size - len(data)))
        return
    end = change.offset + len(change.data)
    if end > len(data):
        data.extend(bytes(end - len(data)))
    data[change.offset : end] = change.data


def _folders(change: Link | Unlink | Rename) -> tuple[int, ...]:
    return (change.folder, change.to_folder) if isinstance(change, Rename) else (change.folder,)


def _rename(names: dict[int, dict[str, int]], change: Link | Unlink | Rename) -> None:
    match change:
        case Link():
            names[change.folder][change.name] = change.number
        case Unlink():
            names[change.folder].pop(change.name, None)
        case Rename():
            if names[change.folder].get(change.name) == change.number:
                del names[change.folder][change.name]
            else:
                # An earlier name is lost, or has not been removed: this one is all that there is.
                for found in names.values():
                    for name in [name for name, number in found.items() if number == change.number]:
                        del found[name]
            names[change.to_folder][change.to_name] = change.number


def write_tree(tree: Tree, folder: Path) -> None:
    """Write the files of a state into a new folder."""
    folder.mkdir(parents=True)
    for path, found in sorted(tree.items()):
        target = folder / path
        if isinstance(found, Folder):
            target.mkdir()
        elif isinstance(found, SymbolicLink):
            target.symlink_to(found.target)
        else:
            target.write_bytes(found)


def read_tree(folder: Path) -> Tree:
    """Read all files, folders and links below a folder."""
    tree: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            tree[name] = SymbolicLink(str(path.readlink()))
        else:
            tree[name] = Folder() if path.is_dir() else path.read_bytes()
    return tree
