"""A part: the file that one stage of a job leaves for the next, as columns of numbers or of entries.

A header, then one descriptor for each column, then the columns in that order, each padded to a multiple of 8 bytes.
They are in the machine's byte order. A part belongs to one job and is in its staging folder, below `parts/`.

The checksum covers header and descriptors. The columns have none: reading them twice would slow every stage down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from reput.formats.layout import Field, Layout

PART_MAGIC = 0x7472707475706572
VERSION = 1
_ALIGNED = 8

PART_HEADER = Layout(
    "header of a part",
    "reput; a file between two stages of a job, in `staging-EPOCH/parts`",
    [
        Field("magic", "q", "0x7472707475706572 ('reputprt')"),
        Field("version", "i", "1"),
        Field("crc", "I", "CRC-32 of header and descriptors, with 0 in this field"),
        Field("kind", "16s", "what the part holds: ranges, entries, items ..."),
        Field("size", "q", "bytes of the file"),
    ],
    byte_order="<",
)
PART_COLUMN = Layout(
    "descriptor of a column",
    "reput; the header's `kind` says how many there are",
    [
        Field("name", "16s", "the column"),
        Field("dtype", "8s", "i4, i8: an integer of 4 or 8 bytes; u1: a byte; V20: 20 bytes that belong together ..."),
        Field("count", "q", "how many values it has"),
    ],
    byte_order="<",
)
LAYOUTS = (PART_HEADER, PART_COLUMN)


class ColumnPlace(NamedTuple):
    """The place of a column in its part: from byte `offset` on, `length` values of `dtype`."""

    offset: int
    length: int
    dtype: str

    @property
    def width(self) -> int:
        """Bytes of one value."""
        return int(self.dtype[1:])

    @property
    def end(self) -> int:
        """The offset after the column."""
        return self.offset + self.length * self.width


class PartKind(NamedTuple):
    """A kind of part: its name, its columns with one value a row, and columns of other lengths, each with its dtype."""

    name: str
    rows: Mapping[str, str]
    others: Mapping[str, str] = {}

    @property
    def dtypes(self) -> dict[str, str]:
        """All columns in their order, each with its dtype."""
        return {**self.rows, **self.others}

    @property
    def head_size(self) -> int:
        """Bytes of header and descriptors."""
        return PART_HEADER.size + PART_COLUMN.size * (len(self.rows) + len(self.others))

    def places(self, counts: Iterable[int]) -> dict[str, ColumnPlace]:
        """Return the places of the columns, given the number of values of each."""
        found, offset = {}, self.head_size
        for (name, dtype), count in zip(self.dtypes.items(), counts, strict=True):
            offset = aligned(offset)
            found[name] = ColumnPlace(offset, count, dtype)
            offset = found[name].end
        return found


def aligned(offset: int) -> int:
    """Return the next multiple of 8."""
    return -(-offset // _ALIGNED) * _ALIGNED


def encode_head(kind: PartKind, counts: Sequence[int]) -> bytes:
    """Return header and descriptors of a part whose columns have these numbers of values.

    Raises:
        ValueError: columns of rows differ in length.
    """
    if len({*counts[: len(kind.rows)]}) > 1:
        raise ValueError(f"{kind.name}: columns of {counts[: len(kind.rows)]} values, which have to be equally long")
    places = kind.places(counts)
    columns = b"".join(
        PART_COLUMN.struct.pack(name.encode(), place.dtype.encode(), place.length) for name, place in places.items()
    )
    fields = (kind.name.encode(), aligned(max(place.end for place in places.values())))
    crc = crc32(columns, crc32(PART_HEADER.struct.pack(PART_MAGIC, VERSION, 0, *fields)))
    return PART_HEADER.struct.pack(PART_MAGIC, VERSION, crc, *fields) + columns


def decode_head(kind: PartKind, head: bytes, size: int) -> dict[str, ColumnPlace]:
    """Return the places of the columns of a part; `head` are its first bytes, `size` is the length of the file.

    Raises:
        ValueError: it is no part of this kind, or not a whole one; the text says at which byte.
    """
    if size < kind.head_size or len(head) < kind.head_size:
        raise ValueError(f"ends at byte {size}, a part of kind {kind.name} has {kind.head_size} or more")
    counts = [
        PART_COLUMN.struct.unpack_from(head, at)[2] for at in range(PART_HEADER.size, kind.head_size, PART_COLUMN.size)
    ]
    rows = counts[: len(kind.rows)]
    is_possible = all(0 <= count <= size for count in counts) and len({*rows}) <= 1
    if not is_possible or head[: kind.head_size] != encode_head(kind, counts):
        raise ValueError(f"byte 0 is not the head of a part of kind {kind.name}, version {VERSION}")
    length = PART_HEADER.struct.unpack_from(head)[4]
    if length != size:
        raise ValueError(f"ends at byte {size}, its header says {length}")
    return kind.places(counts)
