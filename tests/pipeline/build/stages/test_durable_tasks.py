"""Tasks on other machines: what they made is durable when they end, since no sync of the driver reaches it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from reput.files import fs
from reput.formats import paths
from reput.pipeline.build.rebuild.rebuild import rebuild_store
from reput.pipeline.spark.engine import LoopEngine
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


class FarEngine(LoopEngine):
    """Runs tasks here, and says that they run elsewhere."""

    shares_driver_files = False


def out_of_order_log() -> LogBuilder:
    """A log that gives every stage work: a repeat, a queue that starts above 0, keys."""
    log = LogBuilder(4096)
    for number in range(8):
        log.message("ab"[number % 2], keys=f"k{number}")
    log.message("a", queue_offset=2)
    log.message("c", queue_offset=3)
    return log


def test_files_and_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every queue file, IndexFile and folder above them is synced by a task before the driver's own sync."""
    store = stores.with_log(tmp_path, out_of_order_log())
    synced: set[int] = set()
    before: set[int] = set()
    sync, sync_tree = fs.sync, fs.sync_tree

    def noting(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def noting_tree(path: Any) -> None:
        before.update(synced)
        sync_tree(path)

    monkeypatch.setattr(fs, "sync", noting)
    monkeypatch.setattr(fs, "sync_tree", noting_tree)
    rebuild_store(store, FarEngine(), stores.SMALL)
    made = [store / name for name in (paths.CONSUME_QUEUE, paths.INDEX)]
    made += [path for top in made for path in top.rglob("*")]
    assert len(made) > 10
    assert [path for path in made if path.stat().st_ino not in before] == []
