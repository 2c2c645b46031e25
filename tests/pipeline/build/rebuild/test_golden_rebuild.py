"""Rebuilt golden stores equal what RocketMQ wrote, byte for byte, for any engine and any cut of the work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.checkpoint import decode_checkpoint
from reput.formats.index import index_file
from reput.formats.log.record import Verdict, decode_record, examine
from reput.formats.own import files as own
from support import golden, stores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

    from reput.formats.log.record import Record

pytestmark = pytest.mark.golden

SPLITS_MB = (128, 1, 0.3, 0.1, 0.02)
"""From one split a file down to splits of about 20 KB, which the largest records do not fit."""

RUN_REFERENCE = """
import sys
import reput
reput.rebuild(sys.argv[1], spark=False, config=sys.argv[2], split_mb=0.4)
assert "numba" not in sys.modules
"""


class Case(NamedTuple):
    """A store to rebuild: which golden store, what is taken from it first, and whose indexes it must get."""

    name: str
    store: str
    without_indexes: bool
    without_first_file: bool
    like: str


CASES = (
    Case("basic", "basic", False, False, "basic"),
    Case("crash", "crash", False, False, "crash"),
    Case("crash without its indexes", "crash", True, False, "crash"),
    Case("batch", "batch", False, False, "batch"),
    Case("batch without its indexes", "batch", True, False, "batch"),
    # RocketMQ built expired-rebuilt without old indexes; with them reput keeps the numbers of queues whose
    # records are all gone, but in this store every queue still has one: so the old indexes change nothing.
    Case("expired", "basic", False, True, "expired-rebuilt"),
    Case("expired without its indexes", "basic", True, True, "expired-rebuilt"),
)
by_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def prepare(case: Case, folder: Path) -> Path:
    """A copy of the case's store, damaged as it says."""
    store = golden.unpack(case.store, folder)
    if case.without_indexes:
        shutil.rmtree(store / paths.CONSUME_QUEUE)
        shutil.rmtree(store / paths.INDEX)
        shutil.rmtree(store / paths.BATCH_CONSUME_QUEUE, ignore_errors=True)
    if case.without_first_file:
        min(store.joinpath(paths.COMMIT_LOG).iterdir()).unlink()
    return store


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A broker.conf with the sizes of the golden stores."""
    path = tmp_path / "broker.conf"
    path.write_text(golden.CONFIG)
    return path


@cache
def wanted(name: str) -> tuple[dict[tuple[str, int, int], bytes], list[bytes]]:
    """RocketMQ's own queue files and, in their order, its IndexFiles."""
    store = golden.shared(name)
    queues = {(topic, queue, start): data for topic, queue, start, data in every_queue_file(store)}
    return queues, [data for _, data in golden.index_files(store)]


def every_queue_file(store: Path) -> Iterator[tuple[str, int, int, bytes]]:
    """Queue files of both types."""
    yield from golden.queue_files(store)
    if (store / paths.BATCH_CONSUME_QUEUE).exists():
        yield from golden.batch_queue_files(store)


def assert_equal_to_peer(store: Path, name: str) -> None:
    """Every queue file and every IndexFile is as RocketMQ wrote it; only the IndexFiles' names may differ.

    Their names are times of creation, so a file that is built anew has a new one.
    """
    queues, index = wanted(name)
    found = {(topic, queue, start): data for topic, queue, start, data in every_queue_file(store)}
    assert sorted(found) == sorted(queues)
    assert [key for key in queues if found[key] != queues[key]] == []
    assert [data for _, data in golden.index_files(store)] == index
    names = [name for name, _ in golden.index_files(store)]
    assert all(index_file.is_index_name(name) for name in names)
    assert names == sorted(set(names))
    assert stores.leftovers(store) == []


def records(store: Path) -> Iterator[Record]:
    """The records of a store's log, in order, by the plain twin."""
    for start, data in golden.log_files(store):
        at = 0
        while at < len(data):
            verdict, size = examine(data, at, len(data), start + at)
            if verdict is not Verdict.GOOD:
                break
            yield decode_record(data, at)
            at += size


@by_case
@pytest.mark.parametrize("split_mb", SPLITS_MB)
def test_loop_builds_what_the_peer_built(case: Case, split_mb: float, tmp_path: Path, config: Path) -> None:
    """Splits of any size give RocketMQ's indexes."""
    store = prepare(case, tmp_path)
    log = {path.name: path.read_bytes() for path in (store / paths.COMMIT_LOG).iterdir()}
    report = reput.rebuild(store, spark=False, config=config, split_mb=split_mb)
    assert_equal_to_peer(store, case.like)
    assert {path.name: path.read_bytes() for path in (store / paths.COMMIT_LOG).iterdir()} == log
    assert report.gaps == []
    assert report.out_of_order_queues == []
    assert report.retained_queues == []
    assert report.messages == sum(1 for _ in records(store))


@pytest.mark.spark
@by_case
def test_spark_builds_what_the_peer_built(case: Case, tmp_path: Path, config: Path, spark: SparkContext) -> None:
    """Spark's tasks write the same bytes as the loop."""
    store = prepare(case, tmp_path)
    reput.rebuild(store, spark=spark, config=config, split_mb=0.3)
    assert_equal_to_peer(store, case.like)


def test_plain_kernels_build_what_the_peer_built(tmp_path: Path, config: Path) -> None:
    """With REPUT_KERNELS=reference the same bytes come out, and nothing compiled is loaded."""
    store = prepare(CASES[2], tmp_path)
    source = str(Path(reput.__file__).parents[1])
    environment = {**os.environ, "REPUT_KERNELS": "reference", "PYTHONPATH": source}
    subprocess.run([sys.executable, "-c", RUN_REFERENCE, store, config], env=environment, check=True)
    assert_equal_to_peer(store, "crash")


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[5], CASES[3]], ids=lambda case: case.name)
def test_present_indexes_tell_their_settings(case: Case, tmp_path: Path) -> None:
    """Without any configuration the present files show their sizes, and the report says so."""
    store = prepare(case, tmp_path)
    report = reput.rebuild(store, spark=False)
    assert_equal_to_peer(store, case.like)
    assert [text.split(" (")[0] for text in report.assumed] == [
        f"maxHashSlotNum={golden.INDEX_SLOTS}",
        f"maxIndexNum={golden.INDEX_ITEMS}",
        "messageDelayLevel=1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        f"mappedFileSizeConsumeQueue={golden.QUEUE_FILE_SIZE}",
        *([f"mapperFileSizeBatchConsumeQueue={golden.BATCH_QUEUE_FILE_SIZE}"] if case.store == "batch" else []),
    ]
    assert "tags are indexed, as in the present IndexFiles" in report.notes


def test_missing_indexes_leave_assumptions(tmp_path: Path) -> None:
    """Without indexes and configuration the report lists every value that was assumed."""
    store = prepare(CASES[2], tmp_path)
    config = StoreConfig(max_hash_slot_num=golden.INDEX_SLOTS, max_index_num=golden.INDEX_ITEMS)
    report = reput.rebuild(store, spark=False, config=config)
    assert [text.split("=")[0].split(" (")[0] for text in report.assumed] == [
        "messageDelayLevel",
        "mappedFileSizeConsumeQueue",
        "tags are indexed, as RocketMQ does since 5.4.0",
    ]


@by_case
def test_checkpoint_says_what_is_there(case: Case, tmp_path: Path, config: Path) -> None:
    """The checkpoint covers log, queues and every IndexFile, so that RocketMQ destroys none of them."""
    store = prepare(case, tmp_path)
    old = decode_checkpoint((store / paths.CHECKPOINT).read_bytes())
    reput.rebuild(store, spark=False, config=config)
    data = (store / paths.CHECKPOINT).read_bytes()
    new = decode_checkpoint(data)
    *_, last = records(store)
    assert len(data) == 4096
    assert new.physic_msg_timestamp == new.logics_msg_timestamp == last.store_timestamp
    assert new.confirm_phy_offset == new.logics_physical_offset == last.physical_offset
    assert new.index_msg_timestamp == max(header.end_timestamp for header in stores.headers(store))
    assert new.master_flushed_offset == old.master_flushed_offset


def test_frontier_covers_the_log(tmp_path: Path, config: Path) -> None:
    """Frontier and watermarks say that both indexes are complete up to the end of the last record."""
    store = prepare(CASES[1], tmp_path)
    report = reput.rebuild(store, spark=False, config=config)
    *_, last = records(store)
    end = last.physical_offset + last.size
    data = (store / paths.REPUT / own.FRONTIER_NAME).read_bytes()
    frontier = own.decode_frontier(data, "frontier")
    assert frontier.queue_offset == frontier.index_offset == report.log_max_offset == end
    assert frontier.index_file == report.index_files[-1]
    assert frontier.index_count == stores.headers(store)[-1].index_count
    assert frontier.queue_fingerprint is not None
    assert frontier.index_fingerprint == frontier.queue_fingerprint
    assert frontier.queue_fingerprint.offset == last.physical_offset
    assert frontier.queue_fingerprint.size == last.size
    assert frontier.queue_fingerprint.store_timestamp == last.store_timestamp


def test_again_is_the_same(tmp_path: Path, config: Path) -> None:
    """A rebuild of a rebuilt store changes no byte of its indexes, and names its IndexFiles anew."""
    store = prepare(CASES[0], tmp_path)
    reput.rebuild(store, spark=False, config=config)
    once = stores.indexes(store)
    reput.rebuild(store, spark=False, config=config)
    assert stores.indexes(store) == once
    assert_equal_to_peer(store, "basic")
