"""Filters that Spark pushes down narrow what is read, and never by too much."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)
from pyspark.sql.types import StringType, StructField, StructType

import reput
from reput.connect.options.filters import narrowed
from reput.connect.options.options import read_options
from reput.connect.options.selection import NumberRange, Selection, selection_of
from reput.connect.plan import explain, plan_batch
from reput.connect.source import RocketmqReader, RocketmqSource
from reput.connect.tasks import tasks_of
from reput.errors import ConfigError
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

EVERYTHING = selection_of(read_options({"path": "/data/store"}))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_704_110_400_000
HALF_MS = timedelta(microseconds=500)


def after(*filters: Filter) -> Selection:
    """The rows that filters leave of everything."""
    return narrowed(EVERYTHING, filters)


@pytest.mark.parametrize(
    ("one", "field", "expected"),
    [
        (EqualTo(("queueOffset",), 7), "queue_offset", NumberRange(7, 8)),
        (In(("offset",), (3, 9)), "queue_offset", NumberRange(3, 10)),
        (GreaterThan(("queueOffset",), 7), "queue_offset", NumberRange(8)),
        (LessThanOrEqual(("physicalOffset",), 7), "position", NumberRange(0, 8)),
        (GreaterThanOrEqual(("storeTimestamp",), NOON), "stored_ms", NumberRange(NOON_MS)),
        (GreaterThan(("storeTimestamp",), NOON), "stored_ms", NumberRange(NOON_MS + 1)),
        (GreaterThan(("storeTimestamp",), NOON + HALF_MS), "stored_ms", NumberRange(NOON_MS + 1)),
        (GreaterThanOrEqual(("timestamp",), NOON + HALF_MS), "stored_ms", NumberRange(NOON_MS + 1)),
        (LessThan(("timestamp",), NOON), "stored_ms", NumberRange(0, NOON_MS)),
        (LessThan(("timestamp",), NOON + HALF_MS), "stored_ms", NumberRange(0, NOON_MS + 1)),
        (LessThanOrEqual(("timestamp",), NOON), "stored_ms", NumberRange(0, NOON_MS + 1)),
        (EqualTo(("storeTimestamp",), NOON), "stored_ms", NumberRange(NOON_MS, NOON_MS + 1)),
        (EqualTo(("topic",), "orders"), "topic_names", frozenset({"orders"})),
        (In(("partition",), (1, 2)), "queue_ids", frozenset({1, 2})),
        (EqualTo(("keys",), "a b"), "key_hints", ("a",)),
        (EqualTo(("keys",), "  a\tb c"), "key_hints", ("a\tb",)),
        (EqualTo(("key",), b"a"), "key_hints", ("a",)),
        (EqualTo(("uniqKey",), "7F00"), "key_hints", ("7F00",)),
    ],
    ids=str,
)
def test_a_filter_becomes_a_bound(one: Filter, field: str, expected: Any) -> None:
    """Each filter that is understood bounds one thing."""
    assert getattr(after(one), field) == expected


@pytest.mark.parametrize(
    "one",
    [
        Not(EqualTo(("topic",), "orders")),
        StringContains(("topic",), "ord"),
        EqualTo(("topic", "part"), "orders"),
        In(("topic",), ("orders", None)),
        EqualTo(("keys",), " "),
        EqualTo(("storeTimestamp",), datetime(2024, 1, 1)),  # noqa: DTZ001 - a time without a zone
        GreaterThan(("bornTimestamp",), NOON),
    ],
    ids=str,
)
def test_other_filters_bound_nothing(one: Filter) -> None:
    """A filter that bounds nothing for certain is left to Spark alone."""
    assert after(one) == EVERYTHING


@pytest.mark.parametrize("keys", ["a\tb", "x\u300017", "x\u00a0y", "\u2028z", " a\nb  c"], ids=ascii)
@pytest.mark.parametrize("scan", ["auto", "log"])
def test_only_spaces_part_keys(tmp_path: Path, keys: str, scan: str) -> None:
    """A filter on the whole property finds it whatever blanks its keys have: by IndexFiles and in the log."""
    log = LogBuilder(file_size=1 << 16)
    for number in range(20):
        log.message("orders", keys=keys if number == 7 else f"k{number}")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    for one in (EqualTo(("keys",), keys), In(("keys",), (keys, "other")), EqualTo(("key",), keys.encode())):
        options = read_options({"path": str(store), "scan": scan})
        plan = plan_batch(options, narrowed(selection_of(options), [one]))
        assert plan.scan == ("log" if scan == "log" else "key")
        found = [batch.to_pylist() for task in tasks_of(plan) for batch in task.read()]
        assert [row["keys"] for rows in found for row in rows] == [keys]


def test_all_filters_stay_with_spark() -> None:
    """The reader hands every filter back, so that a wide bound is no wrong answer."""
    reader = RocketmqReader(read_options({"path": str(golden.shared("basic"))}))
    filters: list[Filter] = [EqualTo(("topic",), "audit")]
    assert reader.pushFilters(filters) is filters
    assert plan_batch(reader.options, narrowed(EVERYTHING, reader.filters)).scan == "queue"
    assert "scan: queue (120 entries of 4 queues are wanted)" in explain({"path": reader.options.path}, *filters)


def test_a_schema_of_ones_own_is_refused() -> None:
    """`.schema(...)` with other columns is an error that names those there are."""
    schema = StructType([StructField("body", StringType())])
    with pytest.raises(ConfigError, match=r"body string\): leave it out.*topic string, flag int, body binary"):
        RocketmqSource({"path": "/data/store"}).reader(schema)


@pytest.mark.spark
@pytest.mark.golden
def test_spark_pushes_them(spark: SparkContext) -> None:
    """In a registered session a question about one topic looks at its queue, and the answer is that of no push-down."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    reput.register(session)
    store = str(golden.shared("basic"))

    def answers() -> list[Any]:
        frame = session.read.format("rocketmq").option("columns", "topic,queueId,queueOffset,keys").load(store)
        conditions = ["topic = 'orders' AND queueOffset > 100", "keys = 'k44'", "queueId IN (1, 2)"]
        return [frame.where(condition).count() for condition in conditions]

    pushed = answers()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert answers() == pushed
    finally:
        session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert all(pushed)
