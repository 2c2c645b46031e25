"""The arguments of the filters' kernels by name: texts of many messages, lists of texts, and tests of numbers.

The arrays belong together: each class says which place of one goes with which place of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.java.hashing import java_string


class Read(IntEnum):
    """The outcome of reading a text as a number: a number, no number, or a text that only slower code can read."""

    GOOD = 0
    BAD = 1
    ASK = 2


class Code(IntEnum):
    """The answer of a filter, or of a part of it, about a message.

    LEFT is not an answer: a kernel leaves the text to slower code.
    """

    FALSE = 0
    TRUE = 1
    UNKNOWN = 2
    NO_ANSWER = 3
    LEFT = 4


class Texts(NamedTuple):
    """A property of many messages: UTF-8 in `data` (uint8), `size` (int32) bytes from `at` (int64) on, -1: none.

    `word` (uint64) is the first eight bytes of each as a little-endian number, with zeros after its end: most
    comparisons need not read `data` again. The kernel `first_bytes` fills it.
    """

    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    size: NDArray[np.int32]
    word: NDArray[np.uint64]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Return which messages have no such property."""
        return self.size < 0

    def text(self, row: int) -> str | None:
        """Return the text of one message, as Java decodes it."""
        size = int(self.size[row])
        return None if size < 0 else java_string(self.data[int(self.at[row]) : int(self.at[row]) + size].tobytes())


class TextList(NamedTuple):
    """Texts that are looked for: end to end in `data` (uint8), with the end of each in `ends` (int32)."""

    data: NDArray[np.uint8]
    ends: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> TextList:
        """Return the list of these texts."""
        ends = np.cumsum([len(text) for text in texts], dtype=np.int32)
        return cls(np.frombuffer(b"".join(texts), dtype=np.uint8), ends)


class PropertyPlaces(NamedTuple):
    """The places of messages' properties in `data` (uint8).

    With `in_records` a message's record is at `at` (int64), and a bad record has no properties. Otherwise its
    properties are there, and have `size` (int32) bytes; -1: none.
    """

    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    size: NDArray[np.int32]
    in_records: bool


class FoundTexts(NamedTuple):
    """Texts of several names: place `[k, n]` of each array is that of name k in message n, as `Texts` has it."""

    at: NDArray[np.int64]
    size: NDArray[np.int32]
    word: NDArray[np.uint64]

    @classmethod
    def empty(cls, names: int, messages: int) -> FoundTexts:
        """Return arrays for a number of names and of messages."""
        shape = names, messages
        return cls(np.empty(shape, np.int64), np.empty(shape, np.int32), np.empty(shape, np.uint64))

    def of_name(self, number: int, data: NDArray[np.uint8]) -> Texts:
        """Return the texts of one name, which are in `data`."""
        return Texts(data, self.at[number], self.size[number], self.word[number])


class NumberTest(NamedTuple):
    """A test of texts, each read as a number, against a number.

    `key` is the number; for doubles, the whole number that `double_order` makes of it. A whole number must be in
    [low, high]; doubles have no bounds. `holds` has the orders that are true (bits: 1 less, 2 equal, 4 greater).
    `missing` is the code for no text.
    """

    key: int
    holds: int
    missing: int
    low: int = 0
    high: int = 0
