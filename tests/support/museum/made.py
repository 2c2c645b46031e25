"""Stores that the exhibits begin with."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from reput.formats import paths
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 1 << 14
"""The length of the log files that are built here."""


def golden_store(folder: Path, name: str) -> Path:
    """Unpack a golden store as folder/store."""
    return golden.unpack(name, folder).rename(folder / "store")


def orders(log: LogBuilder, count: int, topic: str = "orders", queue_id: int = 0) -> None:
    """Append messages, each with a key and a tag; bodies are their numbers."""
    for number in range(len(log.placed), len(log.placed) + count):
        log.message(topic, queue_id=queue_id, body=b"%03d" % number, keys=f"k{number}", tags="paid")


def built(folder: Path, log: LogBuilder) -> Path:
    """Make a store of a log, with its indexes, as a broker leaves it: without files of reput's own."""
    store = stores.with_log(folder, log)
    stores.rebuild(store)
    shutil.rmtree(store / paths.REPUT)
    # A file's name is the time at which it was made; here it is the same in every run.
    for number, path in enumerate(sorted((store / paths.INDEX).iterdir())):
        path.rename(path.with_name(f"20231114221320{number:03d}"))
    return store


def crashed(store: Path) -> Path:
    """Let a store look as after a crash: `abort` is there."""
    (store / paths.ABORT).touch()
    return store
