"""Folders in TMPDIR that one process uses; what killed ones have left is removed by the next that makes one.

Each holds a locked file as long as its process, or one forked from it, lives: the lock goes with the last of them,
however they end. It is locked before it gets its name, so a file that nobody has locked belongs to nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from stat import S_ISDIR

from reput.files import forks

_LOCK_NAME = "lock"
_swept: set[str] = set()


class ScratchFolder:
    """A new folder `path`, whose name begins with `prefix`; gone at `remove`, or with this object, or swept later.

    The first of its kind in a process removes those of this user that nobody uses any more.
    """

    def __init__(self, prefix: str) -> None:
        if prefix not in _swept:
            _swept.add(prefix)
            sweep(Path(tempfile.gettempdir()), prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        descriptor = os.open(self.path / "lock.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # The object's own, so that it goes however the lines below end. A forked child leaves it to this process.
        self.remove = forks.finalize(self, _remove, str(self.path), descriptor)
        # A file system without locks has no dead folders swept.
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
    """Remove this user's folders below `folder` whose processes have ended; returns their names.

    One that cannot be looked at or removed stays: it is no business of whoever only wants a folder.
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
    """Whether nobody holds the lock of a folder; one without a lock file is being made, or is somebody else's."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    return True
