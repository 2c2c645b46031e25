"""`reput.functions`: bodies, properties and JSON in Spark's frames."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import reput
import reput.functions as rf
from reput.formats.log.record import FLAG_COMPRESSED
from support import golden

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ZLIB = FLAG_COMPRESSED | 0x300


@pytest.fixture(name="session")
def session_of(spark: SparkContext) -> SparkSession:
    """A session in which the format is registered."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark)
    reput.register(session)
    return session


@pytest.mark.golden
def test_decoded_later_is_decoded_at_once(session: SparkSession) -> None:
    """`decode_body` on stored bodies gives those of a frame that decodes, and does not change decoded ones."""
    store = str(golden.shared("config-v2"))
    raw = session.read.format("rocketmq").option("body", "raw").load(store)
    later = raw.select(
        "physicalOffset", rf.decode_body("body", "sysFlag").alias("body"), rf.body_error("body", "sysFlag")
    )
    frame = session.read.format("rocketmq").load(store)
    again = frame.select("physicalOffset", rf.decode_body(frame.body, frame.sysFlag).alias("body"))
    expected = frame.select("physicalOffset", "body").toArrow().sort_by("physicalOffset")
    found = later.toArrow().sort_by("physicalOffset")
    assert found.select(["physicalOffset", "body"]).to_pylist() == expected.to_pylist()
    assert found.column(2).null_count == len(found)
    assert again.toArrow().sort_by("physicalOffset").to_pylist() == expected.to_pylist()


def test_bad_values_are_null_and_the_query_goes_on(session: SparkSession) -> None:
    """A body that cannot be decoded is null with a reason; a body that is no JSON, or no UTF-8, has null fields."""
    order = b'{"id": "o-1", "amount": 2.5, "customer": {"id": 7}}'
    rows = [
        (zlib.compress(order), ZLIB, {"region": "eu"}),
        (order, 0, {}),
        (b"no stream", ZLIB, {"region": "us"}),
        (zlib.compress(bytes(5000)), ZLIB, {}),
        (b"no JSON", 0, {}),
        (b"\xff\xfe", 0, {}),
        (None, ZLIB, {}),
    ]
    schema = "stored binary, sysFlag int, properties map<string,string>"
    frame = session.createDataFrame(rows, schema).select(
        rf.decode_body("stored", "sysFlag", 4999).alias("body"),
        rf.body_error("stored", "sysFlag", 4999).alias("error"),
        rf.message_property("properties", "region").alias("region"),
    )
    found = frame.select(
        "*",
        rf.json_field("body", "$.customer.id").alias("customer"),
        rf.json_fields(frame.body, "id string, amount double").alias("order"),
    )
    values = found.select("body", "error", "region", "customer", "order.id", "order.amount").toArrow().to_pylist()
    assert [value["body"] for value in values] == [order, order, None, None, b"no JSON", b"\xff\xfe", None]
    assert [(value["error"] or "")[:14] for value in values] == ["", "", "zlib: the stre", "zlib: expands ", "", "", ""]
    assert [value["region"] for value in values] == ["eu", None, "us", None, None, None, None]
    assert [value["customer"] for value in values] == ["7", "7", *[None] * 5]
    assert [(value["id"], value["amount"]) for value in values] == [("o-1", 2.5)] * 2 + [(None, None)] * 5


def test_one_bound_is_one_function() -> None:
    """Each bound has its own function, so two bounds in one query do not mix."""
    flags = pa.array([ZLIB], pa.int32())
    stored = pa.array([zlib.compress(b"12345")], pa.binary())
    assert rf._decoded(stored, flags, "binary", 5).to_pylist() == [b"12345"]
    assert rf._decoded(stored, flags, "binary", 4).to_pylist() == [None]
