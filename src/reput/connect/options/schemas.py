"""Columns of `format("rocketmq")`.

Native: the nine columns of rocketmq-spark, in its order, so that its users' queries still work, and then the other
fields of a record. Kafka: the columns of Spark's Kafka source, with keys as `key` and the queue as `partition`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class FrameSchema(StrEnum):
    """The set of columns that a frame has (option `schema`)."""

    NATIVE = "native"
    KAFKA = "kafka"


class BodyForm(StrEnum):
    """The form in which bodies are given (option `body`)."""

    DECODED = "decoded"
    """Decompressed, as a consumer gets them."""
    RAW = "raw"
    """Unchanged, as they are stored."""


class Need(StrEnum):
    """The part of a record that must be read for a column, cheapest first."""

    PLACE = "place"  # known without a look at the record: queue, offset, place and size
    HEAD = "head"  # fixed fields
    PROPERTIES = "properties"  # KEYS, TAGS or UNIQ_KEY
    MAP = "map"  # all properties
    BODY = "body"


class Column(NamedTuple):
    """One column: its name, its type as Spark's DDL writes it, and what it costs."""

    name: str
    type: str
    need: Need
    meaning: str


NATIVE = (
    Column("topic", "string", Need.PLACE, "the topic"),
    Column("flag", "int", Need.HEAD, "the application's own flag"),
    Column("body", "binary", Need.BODY, "the body, decompressed; null if it cannot be; as stored with body=raw"),
    Column("properties", "map<string,string>", Need.MAP, "all properties; of a repeated name the last value"),
    Column("brokerName", "string", Need.PLACE, "option brokerName, else null: files do not have it"),
    Column("queueId", "int", Need.PLACE, "the queue within the topic"),
    Column("queueOffset", "bigint", Need.PLACE, "the message's number in its queue"),
    Column("bornTimestamp", "timestamp", Need.HEAD, "when the producer made it"),
    Column("storeTimestamp", "timestamp", Need.PLACE, "when the broker stored it"),
    Column("keys", "string", Need.PROPERTIES, "property KEYS: keys with spaces between; null without"),
    Column("tags", "string", Need.PROPERTIES, "property TAGS; null without"),
    Column("uniqKey", "string", Need.PROPERTIES, "property UNIQ_KEY, the client's message id; null without"),
    Column("offsetMsgId", "string", Need.HEAD, "the offset message id: store host and log offset in hex"),
    Column("physicalOffset", "bigint", Need.PLACE, "where the record starts in the log (bytes)"),
    Column("storeSize", "int", Need.PLACE, "length of the record (bytes)"),
    Column("bodyCRC", "int", Need.HEAD, "CRC-32 of the stored body & 0x7FFFFFFF"),
    Column("sysFlag", "int", Need.HEAD, "RocketMQ's sysFlag bits; those of compression only with body=raw"),
    Column("reconsumeTimes", "int", Need.HEAD, "the number of times that it was delivered again"),
    Column("bornHost", "string", Need.HEAD, "the producer's address and port"),
    Column("storeHost", "string", Need.HEAD, "the broker's address and port"),
    Column("preparedTransactionOffset", "bigint", Need.HEAD, "log offset of its prepared message"),
    Column("liteTopic", "string", Need.MAP, "the lite topic of `topic` that it belongs to; null without"),
)

KAFKA = (
    Column("key", "binary", Need.PROPERTIES, "property KEYS; null without"),
    Column("value", "binary", Need.BODY, "the body, as the native column body"),
    Column("topic", "string", Need.PLACE, "the topic"),
    Column("partition", "int", Need.PLACE, "the queue id"),
    Column("offset", "bigint", Need.PLACE, "the queue offset"),
    Column("timestamp", "timestamp", Need.PLACE, "the store time"),
    Column("timestampType", "int", Need.PLACE, "always 1: log append time"),
)
HEADERS = Column("headers", "array<struct<key:string,value:binary>>", Need.MAP, "properties, with includeHeaders")
BODY_ERROR = Column(
    "bodyError", "string", Need.BODY, "why the body cannot be decompressed; null if it can; not there with body=raw"
)

BODIES = ("body", "value", BODY_ERROR.name)


def columns_of(
    shape: FrameSchema, include_headers: bool, include_body: bool, body: BodyForm = BodyForm.DECODED
) -> tuple[Column, ...]:
    """Return all columns of a shape."""
    columns = NATIVE if shape is FrameSchema.NATIVE else (*KAFKA, *((HEADERS,) if include_headers else ()))
    columns = (*columns, BODY_ERROR) if body is BodyForm.DECODED else columns
    return tuple(column for column in columns if include_body or column.name not in BODIES)


def ddl(columns: tuple[Column, ...]) -> str:
    """Return the columns as Spark reads a schema."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)
