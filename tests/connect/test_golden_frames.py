"""Frames of stores that RocketMQ wrote hold what RocketMQ answers about them, and what MessageStore reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import reput
from support import frames, golden

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

    from reput.store.read.message import StoredMessage

pytestmark = pytest.mark.golden


def messages_of(store: Path) -> list[StoredMessage]:
    """All messages of a store's queues, in log order."""
    with reput.MessageStore.open(store, read_only=True) as opened:
        found = []
        for queue in opened.queues():
            offset = queue.min_offset
            while offset < queue.max_offset:
                result = opened.get_message(queue.topic, queue.queue_id, offset, 500)
                found += list(result)
                offset = result.next_offset
    return sorted(found, key=lambda message: message.physical_offset)


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    """A frame's rows in log order."""
    return table.sort_by("physicalOffset").to_pylist()


@pytest.mark.parametrize("name", ["basic", "crash"])
def test_every_column_is_what_the_store_reads(name: str) -> None:
    """Each column of each message equals what MessageStore reads of it."""
    store = golden.shared(name)
    rows, messages = rows_of(frames.table(store)), messages_of(store)
    assert [row["physicalOffset"] for row in rows] == [message.physical_offset for message in messages]
    for row, message in zip(rows, messages, strict=True):
        record = message.record
        assert row["topic"] == message.topic
        assert row["flag"] == message.flag
        assert row["body"] == message.body
        assert dict(row["properties"]) == message.properties
        assert row["brokerName"] is None
        assert (row["queueId"], row["queueOffset"]) == (message.queue_id, message.queue_offset)
        assert row["bornTimestamp"].timestamp() * 1000 == pytest.approx(message.born_timestamp)
        assert row["storeTimestamp"].timestamp() * 1000 == pytest.approx(message.store_timestamp)
        assert row["keys"] == message.properties.get("KEYS")
        assert row["tags"] == message.tags
        assert row["uniqKey"] == message.unique_key
        assert row["offsetMsgId"] == message.message_id
        assert row["storeSize"] == record.size
        assert row["bodyCRC"] == record.body_crc
        assert row["sysFlag"] == message.sys_flag
        assert row["reconsumeTimes"] == record.reconsume_times
        assert row["bornHost"] == str(record.born_host)
        assert row["storeHost"] == str(record.store_host)
        assert row["preparedTransactionOffset"] == record.prepared_transaction_offset


@pytest.mark.spark
def test_a_registered_session_reads_it(spark: SparkContext) -> None:
    """`spark.read.format("rocketmq")` gives the same number of rows per topic as the store's queues hold."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    reput.register(session)
    store = golden.shared("basic")
    counts: dict[str, int] = {}
    for message in messages_of(store):
        counts[message.topic] = counts.get(message.topic, 0) + 1
    frame = session.read.format("rocketmq").load(str(store))
    assert {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()} == counts


@pytest.mark.parametrize("scan", ["log", "queue"])
@pytest.mark.parametrize("sql", ["TAGS IN ('A', 'paid')", "KEYS IS NOT NULL AND TAGS IS NULL", "nothing > 5"])
def test_sql_filters(sql: str, scan: str) -> None:
    """`filter.sql` leaves what the same filter leaves in a pull, in both plans."""
    store = golden.shared("crash")
    wanted = reput.SqlFilter(sql).compiled
    messages = [one.physical_offset for one in messages_of(store) if wanted.matches(one.properties)]
    rows = rows_of(frames.table(store, **{"filter.sql": sql, "scan": scan}))
    assert [row["physicalOffset"] for row in rows] == messages
