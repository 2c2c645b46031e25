"""Message properties: `name 0x01 value 0x02` repeated, UTF-8.

They are written with a final separator, and read with or without it. A piece without a name or a value of at least one
character is skipped. Of a repeated name the later value wins.

Source: `MessageDecoder.string2messageProperties`, `messageProperties2String`, `MessageConst`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, AnyStr

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_VALUE_SEPARATOR = 0x01
PROPERTY_SEPARATOR = 0x02
NAME_END, PROPERTY_END = bytes([NAME_VALUE_SEPARATOR]), bytes([PROPERTY_SEPARATOR])
"""The same as bytes: the first ends a name, the second a property."""
_NAME_TEXT_END, _TEXT_END = NAME_END.decode(), PROPERTY_END.decode()
MAX_PROPERTIES_SIZE = 32767

KEYS = b"KEYS"
TAGS = b"TAGS"
UNIQUE_KEY = b"UNIQ_KEY"
DELAY = b"DELAY"
WAIT = b"WAIT"
CRC32 = b"__CRC32#"
INNER_NUM = b"INNER_NUM"
INNER_BASE = b"INNER_BASE"
INNER_MULTI_DISPATCH = b"INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = b"INNER_MULTI_QUEUE_OFFSET"
REAL_TOPIC = b"REAL_TOPIC"
REAL_QUEUE_ID = b"REAL_QID"
TIMER_OUT_MS = b"TIMER_OUT_MS"
TIMER_DELETE_KEY = b"TIMER_DEL_UNIQKEY"
TIMER_ROLL_TIMES = b"TIMER_ROLL_TIMES"
PRODUCER_GROUP = b"PGROUP"
CHECK_TIMES = b"TRANSACTION_CHECK_TIMES"
PREPARED_QUEUE_OFFSET = b"TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_ID = b"__transactionId__"
TRANS_OFFSET = b"TRANS_OFFSET"
TIMER_ROLL_LABEL = b"TIMER_ROLL_LABEL"

KEY_SEPARATOR = b" "
QUEUE_SEPARATOR = b","
"""The separator between the names of INNER_MULTI_DISPATCH, and between their queue offsets."""


def decode_properties(data: bytes) -> dict[bytes, bytes]:
    """Return the properties as raw UTF-8 names and values, in the order of first appearance."""
    return _pairs(data, PROPERTY_END, NAME_END)


def _pairs(data: AnyStr, property_end: AnyStr, name_end: AnyStr) -> dict[AnyStr, AnyStr]:
    properties: dict[AnyStr, AnyStr] = {}
    for piece in data.split(property_end):
        name, _, value = piece.partition(name_end)
        if name and value:
            properties[name] = value
    return properties


def encode_properties(properties: Mapping[bytes, bytes]) -> bytes:
    """Return the bytes of `properties`.

    Raises:
        ValueError: a name or value is empty or holds a separator, so no reader could return it.
    """
    for name, value in properties.items():
        for part in (name, value):
            if not part or NAME_END in part or PROPERTY_END in part:
                raise ValueError(f"property {name!r}: names and values must be non-empty and free of 0x01 and 0x02")
    return b"".join(name + NAME_END + value + PROPERTY_END for name, value in properties.items())


def keys_of(value: AnyStr) -> list[AnyStr]:
    """Return the keys that the value of KEYS holds, in their order."""
    if isinstance(value, str):
        return [key for key in value.split(KEY_SEPARATOR.decode()) if key]
    return [key for key in value.split(KEY_SEPARATOR) if key]


def properties_text(properties: Mapping[str, str]) -> str:
    """Return properties as the text that the header of a send has, with a final separator.

    Names and values must be non-empty and free of separators.
    """
    return "".join(f"{name}{_NAME_TEXT_END}{value}{_TEXT_END}" for name, value in properties.items())


def with_further(text: str, further: str) -> str:
    """Return the text of properties with that of further ones after it."""
    return f"{text}{further}" if not text or text[-1] == _TEXT_END else f"{text}{_TEXT_END}{further}"


def text_properties(data: bytes) -> dict[str, str]:
    """Return the properties as text for people, with undecodable bytes replaced."""
    try:
        return _pairs(data.decode(), _TEXT_END, _NAME_TEXT_END)
    except UnicodeDecodeError:
        # Names that differ in such bytes alone become one; it has the value of the last of them to appear.
        return {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for name, value in decode_properties(data).items()
        }
