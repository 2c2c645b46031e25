"""The filter of a subscription by tags.

Source: `DefaultMessageFilter.isMatchedByConsumeQueue`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reput.formats.config.tag_expression import ALL_TAGS, tags_of
from reput.formats.java.hashing import java_string_hash

NO_CODES: NDArray[np.int64] = np.empty(0, dtype=np.int64)
"""The codes of a filter that all messages pass."""


class TagFilter:
    """The tags of a subscription, as hashes: the ConsumeQueue holds only the hash of a tag.

    As in RocketMQ two tags of one hash count as the same tag. `codes`: int64, empty for all messages. `hashes` are the
    same as numbers.
    """

    __slots__ = ("codes", "expression", "hashes", "tags")
    steps: Final = 1
    most_entries: Final[int | None] = None

    def __init__(self, expression: str | None) -> None:
        self.expression = expression or ALL_TAGS
        self.tags = tags_of(self.expression)
        self.hashes = frozenset(map(java_string_hash, self.tags))
        self.codes = np.array(sorted(self.hashes), dtype=np.int64) if self.hashes else NO_CODES

    @property
    def key(self) -> Hashable:
        """Filters of one key pass the same messages."""
        return self.hashes


ALL_MESSAGES = TagFilter(None)
