"""A subscription by tags as text: `*` for all messages, or `paid || sent`.

Source: `FilterAPI.buildSubscriptionData`, `SubscriptionData.SUB_ALL`.
"""

from __future__ import annotations

ALL_TAGS = "*"
_SEPARATOR = "||"


def tags_of(expression: str) -> tuple[str, ...]:
    """Return the tags that a subscription names; empty for all messages."""
    tags = tuple(piece.strip() for piece in expression.split(_SEPARATOR))
    return () if tags == (ALL_TAGS,) else tuple(tag for tag in tags if tag)
