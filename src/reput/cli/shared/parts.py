"""Parts that the kinds of `reput dump` share: records as cells and as JSON, ranges, names."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reput.cli.shared import output
from reput.cli.shared.bodies import AS_STORED, WRONG_CRC, Bodies, ShownBody
from reput.formats.log import properties as props
from reput.formats.log import record as formats
from reput.formats.log.properties import keys_of
from reput.formats.log.property_names import KEYS, TAGS, UNIQUE_KEY
from reput.formats.stored_text import shown_text
from reput.texts import time_text

if TYPE_CHECKING:
    from reput.formats.log.record import Record


def begin_at(offset: int | None, lowest: int, end: int, what: str) -> int:
    """Return the first number of [lowest, end) that an offset or a number asks for: from the end if it is negative."""
    if offset is None:
        return lowest
    wanted = end + offset if offset < 0 else offset
    if not lowest <= wanted < end and offset >= 0:
        output.say(f"note: {what} holds {lowest} to {end - 1}" if end > lowest else f"note: {what} is empty")
    return max(wanted, lowest)


TRANSACTIONS = {
    formats.TRANSACTION_PREPARED: "prepared",
    formats.TRANSACTION_COMMIT: "commit",
    formats.TRANSACTION_ROLLBACK: "rollback",
}

# --- records --------------------------------------------------------------------------------------


def record_cells(record: Record, body_bytes: int | None, bodies: Bodies = AS_STORED) -> list[str]:
    """Return the cells of a record's line after its offset."""
    named = props.decode_properties(record.properties)
    keys = b" ".join([named[name] for name in (props.UNIQUE_KEY, props.KEYS) if name in named])
    cells = [
        time_text(record.store_timestamp),
        f"{line(shown_text(record.topic))}/{record.queue_id}",
        str(record.queue_offset),
        str(record.size),
        line(shown_text(named.get(props.TAGS, b"-"))),
        line(shown_text(keys or b"-")),
    ]
    if body_bytes is not None:
        shown = bodies.of(record)
        if shown.error is not None:
            return [*cells, f"error:{line(shown.error)}"]
        body = body_values(shown.body, body_bytes)
        cut = f"... ({len(shown.body)} bytes)" if body["body_truncated"] else ""
        cells.append(f"{body['body_encoding']}:{line(body['body'])}{cut}")
    return cells


def record_values(record: Record, body_bytes: int | None = None, bodies: Bodies = AS_STORED) -> dict[str, Any]:
    """Return a record for JSON; times in ms, and texts with replacements for bytes that are no UTF-8.

    The further member `body_error` says what is wrong with a body. One that cannot be decompressed is null.
    """
    shown = bodies.of(record)
    named = props.text_properties(record.properties)
    compressed = bool(record.sys_flag & formats.FLAG_COMPRESSED)
    return {
        "physical_offset": record.physical_offset,
        "size": record.size,
        "version": 2 if record.magic == formats.MAGIC_V2 else 1,
        "topic": shown_text(record.topic),
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "store_timestamp": record.store_timestamp,
        "born_timestamp": record.born_timestamp,
        "store_host": str(record.store_host),
        "born_host": str(record.born_host),
        "message_id": record.message_id,
        "unique_key": named.get(UNIQUE_KEY),
        "tags": named.get(TAGS),
        "keys": keys_of(named.get(KEYS, "")),
        "flag": record.flag,
        "sys_flag": shown.sys_flag,
        "transaction": TRANSACTIONS.get(record.sys_flag & formats.TRANSACTION_MASK),
        "compression": formats.COMPRESSION_NAMES.get(record.sys_flag & formats.COMPRESSION_MASK)
        if compressed
        else None,
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "body_crc": record.body_crc,
        "properties": named,
        **_shown_body_values(shown, body_bytes),
    }


def _shown_body_values(shown: ShownBody, body_bytes: int | None) -> dict[str, Any]:
    """Return the members of a body, and what is wrong with it."""
    if shown.error is None:
        values = body_values(shown.body, body_bytes)
        return {**values, "body_error": WRONG_CRC} if shown.is_damaged else values
    error = f"{WRONG_CRC}: {shown.error}" if shown.is_damaged else shown.error
    return {"body": None, "body_encoding": None, "body_length": None, "body_truncated": False, "body_error": error}


def body_values(body: bytes, body_bytes: int | None = None) -> dict[str, Any]:
    """Return a body as text if it is UTF-8, otherwise as base64. `body_bytes` cuts it, between characters of text."""
    kept = body if body_bytes is None else body[:body_bytes]
    try:
        whole = body.decode()
        encoding, shown = "text", whole if kept is body else kept.decode("utf-8", "ignore")
    except UnicodeDecodeError:
        encoding, shown = "base64", base64.b64encode(kept).decode()
    return {
        "body": shown,
        "body_encoding": encoding,
        "body_length": len(body),
        "body_truncated": len(kept) < len(body),
    }


# --- text -----------------------------------------------------------------------------------------


def head(as_json: bool, names: Sequence[str]) -> None:
    """Show the names of the columns on a terminal. Output for programs has only the lines."""
    if not as_json and sys.stdout.isatty():
        output.show("\t".join(names))


def line(text: str) -> str:
    """Return text without newlines and tabs, for a cell."""
    return text.replace("\n", "\\n").replace("\t", "\\t")
