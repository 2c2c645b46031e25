"""MANIFEST of RocksDB: its changes from file to file, read only as far as to see a database that never held a table.

    CURRENT          the name of the MANIFEST and a line feed
    MANIFEST         blocks of 32 KiB with the records of a log; each record is one change

    record           content
    checksum         uint32, CRC-32C of kind and change, masked
    size             uint16, bytes of the change
    kind             uint8, 1 for a whole change; 2, 3 and 4 for the first, middle and last part of one
    change           tags (varint) with their values

All integers are little-endian. RocksDB itself judges every MANIFEST that this module does not know to be empty.

Source: RocksDB's `log::Writer`, `VersionEdit::EncodeTo`.
"""

from __future__ import annotations

import struct
from functools import cache

_RECORD = struct.Struct("<IHB")
assert _RECORD.size == 7
BLOCK_SIZE = 32 << 10
_WHOLE = 1
_BEGUN = frozenset({2, 3, 6, 7})
"""Kinds of parts after which another one must come; 6 and 7 are those of a file that is used again."""
_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78

_NUMBERS = frozenset({2, 3, 4, 9, 10, 200, 203})
"""Tags of one number: of the log, the next file, the last sequence, a column family, and the like."""
_TEXTS = frozenset({1, 201})
"""Tags of one text: the comparator, and the name of a new column family."""
_MAY_BE_IGNORED = 1 << 13
"""Tags with this bit have one text."""


def manifest_name(current: bytes) -> str:
    """Return the name that a file CURRENT gives; "" for anything else."""
    name = current.removesuffix(b"\n")
    is_name = name.startswith(b"MANIFEST-") and name[9:].isdigit() and current.endswith(b"\n")
    return name.decode("ascii") if is_name else ""


def never_had_a_table(manifest: bytes) -> bool:
    """Return True if a MANIFEST is whole and names no table; False for one that only RocksDB can judge.

    Zeros at its end do not count: RocksDB takes them for room that nobody has used.
    """
    at, end = 0, len(manifest.rstrip(b"\0"))
    while at < end:
        if len(manifest) - at < _RECORD.size or at + _RECORD.size > BLOCK_SIZE:
            return False
        checksum, size, kind = _RECORD.unpack_from(manifest, at)
        change = manifest[at + _RECORD.size : at + _RECORD.size + size]
        if kind != _WHOLE or len(change) != size or checksum != _masked(_crc32c(bytes([kind]) + change)):
            return False
        if not _has_known_tags_only(change):
            return False
        at += _RECORD.size + size
    return at > 0


def tail_offset(size: int) -> int:
    """Return the place of the last block of a MANIFEST of `size` bytes."""
    return max(0, size - 1) // BLOCK_SIZE * BLOCK_SIZE


def ends_within_a_change(tail: bytes) -> bool:
    """Return True if a MANIFEST ends in the middle of a change; `tail` is its last block.

    RocksDB then applies only the changes before it, and reports nothing (`log::Reader::ReadPhysicalRecord`).
    """
    at, kind = 0, _WHOLE
    while at + _RECORD.size <= len(tail):
        _, size, found = _RECORD.unpack_from(tail, at)
        if not size and not found:
            break
        kind = found
        at += _RECORD.size + size
    return at > len(tail) or any(tail[at:]) or kind in _BEGUN


def _has_known_tags_only(change: bytes) -> bool:
    """Return True if a change has none but tags of numbers and texts, so none of a table."""
    at = 0
    while at < len(change):
        tag, at = _varint(change, at)
        if tag in _NUMBERS:
            _, at = _varint(change, at)
        elif tag in _TEXTS or tag & _MAY_BE_IGNORED:
            size, at = _varint(change, at)
            at += size
        else:
            return False
    return at == len(change)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it; past the end of `data` if it is cut off."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
    return value, at + 1


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _crc32c(data: bytes) -> int:
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ table[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def _masked(crc: int) -> int:
    """Return a checksum as RocksDB stores it (`crc32c::Mask`)."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
