"""Subscriptions by tag: `*`, or `paid || sent`.

Source: `FilterAPI.buildSubscriptionData`, `DefaultMessageFilter.isMatchedByConsumeQueue`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reput.formats.java.hashing import java_string_hash

_EVERYTHING = "*"
_SEPARATOR = "||"
NO_CODES: NDArray[np.int64] = np.empty(0, dtype=np.int64)
"""The codes of a filter that all messages pass."""


class TagFilter:
    """The tags of a subscription, as hashes: the ConsumeQueue holds only the hash of a tag.

    As in RocketMQ two tags of one hash count as the same tag. `codes`: int64, empty for all messages.
    """

    __slots__ = ("codes", "expression", "tags")

    def __init__(self, expression: str | None) -> None:
        self.expression = expression or _EVERYTHING
        pieces = [piece.strip() for piece in self.expression.split(_SEPARATOR)]
        self.tags = () if self.expression.strip() == _EVERYTHING else tuple(piece for piece in pieces if piece)
        codes = sorted({java_string_hash(tag) for tag in self.tags})
        self.codes = np.array(codes, dtype=np.int64) if codes else NO_CODES


EVERYTHING = TagFilter(None)
