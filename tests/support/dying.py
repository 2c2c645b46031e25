"""A writer that dies at one of its database's batches: `run(store, at, "before" or "after")`.

A process of its own, and no fork of the tests': RocksDB's threads do not live on in a fork.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import reput
from reput.files.database_owner import DatabaseOwner
from support import kinds
from support.switches import config_of

BOTH = config_of("double", kinds.CONFIG)
DIED = 7


def run(path: Path, at: int, when: str) -> None:
    """Let such a writer work on a store, until it is dead."""
    folders = [str(Path(reput.__file__).parents[1]), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-m", "support.dying", str(path), str(at), when]
    done = subprocess.run(command, env=environment, timeout=120, check=False)
    assert done.returncode == DIED


def main() -> None:
    """Put and catch up three times; die at the batch with that number."""
    path, at, after = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "after"
    true, calls = DatabaseOwner.write, 0

    def write(self: DatabaseOwner, batch: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at and not after:
            os._exit(DIED)
        true(self, batch)
        if calls == at:
            os._exit(DIED)

    DatabaseOwner.write = write  # type: ignore[method-assign]
    store = kinds.open_store(path, BOTH)
    for seed in range(3):
        kinds.put_kinds(store, 60, seed)
        store.reput(spark=False)


if __name__ == "__main__":
    main()
