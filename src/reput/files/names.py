"""Names in folders, read without a stat of each file: a folder may hold a hundred thousand."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.fs import errors_named
from reput.files.remedies import not_a_file
from reput.formats.queue.rocksdb_consume_queue import FOLDER_SIGNS, LOCK_FILE, is_database_file


def sub_folders(path: Path | str) -> Iterator[str]:
    """Yield the names of the folders in a folder, in no order; none if it does not exist."""
    return _names_of(path, lambda one: one.is_dir(follow_symlinks=False))


def file_names(path: Path | str) -> Iterator[str]:
    """Yield the names in a folder that are no folders, in no order, without a stat; none if it does not exist."""
    return _names_of(path, lambda one: not one.is_dir(follow_symlinks=False))


def not_files(path: Path | str) -> Iterator[str]:
    """Yield the names in a folder that are neither files nor links: folders, named pipes, sockets and devices."""
    return _names_of(path, lambda one: not one.is_file(follow_symlinks=False) and not one.is_symlink())


def not_folders(path: Path | str) -> Iterator[str]:
    """Yield the names in a folder that are neither folders nor links: files, named pipes, sockets and devices."""
    return _names_of(path, lambda one: not one.is_dir(follow_symlinks=False) and not one.is_symlink())


def _names_of(path: Path | str, is_wanted: Callable[[os.DirEntry[str]], bool]) -> Iterator[str]:
    with (
        errors_named(path, "list the folder"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(path) as names,
    ):
        yield from (one.name for one in names if is_wanted(one))


def modes(path: Path | str, wanted: Container[str]) -> dict[str, int]:
    """Return the types, as in `st_mode`, of these names in a folder; links are followed, and those to nothing have 0.

    No name has a stat of its own, unless it is a link or of a rare type. Empty if the folder does not exist.
    """
    with (
        errors_named(path, "list the folder"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(path) as names,
    ):
        return {one.name: _mode_of_entry(one) for one in names if one.name in wanted}
    return {}


def _mode_of_entry(entry: os.DirEntry[str]) -> int:
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    return stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else _mode_of(entry.path)


def is_empty_dir(path: Path | str) -> bool:
    """Return True if a folder is empty or does not exist."""
    with (
        errors_named(path, "list the folder"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(path) as names,
    ):
        return next(names, None) is None
    return True


def is_database(path: Path) -> bool:
    """Return True if a folder has the files of a RocksDB; RocksDB is not loaded."""
    return any(fs.exists(path / name) for name in FOLDER_SIGNS)


def owns_database_file(names: Sequence[str]) -> bool:
    """Return True for the path of a RocksDB's file below its folder, also if it was copied in part."""
    return len(names) == 1 and is_database_file(names[0])


def refuse_other_types(folder: Path, remedy: str) -> None:
    """Refuse a database with a folder or a named pipe in the place of a file: RocksDB would wait for a pipe's writer.

    Raises:
        DamagedStoreError: There is one.
    """
    for entry in fs.list_dir(folder):
        if not entry.is_file and is_database_file(entry.name):
            raise DamagedStoreError(not_a_file(folder / entry.name), remedy)


def was_database(path: Path) -> bool:
    """Return True if a program has had a RocksDB open in a folder: the file that it locks stays."""
    return fs.exists(path / LOCK_FILE)


def is_own_dir(path: Path | str) -> bool:
    """Return True if this is a folder itself and not a link to one; errors as with `fs.exists`."""
    with errors_named(path, "look at"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False


def is_file(path: Path | str) -> bool:
    """Return True if this is a file or a link to one; errors as with `fs.exists`."""
    return stat.S_ISREG(_mode_of(path))


def is_no_folder(path: Path | str) -> bool:
    """Return True if this is there, and no folder: a file, a named pipe, a socket or a device."""
    mode = _mode_of(path)
    return mode != 0 and not stat.S_ISDIR(mode)


def _mode_of(path: Path | str) -> int:
    """Return the type and rights of what is there, 0 if nothing is; links are followed."""
    with errors_named(path, "look at"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.stat(path).st_mode
    return 0
