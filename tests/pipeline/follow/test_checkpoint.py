"""Spark's checkpoint of a follower: of this store alone, in a folder of any name, and the frontier overrules it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.errors import ConfigError
from reput.formats import paths
from support import stores
from support.records import LogBuilder
from support.waiting import FOLLOWER_TIMEOUT_S, wait_for_follower

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext


@pytest.mark.spark
def test_checkpoint_of_another_store(spark: SparkContext, tmp_path: Path) -> None:
    """Spark's checkpoint of another store is refused, by name; without it the frontier knows what to do."""
    for name in ("one", "two"):
        log = LogBuilder(4096)
        for _ in range(20):
            log.message("a", keys="k")
        stores.with_log(tmp_path / name, log)
    options: dict[str, Any] = {"spark": spark, "config": stores.SMALL, "checkpoint_location": tmp_path / "checkpoint"}
    with reput.follow(tmp_path / "one" / "store", **options) as first:
        wait_for_follower(lambda: first.progress.messages == 20, "the first store's messages")
        wait_for_follower((tmp_path / "checkpoint" / "commits" / "0").exists, "Spark's first commit")
    second = reput.follow(tmp_path / "two" / "store", **options)
    with pytest.raises(ConfigError, match="belongs to the store"):
        second.wait(FOLLOWER_TIMEOUT_S)
    second.stop()
    with reput.follow(tmp_path / "two" / "store", **options | {"checkpoint_location": tmp_path / "other"}) as third:
        wait_for_follower(lambda: third.progress.frontier == log.end, "the second store's end")
    stores.assert_as_rebuilt(tmp_path / "two" / "store", tmp_path / "copy", stores.SMALL)


@pytest.mark.spark
def test_checkpoint_in_a_folder_of_any_name(spark: SparkContext, tmp_path: Path) -> None:
    """Blanks, percent signs and other letters in a store's path lead Spark's files nowhere but into the store."""
    log = LogBuilder(4096)
    log.message("a", keys="k")
    store = stores.with_log(tmp_path / "my 店 50%20x", log)
    (tmp_path / "my%20%E5%BA%97%2050%2520x").mkdir()
    with reput.follow(store, spark=spark, config=stores.SMALL) as follower:
        wait_for_follower((store / "reput" / "follow-checkpoint" / "commits" / "0").exists, "Spark's first commit")
        wait_for_follower(lambda: follower.progress.frontier == log.end, "the store's end")
    assert not any((tmp_path / "my%20%E5%BA%97%2050%2520x").iterdir())


@pytest.mark.spark
def test_frontier_overrules_the_checkpoint(spark: SparkContext, tmp_path: Path) -> None:
    """A frontier below Spark's checkpoint (a crash lost it) is what counts: the stretch is done again."""
    log = LogBuilder(4096)
    for _ in range(40):
        log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    options: dict[str, Any] = {"spark": spark, "config": stores.SMALL, "checkpoint_location": tmp_path / "checkpoint"}
    with reput.follow(store, **options) as first:
        wait_for_follower(lambda: first.progress.frontier == log.end, "the end")
    for name in (paths.CONSUME_QUEUE, paths.INDEX, paths.REPUT):
        shutil.rmtree(store / name)
    options["checkpoint_location"] = tmp_path / "checkpoint2"
    with reput.follow(store, **options) as again:
        wait_for_follower(lambda: again.progress.frontier == log.end, "the end again")
    stores.assert_as_rebuilt(store, tmp_path / "copy", stores.SMALL)
