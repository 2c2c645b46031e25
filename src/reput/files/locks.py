"""Locks: RocketMQ's own on `<store>/lock`, and ours in `<store>/reput/`.

RocketMQ's is a POSIX record lock on the first byte: it keeps two processes apart, not two parts of one process, and any
close of the file in the process that holds it drops it. So one descriptor stays open as long as the lock is needed.
Ours are `flock` locks, which belong to their descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from reput.errors import StoreLockedError
from reput.files import fs

_BUSY = {errno.EACCES, errno.EAGAIN}


@contextlib.contextmanager
def broker_lock(path: Path, owner: fs.Owner | None = None) -> Iterator[None]:
    """Hold RocketMQ's lock file (exclusive, byte 0) as a broker would; made for `owner` when it is not there.

    Raises:
        StoreLockedError: a live broker holds it, or another part of this process.
    """
    if _identity(path) in _held:
        raise StoreLockedError(
            f"{path}: another reput job of this process is at work on this store. Wait until it ends"
        )
    with fs.errors_named(path, "lock"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno in _BUSY:
                raise StoreLockedError(
                    f"{path}: a running broker holds this store. Stop it first, or work on a copy"
                ) from error
            raise
        if owner is not None:
            fs.give_descriptor_to(descriptor, owner)
        identity = _identity(path)
        _held.add(identity)
        try:
            yield
        finally:
            _held.discard(identity)
    finally:
        os.close(descriptor)


_held: set[tuple[int, int] | None] = set()
"""Device and inode of the lock files that this process holds: to open and close one would drop its lock."""


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def broker_is_live(path: Path) -> bool:
    """Whether some process holds RocketMQ's lock; nothing is made or changed."""
    if _identity(path) in _held:
        return True
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        return error.errno in _BUSY
    else:
        return False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def owner_lock(path: Path) -> Iterator[None]:
    """Hold reput's own lock exclusively.

    Raises:
        StoreLockedError: another reput process is at work on this store.
    """
    with _flocked(path, fcntl.LOCK_EX, wait_s=0.0) as held:
        if not held:
            raise StoreLockedError(f"{path}: another reput process is at work on this store. Wait until it ends")
        yield


def owner_is_live(path: Path) -> bool:
    """Whether a reput process holds the owner's lock; nothing is made or changed.

    To ask is to hold the lock, shared, for a moment: there is no other way to ask for a `flock`.
    """
    if _identity(path) is None:
        return False
    with fs.errors_named(path, "lock"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return not _try_flock(descriptor, fcntl.LOCK_SH, 0.0)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def task_fence(path: Path) -> Iterator[None]:
    """Hold the fence as a task that writes does: shared with the other tasks of its job."""
    with _flocked(path, fcntl.LOCK_SH, wait_s=30.0) as held:
        if not held:
            raise StoreLockedError(f"{path}: the next owner of this store has closed the fence; this task gives up")
        yield


def close_fence(path: Path, wait_s: float = 60.0) -> None:
    """Wait until no task of an earlier job is writing.

    Raises:
        StoreLockedError: one still is after `wait_s` seconds.
    """
    with _flocked(path, fcntl.LOCK_EX, wait_s) as held:
        if not held:
            raise StoreLockedError(f"{path}: tasks of an earlier job still write after {wait_s:.0f} s; end them first")


@contextlib.contextmanager
def _flocked(path: Path, kind: int, wait_s: float) -> Iterator[bool]:
    with fs.errors_named(path, "lock"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        yield _try_flock(descriptor, kind, wait_s)
    finally:
        os.close(descriptor)


def _try_flock(descriptor: int, kind: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True
