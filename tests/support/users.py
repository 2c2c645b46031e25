"""Another user's view: a function that runs in a fork without root's rights, or a put in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.forked import answer_of_child

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOBODY = 65534


def as_another_user(function: Callable[[], str]) -> str:
    """Return what `function` returns to a user without rights; skip where we cannot become one."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")

    def call() -> str:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return function()

    return answer_of_child(call)


_PUT = """
import os, sys, tempfile
import reput

def put(store, config=None):
    opened = reput.MessageStore.open(store, config, create=config is not None)
    statuses = [opened.put_message(reput.Message("orders", b"one")).status.name]
    opened.reput(spark=False)
    statuses.append(opened.put_message(reput.Message("orders", b"two")).status.name)
    return opened, statuses

store, user, group, is_killed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "killed"
os.umask(0o077)
with tempfile.TemporaryDirectory() as scratch:
    # What Python loads may lie where the user may not look.
    put(scratch + "/s", reput.StoreConfig(store_type="defaultRocksDB", mapped_file_size_commit_log=65536))[0].close()
os.setgroups([])
os.setgid(group)
os.setuid(user)
opened, statuses = put(store)
print(*statuses, flush=True)
if is_killed:
    os.kill(os.getpid(), 9)
opened.close()
"""


def put_as(store: Path, user: int, group: int, *, is_killed: bool = False) -> str:
    """Put two messages as a user, who indexes the first; returns the statuses, or the error.

    Nothing is forked here: RocksDB has no threads in a fork. `is_killed`: the process is killed with the store open.
    """
    command = [sys.executable, "-c", _PUT, str(store), str(user), str(group), "killed" if is_killed else "closed"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout.strip() if done.returncode in (0, -9) else done.stderr
