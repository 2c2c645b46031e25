"""A substitute for a broker: another process that holds RocketMQ's lock, and a store as one is writing it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

from reput.formats import paths
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROKER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


def indexed_store(folder: Path) -> tuple[Path, LogBuilder]:
    """Make a store of 30 messages with their indexes; write more of the log to let it run ahead of them."""
    log = LogBuilder(file_size=4096)
    for number in range(30):
        log.message("orders", keys=f"k{number}", queue_id=number % 2)
    store = stores.with_log(folder, log)
    stores.rebuild(store)
    return store, log


@contextlib.contextmanager
def broker_at_work(store: Path) -> Iterator[int]:
    """Another process that holds RocketMQ's lock, as a broker does; its id."""
    path = store / paths.LOCK
    path.touch()
    with subprocess.Popen(
        [sys.executable, "-c", BROKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()
