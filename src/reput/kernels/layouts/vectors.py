"""Vectors of int64 words that kernels are called with, filled by name, and the addresses of arrays.

A layout (`reput.formats.layout`) gives each word its name, so no kernel and no caller counts words by hand.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reput.formats.layout import Layout

_first_byte: Any = c_char.from_buffer


def words_of(layout: Layout, **words: int) -> list[int]:
    """Return the words of a vector, which are given by name.

    Raises:
        KeyError: a word is missing.
        ValueError: not every word is given, or a field of the layout takes more than one.
    """
    if len(words) != layout.word_count:
        raise ValueError(f"{layout.title}: {len(words)} words are given, {layout.word_count} are needed")
    return [words[name] for name in layout.offsets]


def vector_of(layout: Layout, **words: int) -> NDArray[np.int64]:
    """Return a vector for a kernel; see `words_of`."""
    return np.array(words_of(layout, **words), dtype=np.int64)


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's first element; keep the array as long as the address is in use."""
    try:
        # numpy's own ways take five times as long.
        return addressof(_first_byte(array))
    except (TypeError, ValueError):
        # No bytes, or bytes that cannot be written.
        return int(array.__array_interface__["data"][0])
