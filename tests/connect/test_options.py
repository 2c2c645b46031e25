"""Options of the source: each is understood, and whatever is not is an error that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput.connect.options import names as option_names
from reput.connect.options.edges import Kind
from reput.connect.options.options import read_options
from reput.connect.options.schemas import BODY_ERROR, HEADERS, KAFKA, NATIVE
from reput.errors import ConfigError, NotAStoreError
from support import frames, golden

PATH = {"path": "/data/store"}

REFUSED = [
    ({}, "no path"),
    ({"path": "/a", "storePath": "/b"}, "give one"),
    ({"path": "hdfs://host/store"}, "mounted"),
    ({**PATH, "startingOffset": "earliest"}, "did you mean startingOffsets"),
    ({**PATH, "topik": "orders"}, "did you mean topic"),
    ({**PATH, "nameServer": "localhost:9876"}, "nameServer: belongs to a source that asks a broker"),
    ({**PATH, "kafka.bootstrap.servers": "localhost:9092"}, "asks a broker"),
    ({**PATH, "minOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger: not offered"),
    ({**PATH, "topic": "a", "subscribe": "b"}, "give one of them"),
    ({**PATH, "subscribe": " , "}, "names no topic"),
    ({**PATH, "keys": ""}, "keys: names no key"),
    ({**PATH, "keys": ","}, "keys: names no key"),
    ({**PATH, "subscribePattern": "("}, "not a regular expression"),
    ({**PATH, "assign": "orders"}, "not JSON"),
    ({**PATH, "assign": '{"orders": ["x"]}'}, "not a queue id"),
    ({**PATH, "assign": '{"orders": {"a": [0], "b": [1]}}'}, "brokers a, b"),
    ({**PATH, "startingOffsets": "group"}, "reput progress"),
    ({**PATH, "startingOffsets": '{"orders": {"0": -3}}'}, "-3 is not a valid number"),
    ({**PATH, "startingOffsets": '{"orders": {"0": true}}'}, "True is not a valid number"),
    ({**PATH, "startingOffsets": '{"orders": 5}'}, "object of queue ids"),
    ({**PATH, "endingOffsets": "earliest"}, "there is nothing before it"),
    ({**PATH, "startingTimestamp": "yesterday"}, "milliseconds since 1970"),
    ({**PATH, "startingTimestamp": "-1"}, "milliseconds since 1970"),
    ({**PATH, "failOnDataLoss": "maybe"}, "true or false"),
    ({**PATH, "minPartitions": "0"}, "whole number from 1"),
    ({**PATH, "schema": "flink"}, "native or kafka"),
    ({**PATH, "columns": "topic,bodi"}, "'bodi' is no column"),
    ({**PATH, "columns": "topic,Topic"}, "named twice"),
    ({**PATH, "columns": "body", "includeBody": "false"}, "includeBody=false"),
    ({**PATH, "filter.tag": "A", "subExpression": "B"}, "different things"),
    ({**PATH, "startingOffsetsByTimestampStrategy": "newest"}, "latest or error"),
]


@pytest.mark.parametrize(("options", "text"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_named(options: dict[str, str], text: str) -> None:
    """A wrong option is a ConfigError before any file is looked at."""
    with pytest.raises(ConfigError, match=text.replace("(", r"\(")):
        read_options(options)


@pytest.mark.parametrize("digits", ["1_0", " 10", "9" * 5000], ids=["underscore", "blank", "very long"])
@pytest.mark.parametrize(
    ("name", "form", "text"),
    [
        ("assign", '{"orders": ["%s"]}', "not a queue id"),
        ("startingTimestamp", "%s", "milliseconds since 1970"),
        ("minPartitions", "%s", "whole number from 1"),
    ],
)
def test_numbers_of_options_were_read_in_three_ways(name: str, form: str, text: str, digits: str) -> None:
    """An option's number is one that Java reads, as in Spark's own options; very long ones are refused as any other."""
    with pytest.raises(ConfigError, match=text) as refused:
        read_options({**PATH, name: form % digits})
    assert len(str(refused.value)) < 200


def test_sql_that_is_none_is_refused() -> None:
    """A filter that cannot be compiled is refused before any file is looked at, with the place in it."""
    with pytest.raises(ConfigError, match="at character 5"):
        read_options({**PATH, "filter.sql": "a > "})


def test_case_does_not_count() -> None:
    """Spark hands names over in lower case."""
    options = read_options({"storepath": "/data/store", "startingoffsets": '{"T": {"broker-a": {"0": 7}}}'})
    assert options.path == "/data/store"
    assert options.starting.kind is Kind.OFFSETS
    assert options.starting.queues == {("T", 0): 7}


def test_the_stronger_edge_wins() -> None:
    """A timestamp wins over times of queues, and those over offsets, as in Spark's Kafka source."""
    options = {**PATH, "startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"T": {"0": 5}}'}
    assert read_options(options).starting.kind is Kind.TIMESTAMPS
    assert read_options({**options, "startingTimestamp": "9"}).starting.kind is Kind.TIMESTAMP


def test_columns_come_as_they_are_asked_for() -> None:
    """`columns` chooses and orders; without it all columns of the shape are there."""
    names = [column.name for column in read_options({**PATH, "columns": "storeSize, TOPIC"}).columns]
    assert names == ["storeSize", "topic"]
    kafka = [column.name for column in read_options({**PATH, "schema": "kafka", "includeHeaders": "true"}).columns]
    assert kafka == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
        "bodyError",
    ]
    nine = [column.name for column in read_options(PATH).columns][:9]
    assert nine == [
        "topic", "flag", "body", "properties", "brokerName", "queueId", "queueOffset", "bornTimestamp",
        "storeTimestamp",
    ]  # fmt: skip


@pytest.mark.parametrize(("path", "text"), [("nowhere", "no such folder"), ("commitlog", "give the one above")])
def test_what_is_no_store(path: str, text: str) -> None:
    """A folder that is no store is named by its path."""
    with pytest.raises(NotAStoreError, match=text):
        frames.plan(golden.shared("basic") / path)


def test_a_batch_from_the_end_is_refused() -> None:
    """It would be empty, as Spark's Kafka source says."""
    with pytest.raises(ConfigError, match="batch would be empty"):
        frames.plan(golden.shared("basic"), startingOffsets="latest")


def test_stream_options_of_a_batch_are_refused() -> None:
    """A bound of micro-batches is refused in a batch."""
    with pytest.raises(ConfigError, match="micro-batches"):
        frames.plan(golden.shared("basic"), maxBytesPerTrigger=5)


def test_every_option_and_column_is_documented() -> None:
    """docs/tasks/spark.md names each option and each column, and what is said there is what the code says."""
    text = (Path(__file__).parents[2] / "docs" / "tasks" / "spark.md").read_text("utf-8")
    for name, meaning in option_names.READ.items():
        assert f"| {name} | {meaning.replace('|', '&#124;')} |" in text
    for column in (*NATIVE, *KAFKA, HEADERS, BODY_ERROR):
        assert f"| {column.name} | {column.type} | {column.meaning} |" in text
