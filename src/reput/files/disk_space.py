"""The space on a store's file system, and whether this user can write there.

Callers write `disk_space.disk_use(...)`, so that a test can replace each function, as for `files.fs`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from reput.files.fs import errors_named


class DiskUse(NamedTuple):
    """The used bytes of a file system, and the bytes that this user can still write."""

    used: int
    usable: int

    @property
    def percent(self) -> int:
        """The used part in percent, rounded up as in RocketMQ; 0 for a file system without blocks."""
        total = self.used + self.usable
        return -(-self.used * 100 // total) if total else 0


def disk_use(path: Path | str) -> DiskUse:
    """Return the use of the file system of `path`."""
    with errors_named(path, "ask for free space"):
        status = os.statvfs(path)
    return DiskUse((status.f_blocks - status.f_bfree) * status.f_frsize, status.f_bavail * status.f_frsize)


def refuse_unwritable(path: Path | str) -> None:
    """Refuse a folder in which this user cannot create files.

    Raises:
        AccessError: This user cannot create files there.
    """
    with errors_named(path, "write"):
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if not os.access(path, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def free_bytes(path: Path | str) -> int:
    """Return the number of bytes that this user can still write on the file system of `path`."""
    return disk_use(path).usable
