"""Names in folders, read without a look at what they name: a folder may hold a hundred thousand."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from reput.files import fs
from reput.files.fs import errors_named


def sub_folders(path: Path | str) -> Iterator[str]:
    """The names of the folders in a folder, in no order, as they are read; none when it is not there."""
    with (
        errors_named(path, "list the folder"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(path) as names,
    ):
        yield from (name.name for name in names if name.is_dir(follow_symlinks=False))


def is_empty_dir(path: Path | str) -> bool:
    """Whether a folder holds nothing, or is not there."""
    with errors_named(path, "list the folder"), contextlib.suppress(FileNotFoundError), os.scandir(path) as names:
        return next(names, None) is None
    return True


def is_database(path: Path) -> bool:
    """Whether a folder has the files of a RocksDB; RocksDB is not loaded for that."""
    return fs.exists(path / "CURRENT") or fs.exists(path / "IDENTITY")


def is_own_dir(path: Path | str) -> bool:
    """Whether there is a folder under this name itself, not behind a link; errors as with `fs.exists`."""
    with errors_named(path, "look at"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False
