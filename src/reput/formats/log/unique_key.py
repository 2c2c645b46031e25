"""The unique key (UNIQ_KEY) that a client gives each message: 16 bytes as upper-case hex.

Source: `org.apache.rocketmq.common.message.MessageClientIDSetter`.
"""

from __future__ import annotations

from reput.formats.layout import Field, Layout

UNIQUE_KEY = Layout(
    "Unique key of a message",
    "MessageClientIDSetter.createUniqID",
    [
        Field("address", "4s", "address of the maker"),
        Field("process", "H", "its process"),
        Field("maker_hash", "I", "number that differs from maker to maker"),
        Field("since_ms", "I", "ms since the first of the month"),
        Field("counter", "H", "number of the key"),
    ],
)
assert UNIQUE_KEY.size == 16


def encode_unique_key(address: bytes, process: int, maker_hash: int, since_ms: int, counter: int) -> str:
    """Return a unique key."""
    return UNIQUE_KEY.struct.pack(address, process, maker_hash, since_ms, counter).hex().upper()
