"""Messages as Arrow batches: those to send, and those that were received."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reput.errors import ConfigError, PutError
from reput.log.encode.message import Message, MessageRefusedError

if TYPE_CHECKING:
    from reput.client.received import ReceivedMessage

_NOT_SENT = ("queue_id", "sys_flag")
"""Columns of messages to put that a client chooses itself."""


def messages_of(messages: Iterable[Message] | Any) -> Iterable[Message]:
    """Return the messages of an iterable, or of an Arrow table or record batch.

    Raises:
        ConfigError: it is neither.
        PutError: a column, or a message in it, cannot be sent.
    """
    if hasattr(messages, "schema") and hasattr(messages, "to_pylist"):
        return _messages_of_table(messages)
    if isinstance(messages, Message | str | bytes) or not isinstance(messages, Iterable):
        raise ConfigError(
            f"messages {messages!r:.80}: give a list of reput.Message(topic, body, ...), or an Arrow table"
        )
    return messages


def _messages_of_table(table: Any) -> list[Message]:
    # Arrow takes some 100 ms to load.
    from reput.log.encode.columns import normalized

    for name in _NOT_SENT:
        if name in table.column_names:
            raise ConfigError(f"column {name}: a producer chooses it; leave it out, or give order_key")
    try:
        # It refuses what cannot be in a batch, by the number of the message.
        normalized(table, 0)
    except MessageRefusedError as error:
        raise PutError(error.status, error.reason) from None
    found = []
    for row in table.to_pylist():
        properties = row.pop("properties", None)
        body = row.pop("body")
        if "flag" in row:
            row["flag"] = row["flag"] or 0
        if row.get("born_timestamp") is not None and not isinstance(row["born_timestamp"], int):
            row["born_timestamp"] = int(row["born_timestamp"].timestamp() * 1000)
        body = body.encode() if isinstance(body, str) else body
        found.append(Message(body=body, properties=dict(properties) if properties else None, **row))
    return found


def record_batch_of(messages: Iterable[ReceivedMessage]) -> Any:
    """Return received messages as a `pyarrow.RecordBatch` with the columns of `reput.scan`.

    Raises:
        DamagedStoreError: a body cannot be decompressed.
    """
    import pyarrow as pa  # type: ignore[import-untyped]

    from reput.connect.options.schemas import NATIVE
    from reput.connect.scan.arrays import arrow_schema

    schema = arrow_schema(NATIVE)
    rows = [one.as_row() for one in messages]
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
