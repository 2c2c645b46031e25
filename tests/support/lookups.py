"""The vectors of look-ups, as the kernels take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.java.hashing import java_string_hash_utf8
from reput.formats.layout import WORD_SIZE
from reput.kernels.layouts.lookup import KEY_TOPIC_LAYOUT
from reput.kernels.layouts.vectors import address_of, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_BOUNDS = {"most_messages": 1 << 40, "most_bytes": 1 << 40, "stop_bytes": 1 << 40}
"""The fields of a queue's vector whose pulls are bounded by their questions alone."""


def topic_vector(name: bytes, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """A topic, with the vector of its IndexFiles."""
    padded = np.frombuffer(name + bytes(-len(name) % WORD_SIZE), dtype=np.int64)
    topic_hash = java_string_hash_utf8(name + b"#")
    words = words_of(KEY_TOPIC_LAYOUT, index_at=address_of(index), hash=topic_hash, size=len(name))
    return np.array([*words, *padded], dtype=np.int64)
