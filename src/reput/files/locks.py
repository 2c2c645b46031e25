"""Locks: RocketMQ's own on `<store>/lock`, and ours in `<store>/reput/`.

RocketMQ's is a POSIX record lock on the first byte: it keeps two processes apart, not two parts of one process, and any
close of the file in the process that holds it drops it. So one descriptor stays open as long as the lock is needed.
Ours are `flock` locks, which belong to their descriptor, and so to every process that was forked meanwhile and has a
copy of it. A child closes its copies at once, so that it does not keep what a parent that was killed has held; and who
lets go unlocks, for a child whose copy was made in between.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reput.errors import StoreLockedError
from reput.files import forks, fs, owners

_BUSY = {errno.EACCES, errno.EAGAIN}
# Linux's struct flock on 64 bits: type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi0q")
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.001, 0.02
"""How long one who waits for a lock sleeps before he asks again: what is held for a moment is waited for a moment."""


Holder = Callable[[], str]
"""Names the reput process that holds a store; only asked when one is in the way."""


def _somebody() -> str:
    return "another reput process"


@contextlib.contextmanager
def broker_lock(
    path: Path, owner: fs.Owner | None = None, own_path: Path | None = None, holder: Holder = _somebody
) -> Iterator[None]:
    """Hold RocketMQ's lock file (exclusive, byte 0) as a broker would; made for `owner` when it is not there.

    Args:
        path: `<store>/lock`.
        owner: whom a new file is given to.
        own_path: reput's own lock file, which tells a reput process that holds `path` from a broker.
        holder: names that process.

    Raises:
        StoreLockedError: a live broker or another reput process holds it, or another part of this process.
        ReputError: the file system refuses locks.
    """
    if _identity(path) in _held:
        raise StoreLockedError(_in_this_process(path))
    with fs.errors_named(path, "lock"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        with fs.errors_named(path, "lock"):
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except OSError as error:
                if error.errno not in _BUSY:
                    # Such as ENOLCK: a network file system without locks.
                    raise
                raise StoreLockedError(_who_holds(path, own_path, holder)) from error
        with fs.errors_named(path, "give to the store's owner"):
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


def refuse_held(path: Path, own_path: Path, holder: Holder = _somebody) -> None:
    """Refuse what `broker_lock` and `owner_lock` would refuse now; nothing is made, and nothing stays held.

    Raises:
        StoreLockedError: a live broker or another reput process holds the store, or another part of this process.
    """
    if _identity(path) in _held:
        raise StoreLockedError(_in_this_process(path))
    if is_record_locked(path):
        raise StoreLockedError(_who_holds(path, own_path, holder))
    if owner_is_live(own_path):
        raise StoreLockedError(at_work(own_path, holder()))


def _in_this_process(path: Path) -> str:
    return at_work(path, "another reput job of this process")


def _who_holds(path: Path, own_path: Path | None, holder: Holder) -> str:
    if own_path is not None and owner_is_live(own_path):
        return at_work(own_path, holder())
    return f"{path}: a running broker holds this store. Stop it first, or work on a copy"


def at_work(path: Path, who: str) -> str:
    """Return the text of the error that `who` holds the lock `path`, and so the store."""
    return f"{path}: {who} is at work on this store. Wait until it ends"


_held: set[tuple[int, int] | None] = set()
"""Device and inode of the lock files that this process holds: to open and close one would drop its lock."""
_flocks: set[int] = set()
"""Descriptors of the `flock` locks that this process holds or waits for."""


def _leave_to_parent() -> None:
    # A record lock is not inherited.
    _held.clear()
    for descriptor in _flocks:
        os.close(descriptor)
    _flocks.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def broker_is_live(path: Path) -> bool:
    """Whether some process holds RocketMQ's lock; nothing is made, changed, or held even for a moment."""
    return _identity(path) in _held or is_record_locked(path)


def broker_lock_pid(path: Path) -> int | None:
    """Process id of the holder of RocketMQ's lock: 0 if the system does not say it, None if nobody holds the lock."""
    return os.getpid() if _identity(path) in _held else _record_lock_pid(path)


def is_record_locked(path: Path) -> bool:
    """Whether another process has a record lock on a file's first byte. One of this process would be dropped by it."""
    return _record_lock_pid(path) is not None


def _record_lock_pid(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Asked and not tried: a broker that starts at this moment must not find its lock taken.
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    except OSError:
        return None
    else:
        kind, _, _, _, process = _FLOCK.unpack(answer)
        # A holder on another machine, or in another container, has no number here.
        return None if kind == fcntl.F_UNLCK else max(0, process)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def owner_lock(path: Path, holder: Holder = _somebody) -> Iterator[None]:
    """Hold reput's own lock exclusively; `holder` names the process that has it.

    Raises:
        StoreLockedError: another reput process is at work on this store.
    """
    # Who only asks whether the lock is held has it for a moment.
    with _flocked(path, fcntl.LOCK_EX, wait_s=0.2) as held:
        if not held:
            raise StoreLockedError(at_work(path, holder()))
        yield


@contextlib.contextmanager
def follower_lock(path: Path, remedy: str, process: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Hold the lock of the one process that builds indexes beside whoever writes.

    `process` gives the id of the one that has it, 0 where nothing says it.

    Raises:
        StoreLockedError: another one holds it.
    """
    with _flocked(path, fcntl.LOCK_EX, wait_s=0.2) as held:
        if not held:
            raise StoreLockedError(_followed(path, remedy, process()))
        yield


def refuse_followed(path: Path, remedy: str, process: Callable[[], int]) -> None:
    """Refuse what `follower_lock` would refuse now; nothing is made, and nothing stays held.

    Raises:
        StoreLockedError: another process holds the lock.
    """
    if owner_is_live(path):
        raise StoreLockedError(_followed(path, remedy, process()))


def _followed(path: Path, remedy: str, process: int) -> str:
    who = f"another process ({process})" if process else "another process"
    return f"{path}: {who} follows this store. {remedy}"


def owner_is_live(path: Path) -> bool:
    """Whether some process holds reput's own lock; nothing is made or changed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        is_free = _try_flock(descriptor, fcntl.LOCK_SH, 0.0)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError:
        # Where the file system has no locks nobody holds one.
        return False
    else:
        return not is_free
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def task_fence(path: Path) -> Iterator[None]:
    """Hold the fence as a task that writes does: shared with the other tasks of its job."""
    with _flocked(path, fcntl.LOCK_SH, wait_s=30.0) as held:
        if not held:
            raise StoreLockedError(f"{path}: the next owner of this store has closed the fence; this task gives up")
        yield


@contextlib.contextmanager
def closed_fence(path: Path, wait_s: float = 60.0) -> Iterator[None]:
    """Wait until no task of an earlier job is writing, and let none begin while the block runs.

    Raises:
        StoreLockedError: one still is after `wait_s` seconds.
    """
    with _flocked(path, fcntl.LOCK_EX, wait_s) as held:
        if not held:
            raise StoreLockedError(f"{path}: tasks of an earlier job still write after {wait_s:.0f} s; end them first")
        yield


@contextlib.contextmanager
def _flocked(path: Path, kind: int, wait_s: float) -> Iterator[bool]:
    process = os.getpid()
    # A child that is forked in between would keep a copy that nobody closes.
    with fs.errors_named(path, "lock"), forks.noting():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        _flocks.add(descriptor)
    try:
        with fs.errors_named(path, "lock"):
            owners.inherit(descriptor, path)
            held = _try_flock(descriptor, kind, wait_s)
        try:
            yield held
        finally:
            if os.getpid() == process:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        # A child that leaves the block has closed its copy, and may have another file by that number.
        if os.getpid() == process:
            with forks.noting():
                _flocks.discard(descriptor)
                os.close(descriptor)


def _try_flock(descriptor: int, kind: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    pause = _PAUSE_FIRST_S
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_MOST_S)
        else:
            return True
