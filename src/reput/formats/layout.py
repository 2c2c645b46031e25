"""A fixed layout, written down once: a list of fields gives the struct, the offsets and the table in the docs."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

WORD_SIZE = 8

INT32_MAX = (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
"""The lowest and the highest number that a field of 8 bytes holds."""
NO_LIMIT = (1 << 62) - 1
"""A number above every offset and size, for no end or no limit; an offset added to it fits a field of 8 bytes."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, its `struct` code (`i` 4 bytes, `q` 8 bytes, `32s` bytes ...) and its meaning."""

    name: str
    code: str
    meaning: str

    @classmethod
    def nested(cls, name: str, layout: Layout, meaning: str) -> Field:
        """A field that holds another layout."""
        return cls(name, f"{layout.size}s", meaning)


def numbers_at(array: NDArray[np.uint8], places: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Return the numbers (int64) of a dtype that begin at these places in an array of bytes (uint8)."""
    import numpy as np

    found: NDArray[np.int64] = array[places[:, None] + np.arange(dtype.itemsize)].view(dtype).ravel().astype(np.int64)
    return found


class Layout:
    """A fixed layout of fields without padding.

    `byte_order` is `>` (big-endian) for RocketMQ's files, `<` for our own mapped file, and `=` (native) for the records
    that kernels are called with.
    """

    def __init__(self, title: str, source: str, fields: Iterable[Field], byte_order: str = ">") -> None:
        self.title = title
        self.source = source
        self.fields = tuple(fields)
        self.byte_order = byte_order
        self.struct = struct.Struct(byte_order + "".join(field.code for field in self.fields))
        self.size = self.struct.size

    @cached_property
    def offsets(self) -> dict[str, int]:
        """The offset of each field in bytes, computed from the fields before it."""
        offsets, position = {}, 0
        for name, size in self.sizes.items():
            offsets[name] = position
            position += size
        return offsets

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The bytes of each field."""
        return {field.name: struct.calcsize(self.byte_order + field.code) for field in self.fields}

    def struct_of(self, name: str) -> struct.Struct:
        """Return the struct of one field, to read or write it alone at its offset."""
        return struct.Struct(self.byte_order + next(field.code for field in self.fields if field.name == name))

    def taken(self, array: NDArray[np.uint8], places: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        """Return one field (int64) of each layout that begins at one of these places in an array of bytes (uint8)."""
        return numbers_at(array, places + self.offsets[name], self.dtype[name])

    def codes(self, since: str = "", before: str = "") -> str:
        """Return the `struct` codes of the fields from `since` on and before `before`, without a byte order."""
        names = list(self.offsets)
        begin = names.index(since) if since else 0
        end = names.index(before) if before else len(names)
        return "".join(field.code for field in self.fields[begin:end])

    @cached_property
    def words(self) -> Any:
        """The number of each field's first 8-byte word, as attributes of a named tuple: kernels compile it in.

        Raises:
            ValueError: a field does not begin at a word.
        """
        if any(offset % WORD_SIZE for offset in self.offsets.values()):
            raise ValueError(f"{self.title}: each field must take whole words of {WORD_SIZE} bytes")
        words: Any = namedtuple("Words", list(self.offsets))  # type: ignore[misc]  # noqa: PYI024 - the layout's names
        return words(*(offset // WORD_SIZE for offset in self.offsets.values()))

    @property
    def word_count(self) -> int:
        """Words of 8 bytes that the layout takes."""
        return self.size // WORD_SIZE

    @cached_property
    def dtype(self) -> Any:
        """The same layout as a numpy structured dtype, for tests and small readers (kernels take `uint8`)."""
        import numpy as np

        def one(code: str) -> str:
            kind = {"i": "i4", "q": "i8", "h": "i2", "b": "i1", "B": "u1", "H": "u2", "I": "u4"}.get(code)
            return self.byte_order + kind if kind else "S" + code[:-1]

        return np.dtype([(field.name, one(field.code)) for field in self.fields])

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return offset, size, name and meaning of each field, as text for the documentation."""
        return [
            (
                str(self.offsets[field.name]),
                str(self.sizes[field.name]),
                field.name,
                field.meaning,
            )
            for field in self.fields
        ]
