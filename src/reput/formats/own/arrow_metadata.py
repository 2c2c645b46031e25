"""The metadata of a batch in an Arrow stream, as far as a reader must know them before Arrow reads the batch.

They are a flatbuffer. Their first word has the place of the table Message, whose member 2 is the table
RecordBatch, whose member 3 is there if buffers are compressed:

| at | bytes | holds |
|---|---|---|
| a table | 4 | int32, how far before it its vtable begins |
| its vtable | 2 | uint16, the vtable's size in bytes |
| +4 + 2 * member | 2 | uint16, where the member is, counted from the table; 0 if it is not there |
| a member that is a table | 4 | uint32, where that table is, counted from the member |

Source: the Arrow columnar format, "Serialization and Interprocess Communication", and `Message.fbs`.
"""

from __future__ import annotations

import struct
from typing import Final

_HEADER: Final = 2
_COMPRESSION: Final = 3
_INT32, _UINT32, _UINT16 = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<H")


def is_compressed(metadata: memoryview) -> bool:
    """Return True if the metadata of a batch name a compression.

    Raises:
        ValueError: They are cut.
    """
    try:
        (table,) = _UINT32.unpack_from(metadata, 0)
        header = _member(metadata, table, _HEADER)
        if not header:
            return False
        (distance,) = _UINT32.unpack_from(metadata, header)
        return bool(_member(metadata, header + distance, _COMPRESSION))
    except struct.error as error:
        raise ValueError(f"the metadata of a batch are cut: {error}") from error


def _member(metadata: memoryview, table: int, number: int) -> int:
    """Return the place of a table's member, 0 if it is not there."""
    (before,) = _INT32.unpack_from(metadata, table)
    vtable = table - before
    if vtable < 0:
        raise ValueError("a table of the metadata lies before them")
    (size,) = _UINT16.unpack_from(metadata, vtable)
    at = _UINT16.size * (2 + number)
    if at >= size:
        return 0
    (place,) = _UINT16.unpack_from(metadata, vtable + at)
    return table + place if place else 0
