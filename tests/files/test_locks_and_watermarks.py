"""Locks keep owners and tasks apart; watermarks are shared as they are written."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from reput.errors import ReputError, StoreLockedError
from reput.files import locks
from reput.files.watermarks import Watermarks
from reput.formats.own import files as own
from support.forked import answer_of_child


def test_one_owner(tmp_path: Path) -> None:
    """The owner's lock is held by one, and free again when its block ends, error or not."""
    path = tmp_path / "lock"
    with locks.owner_lock(path), pytest.raises(StoreLockedError, match="another reput"), locks.owner_lock(path):
        pass
    with pytest.raises(KeyError), locks.owner_lock(path):
        raise KeyError
    with locks.owner_lock(path):
        pass


def test_fence_lets_tasks_pass_together(tmp_path: Path) -> None:
    """Tasks hold the fence together; the next owner gets past it once all are out."""
    path = tmp_path / "fence"
    with locks.task_fence(path), locks.task_fence(path), pytest.raises(StoreLockedError):
        locks.closed_fence(path, wait_s=0).__enter__()
    with locks.closed_fence(path, wait_s=0):
        pass


def test_broker_lock_is_made_where_it_is_missing(tmp_path: Path) -> None:
    """The broker's lock file is made for us, as RocketMQ does; asking whether it is held makes nothing."""
    path = tmp_path / "lock"
    assert not locks.broker_is_live(path)
    assert not path.exists()
    with locks.broker_lock(path):
        assert path.exists()


def test_a_forked_process_keeps_no_lock_from_being_let_go(tmp_path: Path) -> None:
    """A lock that this process releases is free, also for a process that was forked while it was held."""
    reading, writing = os.pipe()
    with locks.broker_lock(tmp_path / "broker"), locks.owner_lock(tmp_path / "owner"):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(writing)
                os.read(reading, 1)
                with locks.broker_lock(tmp_path / "broker"), locks.owner_lock(tmp_path / "owner"):
                    code = 0
            finally:
                os._exit(code)
        assert locks.owner_is_live(tmp_path / "owner")
    with locks.broker_lock(tmp_path / "broker"), locks.owner_lock(tmp_path / "owner"):
        pass
    os.close(writing)
    os.close(reading)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fork_between_open_and_note_keeps_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that another thread forks while a lock's file is being opened has no descriptor of it."""
    path, is_open, real_open = tmp_path / "owner", threading.Event(), os.open

    def slow_open(name: Any, *arguments: Any, **named: Any) -> int:
        descriptor = real_open(name, *arguments, **named)
        if name == path and not is_open.is_set():
            is_open.set()
            time.sleep(0.2)
        return descriptor

    def copies() -> int:
        # The descriptor that lists the folder is gone when it is asked for.
        links = list(Path("/proc/self/fd").iterdir())
        return sum(os.path.lexists(link) and link.readlink() == path for link in links)

    def hold() -> None:
        with locks.owner_lock(path):
            forked.wait(30)

    forked = threading.Event()
    monkeypatch.setattr(os, "open", slow_open)
    thread = threading.Thread(target=hold)
    thread.start()
    assert is_open.wait(30)
    try:
        assert answer_of_child(copies) == "0"
        assert copies() == 1
    finally:
        forked.set()
        thread.join()


def test_a_fork_inside_a_lock_leaves_the_lock_alone(tmp_path: Path) -> None:
    """A forked process that leaves the block in which its parent took a lock neither frees it nor closes anything."""
    child = -1
    try:
        with locks.owner_lock(tmp_path / "owner"):
            child = os.fork()
            if child:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                assert locks.owner_is_live(tmp_path / "owner")
    except BaseException:
        if child == 0:
            os._exit(1)
        raise
    if child == 0:
        os._exit(0)
    assert not locks.owner_is_live(tmp_path / "owner")


def test_a_forked_process_does_not_keep_the_lock_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    """A process that dies with a lock leaves it free, even if processes that it forked live on."""
    (reading, writing), (hears, announce) = os.pipe(), os.pipe()
    parent = os.fork()
    if parent == 0:
        with locks.broker_lock(tmp_path / "broker"), locks.owner_lock(tmp_path / "owner"):
            if os.fork() == 0:
                os.close(writing)
                os.write(announce, b"x")
                os.read(reading, 1)
            else:
                os.read(hears, 1)
            os._exit(0)
    os.waitpid(parent, 0)
    with locks.broker_lock(tmp_path / "broker"), locks.owner_lock(tmp_path / "owner"):
        pass
    # The child ends when this closes.
    for descriptor in (writing, reading, hears, announce):
        os.close(descriptor)


HOLDER = """
import sys
from contextlib import ExitStack
from pathlib import Path
from reput.files import locks
with ExitStack() as held:
    held.enter_context(locks.broker_lock(Path(sys.argv[1])))
    if len(sys.argv) > 2:
        held.enter_context(locks.owner_lock(Path(sys.argv[2])))
    print(flush=True)
    input()
"""


@pytest.mark.parametrize("by_reput", [False, True])
def test_a_broker_is_told_from_reput(by_reput: bool, tmp_path: Path) -> None:
    """A process that is refused RocketMQ's lock learns whether a broker or another reput process has it."""
    path, own_path = tmp_path / "lock", tmp_path / "own"
    arguments = [path, own_path] if by_reput else [path]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert locks.broker_is_live(path)
        assert locks.owner_is_live(own_path) == by_reput
        with pytest.raises(StoreLockedError, match="another reput" if by_reput else "running broker"):
            locks.refuse_held(path, own_path)
        with pytest.raises(StoreLockedError, match="running broker"), locks.broker_lock(path):
            pass
        holder.communicate(b"\n")
    assert not locks.broker_is_live(path)


@pytest.mark.parametrize("lock", [locks.broker_lock, locks.owner_lock, locks.task_fence])
def test_a_file_system_without_locks(lock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks is an error that names the file and the system's reason."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ReputError, match=r"lock: cannot lock: No locks available"), lock(tmp_path / "lock"):
        pass


def test_watermarks_are_shared(tmp_path: Path) -> None:
    """A second map of the file sees each store at once, and the same id; they outlive both."""
    path = tmp_path / "watermarks"
    first, second = Watermarks(path), Watermarks(path)
    assert first.store_id == second.store_id != "0" * 32
    first["epoch"] = 7
    first["generation"] = (1 << 63) - 1
    assert (second["epoch"], second["generation"]) == (7, (1 << 63) - 1)
    identity = first.store_id
    first.sync()
    first.close()
    second.close()
    third = Watermarks(path)
    assert (third["epoch"], third.store_id) == (7, identity)
    third.close()
    assert path.stat().st_size == own.WATERMARKS_FILE_SIZE
    other = Watermarks(tmp_path / "other")
    assert other.store_id != identity
    other.close()


def test_asking_for_the_owner_makes_nothing(tmp_path: Path) -> None:
    """The owner of a store can be looked up beside it, and without making a lock file."""
    path = tmp_path / "lock"
    assert not locks.owner_is_live(path)
    assert not path.exists()
    with locks.owner_lock(path):
        assert locks.owner_is_live(path)
    assert not locks.owner_is_live(path)
