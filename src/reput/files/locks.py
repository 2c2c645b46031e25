"""Locks: RocketMQ's own on `<store>/lock`, and ours in `<store>/reput/`.

RocketMQ's is a POSIX record lock on the first byte. It keeps two processes apart, but not two parts of one process, and
any close of the file in the holding process drops it. So one descriptor stays open as long as the lock is needed.
Ours are `flock` locks. They belong to their descriptor, and so to every process that was forked meanwhile and has a
copy of it. A child closes its copies at once, so that it does not keep the locks of a killed parent. The holder also
unlocks explicitly, since a child may just have got a copy.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reput.errors import StoreLockedError
from reput.files import forks, fs, owners
from reput.formats.queue.rocksdb_consume_queue import LOCK_FILE

_BUSY = {errno.EACCES, errno.EAGAIN}
# Linux's struct flock on 64 bits: type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi0q")
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.001, 0.02
"""Pause between two tries for a lock: it is short, so that a short hold causes a short wait."""


NameHolder = Callable[[], str]
"""Names the reput process that holds a store; called only if one does."""


def _somebody() -> str:
    return "another reput process"


@contextlib.contextmanager
def broker_lock(path: Path, owner: fs.Owner | None = None) -> Iterator[None]:
    """Hold RocketMQ's lock file (exclusive, byte 0) as a broker does; a missing file is created for `owner`.

    Args:
        path: `<store>/lock`.
        owner: The owner of a new file.

    Raises:
        StoreLockedError: A live broker, another reput process or another part of this process holds it.
        ReputError: The file system refuses locks.
    """
    descriptor = _take_record_lock(path)
    if descriptor is None:
        raise StoreLockedError(_by_a_broker(path))
    try:
        with fs.errors_named(path, "give to the store's owner"):
            if owner is not None:
                fs.give_descriptor_to(descriptor, owner)
        yield
    finally:
        with _looking:
            _held.discard(_identity_of(os.fstat(descriptor)))
            os.close(descriptor)


def _take_record_lock(path: Path) -> int | None:
    """Take RocketMQ's lock; return the descriptor that holds it, None if another process does.

    Raises:
        StoreLockedError: Another part of this process holds it.
        ReputError: The file system refuses locks.
    """
    with _looking, fs.errors_named(path, "lock"):
        if _identity(path) in _held:
            raise StoreLockedError(_in_this_process(path))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _mode_beside(path))
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _BUSY:
                return None
            # For example ENOLCK: a network file system without locks.
            raise
        _held.add(_identity_of(os.fstat(descriptor)))
        return descriptor


def refuse_held(path: Path, own_path: Path, holder: NameHolder = _somebody) -> None:
    """Refuse now if `broker_lock` or `owner_lock` would refuse; create nothing and hold nothing.

    Raises:
        StoreLockedError: A live broker, another reput process or another part of this process holds the store.
    """
    held = broker_lock_pid(path)
    if held == os.getpid():
        raise StoreLockedError(_in_this_process(path))
    if owner_is_live(own_path):
        raise StoreLockedError(at_work(own_path, holder()))
    if held is not None:
        raise StoreLockedError(_by_a_broker(path))


def _in_this_process(path: Path) -> str:
    return at_work(path, "another reput job of this process")


def _by_a_broker(path: Path) -> str:
    return f"{path}: a running broker holds this store. Stop it first, or work on a copy"


def at_work(path: Path, who: str) -> str:
    """Return the text of the error that `who` holds the lock `path`, and so the store."""
    return f"{path}: {who} is at work on this store. Stop it, or wait until it has ended or caught up"


_held: set[tuple[int, int]] = set()
"""Device and inode of the lock files that this process holds: opening and closing one would drop its lock."""
_looking = threading.RLock()
"""Held while a lock file is opened or closed, so that `_held` is true. A signal's handler may come in between."""
_flocks: set[int] = set()
"""Descriptors of the `flock` locks that this process holds or waits for."""


def _leave_to_parent() -> None:
    # A forked child does not inherit a record lock.
    _held.clear()
    for descriptor in _flocks:
        os.close(descriptor)
    _flocks.clear()
    _looking.release()


# No other thread holds `_looking` then: the child would wait for it.
os.register_at_fork(before=_looking.acquire, after_in_parent=_looking.release, after_in_child=_leave_to_parent)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        return _identity_of(os.lstat(path))
    except OSError:
        return None


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def broker_is_live(path: Path) -> bool:
    """Return True if a process holds RocketMQ's lock; create, change and hold nothing."""
    return broker_lock_pid(path) is not None


def broker_lock_pid(path: Path) -> int | None:
    """Return the process id of the holder of RocketMQ's lock: 0 if it is unknown, None if there is no holder.

    It creates, changes and holds nothing.
    """
    with _looking:
        # Closing the file would drop this process's own lock.
        return os.getpid() if _identity(path) in _held else _record_lock_pid(path)


def is_database_held(folder: Path) -> bool:
    """Return True if another process has a RocksDB open to write; RocksDB is not loaded."""
    return is_record_locked(folder / LOCK_FILE)


def is_record_locked(path: Path) -> bool:
    """Return True if another process has a record lock on a file's first byte. The call drops this process's own."""
    return _record_lock_pid(path) is not None


def _record_lock_pid(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        # Query the lock instead of taking it: a broker that starts now must not find it taken.
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    except OSError:
        return None
    else:
        kind, _, _, _, process = _FLOCK.unpack(answer)
        # A holder on another machine, or in another container, has no process id here.
        return None if kind == fcntl.F_UNLCK else max(0, process)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def owner_lock(path: Path, holder: NameHolder = _somebody) -> Iterator[None]:
    """Hold reput's own lock exclusively; `holder` names the process that holds it.

    Raises:
        StoreLockedError: Another reput process is at work on this store.
    """
    # A process that only checks the lock holds it for a moment.
    with _flocked(path, fcntl.LOCK_EX, wait_s=0.2) as held:
        if not held:
            raise StoreLockedError(at_work(path, holder()))
        yield


@contextlib.contextmanager
def follower_lock(path: Path, remedy: str, process: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Hold the lock of the one process that builds indexes while another process writes.

    `process` returns the id of the holder, 0 if it is unknown.

    Raises:
        StoreLockedError: Another process holds it.
    """
    with _flocked(path, fcntl.LOCK_EX, wait_s=0.2) as held:
        if not held:
            raise StoreLockedError(_followed(path, remedy, process()))
        yield


@contextlib.contextmanager
def export_lock(path: Path) -> Iterator[None]:
    """Hold the lock of the one export that goes to a folder.

    Raises:
        StoreLockedError: Another process exports there.
    """
    with _flocked(path, fcntl.LOCK_EX, wait_s=0.2) as held:
        if not held:
            raise StoreLockedError(f"{path}: another export into this folder is at work. Run this again when it ends")
        yield


def refuse_followed(path: Path, remedy: str, process: Callable[[], int]) -> None:
    """Refuse now if `follower_lock` would refuse; create nothing and hold nothing.

    Raises:
        StoreLockedError: Another process holds the lock.
    """
    if owner_is_live(path):
        raise StoreLockedError(_followed(path, remedy, process()))


def _followed(path: Path, remedy: str, process: int) -> str:
    who = f"another process ({process})" if process else "another process"
    return f"{path}: {who} follows this store. {remedy}"


def owner_is_live(path: Path) -> bool:
    """Return True if a process holds reput's own lock; create and change nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        is_free = _try_flock(descriptor, fcntl.LOCK_SH, 0.0)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError:
        # On a file system without locks there is no holder.
        return False
    else:
        return not is_free
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def task_fence(path: Path) -> Iterator[None]:
    """Hold the fence as a writing task: shared with the other tasks of its job."""
    with _flocked(path, fcntl.LOCK_SH, wait_s=30.0) as held:
        if not held:
            raise StoreLockedError(f"{path}: the next owner of this store has closed the fence; this task gives up")
        yield


@contextlib.contextmanager
def closed_fence(path: Path, wait_s: float = 60.0) -> Iterator[None]:
    """Wait until no task of an earlier job writes, and let none begin while the block runs.

    Raises:
        StoreLockedError: A task still writes after `wait_s` seconds.
    """
    with _flocked(path, fcntl.LOCK_EX, wait_s) as held:
        if not held:
            raise StoreLockedError(f"{path}: tasks of an earlier job still write after {wait_s:.0f} s; end them first")
        yield


def _mode_beside(path: Path) -> int:
    """Return the mode of a new lock file: a folder that is closed to others gives a file that is closed to them."""
    return fs.owner_of(path.parent).file_mode & 0o644


@contextlib.contextmanager
def _flocked(path: Path, kind: int, wait_s: float) -> Iterator[bool]:
    process = os.getpid()
    # A child that is forked in between would keep a copy that is never closed.
    with fs.errors_named(path, "lock"), forks.noting():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _mode_beside(path))
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
        # A child that leaves the block has closed its copy, and may use the number for another file.
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
