"""Reading a store that another process writes: as far as that allows, each message once, and nothing is written."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

import reput
from reput.connect.cut.snapshot import confirmed_by, take_snapshot
from reput.connect.options.options import read_options
from reput.connect.stream import RocketmqStreamReader
from reput.connect.writer import RocketmqStreamWriter, RocketmqWriter
from reput.errors import ConfigError, StoreLockedError
from reput.formats import paths
from reput.store.owner.holders import Writer
from support import frames, stores
from support.checked import assert_sound
from support.opened import CONFIG, put
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 0); print(flush=True); input()"
)
SCHEMA = StructType([StructField("body", StringType())])


@contextmanager
def broker_on(store: Path) -> Iterator[None]:
    """Another process that holds RocketMQ's lock, as a live broker does."""
    (store / paths.LOCK).write_bytes(b"lock")
    command = [sys.executable, "-c", HOLD, str(store / paths.LOCK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.communicate(b"\n")


def offsets(store: Path, **options: str) -> list[int]:
    """Log offsets of all messages."""
    return frames.table(store, columns="physicalOffset", **options)["physicalOffset"].to_pylist()


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[int], LogBuilder]:
    """A store of 120 messages whose queues know the first 100, and their log offsets."""
    log = LogBuilder(file_size=1 << 16)
    placed = [log.message("orders", queue_id=number % 3).offset for number in range(100)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    placed += [log.message("orders", queue_id=number % 3).offset for number in range(20)]
    log.write(store)
    return store, placed, log


def test_beside_a_live_broker(written: tuple[Path, list[int], LogBuilder]) -> None:
    """A live broker's log is read as far as its queues refer to it; when it is gone, to the end."""
    store, placed, _ = written
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    with broker_on(store):
        assert frames.plan(store).snapshot.writer is Writer.BROKER
        for scan in ("log", "queue", "auto"):
            assert sorted(offsets(store, scan=scan)) == placed[:100]
        stream = RocketmqStreamReader(read_options({"path": str(store), "startingOffsets": "earliest"}))
        end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
        assert end["offset"] == placed[100]
    assert sorted(offsets(store)) == placed
    unchanged = {path: path.stat().st_mtime_ns for path in before if path.name != paths.LOCK and path != store}
    assert unchanged == {path: time for path, time in before.items() if path.name != paths.LOCK and path != store}


def test_a_live_brokers_store_is_not_written(written: tuple[Path, list[int], LogBuilder]) -> None:
    """A write beside a broker is refused before a task runs."""
    store, _, _ = written
    with broker_on(store), pytest.raises(StoreLockedError, match="live broker"):
        RocketmqWriter({"path": str(store), "topic": "orders"}, SCHEMA)


def test_beside_a_writer_of_ours(tmp_path: Path) -> None:
    """A store that is open for puts gives what is confirmed, indexed or not, and takes no other writer."""
    with reput.MessageStore.open(tmp_path, create=True) as store:
        for number in range(50):
            store.put_message(reput.Message("orders", b"body", keys=f"k{number}"), queue_id=number % 2)
            if number == 30:
                store.reput(spark=False)
        for scan in ("log", "queue", "auto"):
            assert len(offsets(tmp_path, scan=scan)) == 50
        assert len(offsets(tmp_path, keys="k7")) == len(offsets(tmp_path, keys="k45")) == 1
        with pytest.raises(StoreLockedError, match="open to write"):
            RocketmqStreamWriter({"path": str(tmp_path), "topic": "t", "checkpointLocation": "/c"}, SCHEMA)
    with pytest.raises(ConfigError, match="checkpointLocation"):
        RocketmqStreamWriter({"path": str(tmp_path), "topic": "t"}, SCHEMA)


def test_a_log_file_that_a_writer_begins_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan ends with the log files that it has listed, even if the confirmed offset is in a newer file."""
    with reput.MessageStore.open(tmp_path, CONFIG, create=True) as store:
        placed = put(store, 10)

        def later(*arguments: Any) -> int | None:
            while placed[-1] < CONFIG.mapped_file_size_commit_log:
                placed.extend(put(store, 50))
            return confirmed_by(*arguments)

        monkeypatch.setattr("reput.connect.cut.snapshot.confirmed_by", later)
        seen = take_snapshot(str(tmp_path), CONFIG)
        first_file = [offset for offset in placed if offset < seen.log.end_offset]
        assert len(placed) > len(first_file)
        assert (seen.end, seen.bad_end) == (CONFIG.mapped_file_size_commit_log, None)
        (span,) = seen.tails.values()
        assert (span.min_offset, span.max_offset) == (0, len(first_file))
    assert_sound(tmp_path, CONFIG)
