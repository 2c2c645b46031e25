"""Folders in TMPDIR that one process uses; the next process that creates one removes those of killed processes.

Each holds a locked file as long as its process, or one forked from it, lives: the lock ends with the last of them,
however they end. The file is locked before it gets its name, so an unlocked file belongs to no process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from stat import S_ISDIR

from reput.files import forks, fs

_LOCK_NAME = "lock"
_swept: set[str] = set()


class ScratchFolder:
    """A new folder `path`, whose name begins with `prefix`; it is removed by `remove`, with this object, or later.

    The first one with its prefix in a process removes those of this user that are no longer in use.

    Raises:
        ReputError: There is no room for it, or no folder for temporary files.
    """

    def __init__(self, prefix: str) -> None:
        if prefix not in _swept:
            _swept.add(prefix)
            sweep(Path(tempfile.gettempdir()), prefix)
        with fs.errors_named(tempfile.gettempdir(), "make a temporary folder in"):
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            descriptor = os.open(self.path / "lock.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # Registered first, so that the folder is removed however the lines below end. A forked child does not do it.
        self.remove = forks.finalize(self, _remove, str(self.path), descriptor)
        # On a file system without locks dead folders are not removed.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / "lock.new").rename(self.path / _LOCK_NAME)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove(path: str, descriptor: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)


def sweep(folder: Path, prefix: str) -> list[str]:
    """Remove this user's folders below `folder` whose processes have ended; return their names.

    A folder that cannot be read or removed stays: the caller only wants a new folder.
    """
    gone = []
    for name in sorted(os.listdir(folder)):
        if not name.startswith(prefix):
            continue
        with contextlib.suppress(OSError):
            status = os.lstat(folder / name)
            if S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and _is_dead(folder / name / _LOCK_NAME):
                shutil.rmtree(folder / name, ignore_errors=True)
                gone.append(name)
    return gone


def _is_dead(lock: Path) -> bool:
    """Return True if a folder's lock has no holder; a folder without a lock file is new, or another program's."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    return True
