"""The class-data archive of Spark's driver JVM."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import pytest

from reput.pipeline.spark import jvm_archive

if TYPE_CHECKING:
    from pathlib import Path

MAKER = """
import fcntl, os, subprocess, sys
lock = open(os.path.join(os.path.dirname(sys.argv[1]), "lock"), "a")
fcntl.flock(lock, fcntl.LOCK_EX)
child = subprocess.Popen(["sleep", "infinity"], pass_fds=[lock.fileno()])
print(child.pid, file=lock, flush=True)
"""
"""A run whose child has the lock as long as it lives."""
END_S = 60


def is_free(lock: TextIO) -> bool:
    """Return True if no process has the lock any more."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("ending", ["child.wait()", "sys.exit(1)"])
def test_a_run_that_fails_leaves_no_process(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that takes too long is ended with all that it started; so is what a failed run has started."""
    if jvm_archive.java_command() is None:
        pytest.skip("there is no Java")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jvm_archive, "_MAKER", MAKER + ending)
    path = tmp_path / "reput" / "lock"
    for timeout_s in (1, 4, 16, 64):
        monkeypatch.setattr(jvm_archive, "_TIMEOUT_S", timeout_s)
        assert jvm_archive.make_archive() is None
        if path.exists() and path.read_text():
            break
    with path.open() as lock:
        children = [int(line) for line in lock]
        assert children
        end = time.monotonic() + END_S
        while not (has_ended := is_free(lock)) and time.monotonic() < end:
            time.sleep(0.01)
        if not has_ended:
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
    assert has_ended
    assert [one.name for one in path.parent.iterdir()] == ["lock"]
