"""The messages of RMQ_SYS_TRANS_OP_HALF_TOPIC: which half messages of transactions have ended.

Tag `d`; the body is queue offsets in the half topic as text, each followed by a comma. Older versions write one offset
without a comma.

Source: `TransactionalMessageUtil`, `TransactionalMessageServiceImpl.fillOpRemoveMap`.
"""

from __future__ import annotations

from collections.abc import Iterable

from reput.formats.layout import INT64_MAX

REMOVE_TAG = "d"
_SEPARATOR = b","


def ended_offsets(body: bytes) -> list[int]:
    """Return the queue offsets in a body; what is no number is left out, as the broker does."""
    return [
        offset
        for piece in body.split(_SEPARATOR)
        if piece.isdigit() and len(piece) < 20 and (offset := int(piece)) <= INT64_MAX
    ]


def encode_ended_offsets(offsets: Iterable[int]) -> bytes:
    """Return the body for some queue offsets."""
    return b"".join(b"%d," % offset for offset in offsets)
