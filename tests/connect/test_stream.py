"""The log as a stream: every message once, in batches as asked for, and no other store's checkpoint."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import reput
from reput.connect import stream as stream_module
from reput.connect.cut.cuts import LogCut, joined_cuts
from reput.connect.options.options import read_options
from reput.connect.spark import read_partition
from reput.connect.stream import RocketmqStreamReader, stream_options
from reput.errors import ConfigError, DataLossError
from reput.formats import paths
from support import frames, golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark import SparkContext
    from pyspark.sql import DataFrame

EARLIEST = {"startingOffsets": "earliest"}


def reader(store: Path, **options: Any) -> RocketmqStreamReader:
    """A reader of a store as a stream."""
    given = {"path": str(store), **{name: str(value) for name, value in options.items()}}
    return RocketmqStreamReader(read_options(stream_options(given)))


def rows_between(stream: RocketmqStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Log offsets of the messages of a batch."""
    batches = [batch for task in stream.partitions(start, end) for batch in read_partition(task)]
    return [place for batch in batches for place in batch["physicalOffset"].to_pylist()]


def batches_of(stream: RocketmqStreamReader) -> Iterator[list[int]]:
    """All batches that are there now, as Spark would ask for them."""
    start = json.loads(json.dumps(stream.initialOffset()))
    while (end := json.loads(json.dumps(stream.latestOffset(start, stream.getDefaultReadLimit())))) != start:
        yield rows_between(stream, start, end)
        start = end


def log_of(count: int, first: int = 0) -> LogBuilder:
    """A log of messages to one topic, in files of 16 KiB."""
    log = LogBuilder(file_size=1 << 14)
    for number in range(first, first + count):
        log.message("orders", queue_id=number % 2, body=b"x" * 200)
    return log


@pytest.mark.golden
@pytest.mark.parametrize(
    "options", [{}, {"maxBytesPerTrigger": 100_000}, {"maxBytesPerTrigger": 1}, {"maxOffsetsPerTrigger": 700}], ids=str
)
def test_every_message_comes_once(options: dict[str, Any]) -> None:
    """Batches of any size, one after the other, are the whole log."""
    store = golden.shared("basic")
    if options == {"maxBytesPerTrigger": 1}:
        options = {**options, "commitLogStart": 2 << 20}
    whole = frames.table(
        store, columns="physicalOffset", **({"commitLogStart": 2 << 20} if "commitLogStart" in options else {})
    )
    found = list(batches_of(reader(store, **{**EARLIEST, **options})))
    assert [place for batch in found for place in batch] == whole["physicalOffset"].to_pylist()
    if "maxOffsetsPerTrigger" in options:
        assert [len(batch) for batch in found[:-1]] == [700] * (len(found) - 1)
    elif options:
        assert len(found) > 5


def test_only_wanted_messages_count(tmp_path: Path) -> None:
    """MaxOffsetsPerTrigger counts messages of the topics that are read, and those of other topics pass by."""
    log = LogBuilder(file_size=1 << 16)
    for number in range(300):
        log.message("orders" if number % 10 == 0 else "other")
    store = stores.with_log(tmp_path, log)
    found = list(batches_of(reader(store, topic="orders", maxOffsetsPerTrigger=8, **EARLIEST)))
    assert [len(batch) for batch in found] == [8, 8, 8, 6, *([0] if len(found) > 4 else [])]


def test_what_comes_later_is_read(tmp_path: Path) -> None:
    """Records that are written after the start, in new files and to new topics, are in the next batch."""
    log = log_of(50)
    store = stores.with_log(tmp_path, log)
    stream = reader(store, subscribe="orders,later")
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    placed = [log.message("later" if number % 2 else "nobody", body=b"y" * 300).offset for number in range(80)]
    log.write(store)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert rows_between(stream, start, end) == placed[1::2]
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_restarted_query_does_the_same_batch_again(tmp_path: Path) -> None:
    """Between two offsets of a checkpoint a new reader finds what the old one found."""
    store = stores.with_log(tmp_path, log_of(200))
    stream = reader(store, **EARLIEST)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxBytes(30_000))
    assert rows_between(reader(store, **EARLIEST), start, end) == rows_between(stream, start, end)
    more = stream.latestOffset(end, ReadMaxRows(7))
    assert len(rows_between(reader(store), end, more)) == 7


def test_a_stream_from_offsets(tmp_path: Path) -> None:
    """Offsets per queue bound each queue from below, whatever comes later; offsets that are gone are an error."""
    store = stores.with_log(tmp_path, log_of(60))
    stream = reader(store, startingOffsets='{"orders": {"0": 25}}')
    (batch,) = batches_of(stream)
    assert len(batch) == 5 + 30
    for offsets in ('{"orders": {"0": 31}}', '{"orders": {"7": 1}}'):
        with pytest.raises(DataLossError):
            reader(store, startingOffsets=offsets).initialOffset()
        assert reader(store, startingOffsets=offsets, failOnDataLoss="false").initialOffset()["offset"] == 0


def test_available_now_ends_at_what_was_there(tmp_path: Path) -> None:
    """With Trigger.AvailableNow what is written later waits for the next run."""
    log = log_of(40)
    store = stores.with_log(tmp_path, log)
    stream = reader(store, **EARLIEST)
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    log.message("orders")
    log.write(store)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert len(rows_between(stream, start, end)) == 40
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_deleted_files(tmp_path: Path) -> None:
    """Files that went before they were read are an error, or are passed over without failOnDataLoss."""
    store = stores.with_log(tmp_path, log_of(300))
    start = reader(store, **EARLIEST).initialOffset()
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    with pytest.raises(DataLossError, match="begins at log offset 16384"):
        reader(store, **EARLIEST).latestOffset(start, ReadAllAvailable())
    stream = reader(store, failOnDataLoss="false", **EARLIEST)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert rows_between(stream, start, end)[0] == 1 << 14


def test_another_stores_checkpoint(tmp_path: Path) -> None:
    """An offset whose mark is not in the log is refused, with reput's store id or without."""
    mine, other = stores.with_log(tmp_path / "a", log_of(100)), stores.with_log(tmp_path / "b", log_of(120, first=1))
    stream = reader(mine, **EARLIEST)
    place = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    with pytest.raises(ConfigError, match="another record"):
        reader(other, **EARLIEST).latestOffset(place, ReadAllAvailable())
    stores.rebuild(mine)
    stores.rebuild(other)
    place = reader(mine, **EARLIEST).initialOffset()
    with pytest.raises(ConfigError, match="belongs to the store"):
        reader(other, **EARLIEST).partitions(place, place)


@pytest.mark.parametrize("options", [{}, EARLIEST], ids=["latest", "earliest"])
def test_another_stores_checkpoint_before_a_message(tmp_path: Path, options: dict[str, str]) -> None:
    """A stream's first offset has a mark, too: another store is refused, and so is a log that was cut."""
    mine, other = stores.with_log(tmp_path / "a", log_of(100)), stores.with_log(tmp_path / "b", log_of(120, first=1))
    place = reader(mine, **options).initialOffset()
    assert reader(mine, **options).latestOffset(place, ReadMaxRows(1))["offset"] >= place["offset"]
    with pytest.raises(ConfigError, match="another record"):
        reader(other, **options).latestOffset(place, ReadAllAvailable())
    cut = stores.with_log(tmp_path / "c", log_of(90))
    end = reader(mine, **EARLIEST).latestOffset(place, ReadAllAvailable())
    with pytest.raises(ConfigError, match="the log was cut"):
        reader(cut, **options).latestOffset(end, ReadAllAvailable())


def test_what_a_stream_cannot_be_given(tmp_path: Path) -> None:
    """An option that ends a batch is refused in a stream."""
    for options in ({"endingTimestamp": 5}, {"commitLogEnd": 5}, {"startingOffsets": '{"orders": {"0": -1}}'}):
        with pytest.raises(ConfigError):
            reader(tmp_path, **options)


@pytest.mark.spark
@pytest.mark.golden
def test_a_query_with_available_now(spark: SparkContext, tmp_path: Path) -> None:
    """A Structured Streaming query reads the store once, and after a restart goes on with what is new."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    reput.register(session)
    store = golden.unpack("basic", tmp_path)
    counts: list[int] = []

    def run() -> None:
        stream = session.readStream.format("rocketmq").option("startingOffsets", "earliest")
        stream = stream.option("maxBytesPerTrigger", "1500000").option("columns", "topic,queueOffset")

        def count(frame: DataFrame, _: int) -> None:
            counts.append(frame.count())

        query = stream.load(str(store)).writeStream.foreachBatch(count)
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()

    run()
    assert sum(counts) == len(frames.table(store))
    assert len(counts) >= 2
    run()
    before = len(counts)
    with reput.MessageStore.open(store, create=True) as opened:
        opened.put_message(reput.Message(topic="later", body=b"new"), queue_id=0)
    run()
    assert counts[before:] == [1]
    shutil.rmtree(store)


def test_tasks_of_a_large_batch() -> None:
    """Borders that the walk noted become tasks of a sensible size; no byte is left out."""
    cuts = [LogCut("a", 0, 100, begin, begin + 10) for begin in range(0, 100, 10)] + [LogCut("b", 100, 100, 100, 110)]
    joined = joined_cuts(cuts, 35)
    assert [(cut.path, cut.begin, cut.end) for cut in joined] == [
        ("a", 0, 30), ("a", 30, 60), ("a", 60, 90), ("a", 90, 100), ("b", 100, 110),
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": 1000}, {"topic": "rare", "maxOffsetsPerTrigger": 2}])
def test_a_long_backlog_comes_in_parts(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a bound of its own a batch has a largest size, so the planner never walks a whole backlog."""
    log = log_of(400)
    log.message("rare")
    store = stores.with_log(tmp_path, log)
    monkeypatch.setattr(stream_module, "BYTES_PER_TRIGGER", 20_000)
    stream = reader(store, **EARLIEST, **options)
    walked, start, found = [], stream.initialOffset(), []
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        walked.append(end["offset"] - start["offset"])
        found += rows_between(stream, start, end)
        start = end
    assert max(walked) <= 20_000
    assert start["offset"] == log.end
    wanted = [placed.offset for placed in log.placed if placed.record.topic == b"rare" or "topic" not in options]
    assert found == wanted
    # Trigger.Once asks for all.
    assert stream.latestOffset(stream.initialOffset(), ReadAllAvailable())["offset"] == log.end
