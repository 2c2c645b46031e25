"""Owners of files: a file that root creates in another user's store belongs to that user.

Root gives each new file and folder to the owner that the caller names, or otherwise to the owner of the folder above.
Other users cannot give files away. Errors leave this module as OSErrors; `reput.files.fs` names them.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import secrets
import stat
from pathlib import Path
from typing import NamedTuple


class Owner(NamedTuple):
    """Owner and modes of new files and folders of a store."""

    user: int
    group: int
    file_mode: int
    dir_mode: int


def owner_in(status: os.stat_result) -> Owner:
    """Return owner and modes that a folder passes on; files get its mode without the search bits."""
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return Owner(status.st_uid, status.st_gid, mode & 0o666, mode | 0o300)


def own(descriptor: int, owner: Owner, mode: int) -> None:
    """Give an open file or folder an owner and a mode."""
    status = os.fstat(descriptor)
    if stat.S_IMODE(status.st_mode) != mode:
        os.fchmod(descriptor, mode)
    if (status.st_uid, status.st_gid) != (owner.user, owner.group):
        os.fchown(descriptor, owner.user, owner.group)


def inherit(descriptor: int, path: Path | str) -> None:
    """Give a new file or folder, as root, to the owner of its folder; its mode stays."""
    if os.geteuid() == 0:
        above = os.stat(os.path.dirname(path) or ".")
        status = os.fstat(descriptor)
        if (status.st_uid, status.st_gid) != (above.st_uid, above.st_gid):
            os.fchown(descriptor, above.st_uid, above.st_gid)


def belong(descriptor: int, path: Path | str, owner: Owner | None, mode: int | None) -> None:
    """Give a new file or folder its owner and mode, or without them the owner of the folder above."""
    if owner is None or mode is None:
        inherit(descriptor, path)
    else:
        own(descriptor, owner, mode)


def give_tree(path: Path | str, owner: Owner, *, deep: bool) -> None:
    """Give, as root, a folder, its files and, if `deep`, all folders below it to an owner; modes stay.

    Files may be added and removed meanwhile. Links are not followed. A file with a second name keeps its owner: it may
    be another user's.
    """
    if os.geteuid() != 0 or (owner.user, owner.group) == (os.geteuid(), os.getegid()):
        return
    for _, folders, files, descriptor in os.fwalk(path, follow_symlinks=False):
        if not deep:
            folders.clear()
        for name in (".", *folders, *files):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                is_plain = stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)
                if is_plain and (status.st_uid, status.st_gid) != (owner.user, owner.group):
                    os.chown(name, owner.user, owner.group, dir_fd=descriptor, follow_symlinks=False)


def is_strange(folder: Path | str) -> bool:
    """Return True if new files of this process in a folder belong to neither the folder's owner nor root.

    Some file systems (shares, mounts into containers) give all files one owner, so the function creates a file to see.
    """
    owner = os.stat(folder).st_uid
    if os.geteuid() in (0, owner):
        return False
    probe = os.path.join(folder, f".reput-{secrets.token_hex(8)}")
    descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return os.fstat(descriptor).st_uid != owner
    finally:
        os.close(descriptor)
        os.unlink(probe)


def owner_text(path: Path | str) -> str:
    """Return the owner of a path, or of the nearest existing folder above it, for people."""
    place = Path(path).absolute()
    while True:
        with contextlib.suppress(OSError):
            status = os.lstat(place)
            return f"{user_text(status.st_uid)}, group {_group_name(status.st_gid)}"
        if place == place.parent:
            return "an unknown user"
        place = place.parent


def user_text(user: int) -> str:
    """Return a user's number, and the name if there is one."""
    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return f"gid {group}"
