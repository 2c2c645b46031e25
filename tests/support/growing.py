"""Indexes that grow: one catch-up in this process, and limits so low that a few messages take the long way.

done = catch_up(store)                          as an open store does it
many_splits(monkeypatch, 700)                   every range is decoded by several tasks, of 700 bytes each
waits = CatchUpThatWaits(monkeypatch)           the first catch-up waits until waits.may_go_on is set
rocksdb_by_tables(monkeypatch)                  RocksDB gets tables, not one batch, however few entries there are
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from reput.pipeline.build.grow import grow
from reput.pipeline.build.rocksdb import queues as rocksdb_queues
from reput.pipeline.follow.catch_up import SparkIndexer
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.layout import find_store
from reput.store.open.opening import open_view
from reput.store.owner.indexer import CatchUp, CatchUpTask
from reput.store.owner.owner import own_store
from support import stores

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from reput.config import StoreConfig


def catch_up(store: Path, config: StoreConfig = stores.SMALL, end: int | None = None) -> CatchUp:
    """Bring a store's indexes to the log's end, or to `end`."""
    layout = find_store(store, config)
    with own_store(layout) as owned:
        view = open_view(layout, config).view
        ends = view.queues_table.durable_ends()
        task = CatchUpTask(
            layout, view.settings, owned, view.frontiers, end or view.follower.offset, ends, tag_items=True
        )
        try:
            return SparkIndexer(LoopEngine()).catch_up(task)
        finally:
            view.close()


def many_splits(
    monkeypatch: pytest.MonkeyPatch, split_bytes: int, *, above_bytes: int = 0, range_bytes: int | None = None
) -> None:
    """Decode ranges longer than `above_bytes` in splits, and a catch-up longer than `range_bytes` in ranges."""
    monkeypatch.setattr(grow, "ONE_SPLIT_BYTES", above_bytes)
    monkeypatch.setattr(grow, "_PARALLEL_SPLIT_BYTES", split_bytes)
    if range_bytes is not None:
        monkeypatch.setattr(grow, "_RANGE_BYTES", range_bytes)


class CatchUpThatWaits:
    """The first catch-up of any store waits.

    Attributes:
        has_begun: Set when it waits.
        may_go_on: To be set, so that it goes on.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        catch_up = SparkIndexer.catch_up

        def waiting(indexer: SparkIndexer, task: CatchUpTask) -> CatchUp:
            if not self.has_begun.is_set():
                self.has_begun.set()
                assert self.may_go_on.wait(60)
            return catch_up(indexer, task)

        monkeypatch.setattr(SparkIndexer, "catch_up", waiting)


def rocksdb_by_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the entries of every range as RocksDB tables."""
    monkeypatch.setattr(rocksdb_queues, "ONE_BATCH_ENTRIES", 0)
