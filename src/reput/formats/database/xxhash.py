"""XXH64, the 64-bit hash of the xxHash family, in plain Python. RocksDB's tables have its low half as a checksum.

Source: the xxHash specification, "XXH64 algorithm description".
"""

from __future__ import annotations

import struct

PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
PRIME_3 = 0x165667B19E3779F9
PRIME_4 = 0x85EBCA77C2B2AE63
PRIME_5 = 0x27D4EB2F165667C5
STRIPE = 32
"""The bytes of one step, 8 for each of four lanes."""

_MASK = (1 << 64) - 1
_LANES = struct.Struct("<4Q")


def xxhash64(data: bytes) -> int:
    """Return the hash of some bytes, with seed 0."""
    whole = len(data) // STRIPE * STRIPE
    if whole:
        lanes = [PRIME_1 + PRIME_2 & _MASK, PRIME_2, 0, -PRIME_1 & _MASK]
        for at in range(0, whole, STRIPE):
            lanes = [_round(lane, word) for lane, word in zip(lanes, _LANES.unpack_from(data, at), strict=True)]
        value = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            value = (value ^ _round(0, lane)) * PRIME_1 + PRIME_4 & _MASK
    else:
        value = PRIME_5
    return _mixed(_with_rest(value + len(data) & _MASK, data[whole:]))


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * PRIME_2 & _MASK, 31) * PRIME_1 & _MASK


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK


def _with_rest(value: int, rest: bytes) -> int:
    """Add the bytes after the last whole stripe: by eight, by four, one by one."""
    at = 0
    while at + 8 <= len(rest):
        value = _rotated(value ^ _round(0, int.from_bytes(rest[at : at + 8], "little")), 27) * PRIME_1 + PRIME_4 & _MASK
        at += 8
    if at + 4 <= len(rest):
        value ^= int.from_bytes(rest[at : at + 4], "little") * PRIME_1 & _MASK
        value = _rotated(value, 23) * PRIME_2 + PRIME_3 & _MASK
        at += 4
    for byte in rest[at:]:
        value = _rotated(value ^ byte * PRIME_5 & _MASK, 11) * PRIME_1 & _MASK
    return value


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * PRIME_2 & _MASK
    value = (value ^ value >> 29) * PRIME_3 & _MASK
    return value ^ value >> 32
