"""Light queues, and batches, in stores of every kind: followed, and killed, their queues are a rebuild's."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import reput
from reput.formats import paths
from reput.formats.log.record import FLAG_INNER_BATCH
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import find_store
from support import growing, inner, stores
from support.checked import assert_sound
from support.search import takes_long

KINDS = inner.KINDS


@pytest.mark.parametrize("long_ranges", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_followed(name: str, long_ranges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a writer, step by step, every queue reads as the model says; in the end all is as a rebuild makes it."""
    if long_ranges:
        growing.rocksdb_by_tables(monkeypatch)
        growing.many_splits(monkeypatch, 3000)
    config, path, rng = KINDS[name], tmp_path / "store", random.Random(1)
    model = inner.Model(config)
    with inner.new_store(path, config) as store:
        follower = Follow(path, LoopEngine(), config, max_batch_bytes=9000)
        for _ in range(6):
            for _ in range(rng.randrange(1, 25)):
                model.put(store, rng)
            for _ in range(rng.randrange(3)):
                follower.step()
            model.compare(store, rng)
        with reput.MessageStore.open(path, config, read_only=True) as reader:
            model.compare(reader, rng)
        while follower.step():
            pass
        follower.close()
        model.compare(store, rng)
    stores.assert_as_rebuilt(path, tmp_path / "copy", config)


@pytest.mark.parametrize("name", KINDS)
def test_killed_while_followed(name: str, tmp_path: Path) -> None:
    """A writer that follows itself is killed, twice: the next follower brings all to what a rebuild makes."""
    config, path = KINDS[name], tmp_path / "store"
    inner.new_store(path, config).close()
    for seed in range(2):
        command = [sys.executable, "-m", "support.inner", str(path), name, str(seed)]
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline() == b"stored\n"
        process.kill()
        process.communicate(timeout=60)
        handle = reput.follow(path, spark=False, config=config, until_caught_up=True)
        assert handle.wait(300)
        handle.stop()
        stores.assert_as_rebuilt(path, tmp_path / f"copy{seed}", config)


@pytest.mark.spark
@takes_long
@pytest.mark.parametrize("name", ["ext", "ext-double"])
def test_killed_beside_spark(name: str, tmp_path: Path) -> None:
    """Killed with its Spark while units and entries are written, the next follower makes what a rebuild makes."""
    config, path = KINDS[name], tmp_path / "store"
    inner.new_store(path, config).close()
    layout = find_store(path, config)
    command = [sys.executable, "-m", "support.inner", str(path), name, "5", "spark"]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        steps = set[int]()
        while len(steps) < 3:
            assert process.stdout.readline() == b"stored\n"
            steps.add(marks_of(layout)["frontier_offset"])
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.communicate(timeout=60)
        psutil.wait_procs(children, timeout=30)
    handle = reput.follow(path, spark=False, config=config, until_caught_up=True)
    assert handle.wait(300)
    handle.stop()
    assert list((path / paths.CONSUME_QUEUE_EXT).glob("*/*/*"))
    stores.assert_as_rebuilt(path, tmp_path / "copy", config)


@pytest.mark.parametrize("name", KINDS)
def test_a_store_without_queues_opens_again(name: str, tmp_path: Path) -> None:
    """Closed before its first message, or with batches alone, a store of any kind opens, is checked and rebuilt."""
    config, path = KINDS[name], tmp_path / "store"
    inner.new_store(path, config).close()
    batch = reput.Message("batches", b"x", properties={"INNER_NUM": "3"}, sys_flag=FLAG_INNER_BATCH)
    message, each = (batch, 3) if inner.Model(config).with_batches else (reput.Message("orders", b"x"), 1)
    for count in range(3):
        with reput.MessageStore.open(path, config, create=True) as store:
            assert [queue.max_offset for queue in store.queues()] == [each * count][: count > 0]
            assert store.put_message(message, 0).queue_offset == each * count
            store.reput(spark=False)
    assert_sound(path, config)
    reput.rebuild(path, spark=False, config=config)
    assert_sound(path, config)
