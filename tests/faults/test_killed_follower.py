"""A follower that is killed at any call to the system leaves what the next one completes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import reput
from reput.config import StoreConfig
from reput.errors import EngineError, ReputError
from reput.pipeline.build.grow import grow
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from support import faults, growing, stores
from support.search import cases

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

    from reput.pipeline.follow.query import FollowHandle

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 13, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
LARGER = StoreConfig(
    mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=4000, max_hash_slot_num=256, max_index_num=512
)
KILLED, KILLED_AHEAD = faults.KILLED_STATUS, 78
ENOUGH_S = 30


class Ahead:
    """Counts the times at which a range is being placed while the one after it is decoded."""

    now = False
    times = 0


def decode_ahead() -> None:
    """Cut a step into several such ranges, each of which is decoded while the one before is placed; count that."""
    growing.many_splits(pytest.MonkeyPatch(), 250, above_bytes=100, range_bytes=1200)
    placing = grow.Grower._place

    def counted(grower: grow.Grower, proved: Any, ahead: Any) -> Any:
        Ahead.now = ahead is not None
        Ahead.times += Ahead.now
        placed = placing(grower, proved, ahead)
        Ahead.now = False
        return placed

    grow.Grower._place = counted  # type: ignore[method-assign]


def work(path: Path, ranges: str, function: str, at: int, torn: bool) -> None:
    """Put, follow in steps that take part of it, make durable now and then, close; or follow a backlog."""
    if ranges == "long":
        growing.many_splits(pytest.MonkeyPatch(), 250, above_bytes=100)
    if ranges == "ahead":
        decode_ahead()
    store = reput.MessageStore.open(path, CONFIG, create=True)
    follower = Follow(path, LoopEngine(), CONFIG, max_batch_bytes=1 << 20 if ranges == "ahead" else 600)
    if ranges == "ahead":
        for number in range(40):
            put(store, number)
    faults.spoil(function, at, "torn" if torn else "kill", lambda: KILLED_AHEAD if Ahead.now else KILLED)
    for number in range(40, 44) if ranges == "ahead" else range(40):
        put(store, number)
        if number % 3 == 0:
            follower.step()
        if number % 11 == 10:
            follower.make_durable()
    while follower.step():
        pass
    follower.close()
    store.close()
    # A backlog of 40 messages is at least four ranges, all but the first of them decoded ahead.
    assert ranges != "ahead" or Ahead.times >= 3
    os._exit(0)


def put(store: reput.MessageStore, number: int) -> None:
    """One message of two queues."""
    result = store.put_message(reput.Message("ab"[number % 2], b"%d" % number, keys="k", tags="t"))
    assert result.status is reput.PutStatus.PUT_OK


@pytest.mark.parametrize(
    ("ranges", "function", "torn", "stride"),
    [
        ("short", "pwrite", False, 41),
        ("short", "pwrite", True, 37),
        ("short", "rename", False, 2),
        ("short", "open_sized", False, 11),
        ("short", "sync_tree", False, 1),
        ("long", "pwrite", False, 83),
        ("long", "pwrite", True, 67),
        ("long", "open_sized", False, 19),
        ("long", "remove_tree", False, 3),
        ("ahead", "pwrite", False, 127),
        ("ahead", "pwrite", True, 113),
        ("ahead", "open_sized", False, 19),
        ("ahead", "rename", False, 5),
    ],
)
def test_killed_at_any_call(ranges: str, function: str, torn: bool, stride: int, tmp_path: Path) -> None:
    """Wherever it dies, the next follower brings the indexes to what a rebuild makes; a range decoded ahead or not.

    A bounded run tries one call in n, a long one each call.
    """
    killed_ahead = 0
    for at in range(1, 2000, cases(stride, 1)):
        path = tmp_path / f"{at}"
        process = multiprocessing.get_context("fork").Process(target=work, args=(path, ranges, function, at, torn))
        process.start()
        process.join()
        assert process.exitcode in (0, KILLED, KILLED_AHEAD), (function, at)
        killed_ahead += process.exitcode == KILLED_AHEAD
        handle = reput.follow(path, spark=False, config=CONFIG, until_caught_up=True)
        assert handle.wait(ENOUGH_S), (function, at)
        stores.assert_as_rebuilt(path, tmp_path / "copy", CONFIG)
        shutil.rmtree(path)
        if process.exitcode == 0:
            assert at > 1
            assert (killed_ahead > 0) == (ranges == "ahead")
            return
    pytest.fail("the last call was never reached")


def kill_python_workers() -> int:
    """Kill the Python workers of this process's Spark: children of the daemon, which is a child of the JVM."""
    killed = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if parent is not None and all(any("daemon" in part for part in p.cmdline()) for p in (process, parent)):
                process.send_signal(signal.SIGKILL)
                killed += 1
    return killed


def follow(path: Path, spark: SparkContext) -> FollowHandle:
    """A follower; Spark hands out idle workers that are dead, and each costs a start."""
    while True:
        with contextlib.suppress(EngineError):
            return reput.follow(path, spark=spark, config=LARGER)


@pytest.mark.spark
def test_python_workers_killed(spark: SparkContext, tmp_path: Path) -> None:
    """Workers that are killed while they write cost at most a new start; nothing comes twice, nothing is missing."""
    path = tmp_path / "store"
    killed = 0
    with reput.MessageStore.open(path, LARGER, create=True) as store:
        stop = threading.Event()

        def put() -> None:
            number = 0
            while not stop.wait(0.001):
                store.put_message(reput.Message("ab"[number % 2], bytes(number % 90), keys=f"k{number % 7}"))
                number += 1

        writer = threading.Thread(target=put)
        writer.start()
        try:
            for _ in range(4):
                handle = follow(path, spark)
                with contextlib.suppress(ReputError):
                    handle.wait(1.0)
                    killed += kill_python_workers()
                    handle.wait(0.3)
                with contextlib.suppress(ReputError):
                    handle.stop()
        finally:
            stop.set()
            writer.join()
        end = store.flush()
        with follow(path, spark) as handle:
            deadline = time.monotonic() + ENOUGH_S
            while handle.progress.frontier < end:
                assert time.monotonic() < deadline, handle.progress
                assert not handle.wait(0.05)
    assert killed > 0
    stores.assert_as_rebuilt(path, tmp_path / "copy", LARGER)
