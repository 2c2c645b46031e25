"""Remedies for errors of the operating system, by error number, and for names of another type than a broker has."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_RIGHTS = "Run as its owner, {owner}, or give this user, {us}, the rights"
NO_ACCESS = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: (
        "This file system is mounted read-only. Commands that only read work there, and so does a store opened with "
        "read_only=True; to write, mount it read-write"
    ),
    errno.ELOOP: "It is a link, or a chain of too many links: reput writes through none. Put the file itself there",
}
"""Errors of rights, with places for a path's `owner` and for the user of this process (`us`)."""
REMEDIES = {
    errno.EIO: (
        "The disk, or the connection to it, has failed: the system's log (dmesg) says more. Copy the store to a sound "
        "disk before you write to it"
    ),
    errno.EISDIR: "There is a folder where a file belongs: RocketMQ makes none there, so move it away",
    errno.ENOTDIR: "There is a file where a folder belongs: RocketMQ makes none there, so move it away",
    errno.EMFILE: "Raise the limit of open files (ulimit -n)",
    errno.ENFILE: "All processes together have too many files open: raise the system's limit (sysctl fs.file-max)",
    errno.ENOMEM: (
        "The system has no memory left for this, or this process has mapped too many files: raise the limit of memory "
        "(ulimit -v, or that of the container), or of maps (sysctl vm.max_map_count)"
    ),
    errno.ENOLCK: "The file system cannot lock files: put the store on one that can, or start its lock service (NFS)",
    errno.ESTALE: "The file was replaced on the server of this network file system: run it again",
}
"""Other errors with a known remedy."""
TOO_LARGE = "This process may not make files of this size, or the file system cannot: raise the limit (ulimit -f)"
_TYPES = (
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def not_a_file(path: Path) -> str:
    """Return a sentence on a folder, or a named pipe, that is in the place of a file, with what helps."""
    return f"{path}: not a file. {_remedy(path, errno.EISDIR, 'folder')}"


def not_a_folder(path: Path) -> str:
    """Return a sentence on a file, or a named pipe, that is in the place of a folder, with what helps."""
    return f"{path}: not a folder. {_remedy(path, errno.ENOTDIR, 'file')}"


def _remedy(path: Path, error: int, common: str) -> str:
    """Return the remedy with the type of what is there, instead of the type that is most common."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return REMEDIES[error]
    found = next((name for is_so, name in _TYPES if is_so(mode)), common)
    return REMEDIES[error].replace(f"There is a {common} ", f"There is a {found} ", 1)
