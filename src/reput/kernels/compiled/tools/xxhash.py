"""XXH64 of a stretch of memory; `reput.formats.database.xxhash` is the same in plain Python."""

from __future__ import annotations

import numpy as np

from reput.formats.database import xxhash as fmt
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import byte_at, load_le32, load_le64

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime) for prime in (fmt.PRIME_1, fmt.PRIME_2, fmt.PRIME_3, fmt.PRIME_4, fmt.PRIME_5)
)
_LANE_1, _LANE_4 = (np.uint64(value & (1 << 64) - 1) for value in (fmt.PRIME_1 + fmt.PRIME_2, -fmt.PRIME_1))
_STRIPE = fmt.STRIPE


@kernel
def _rotated(value, by):
    return value << np.uint64(by) | value >> np.uint64(64 - by)


@kernel
def _round(lane, word):
    return _rotated(lane + word * _PRIME_2, 31) * _PRIME_1


@kernel
def xxhash64(begin, end):
    """Return the hash (uint64) of the bytes in [begin, end), with seed 0."""
    at = begin
    if begin + _STRIPE <= end:
        one, two, three, four = _LANE_1, _PRIME_2, np.uint64(0), _LANE_4
        while at + _STRIPE <= end:
            one = _round(one, load_le64(at))
            two = _round(two, load_le64(at + 8))
            three = _round(three, load_le64(at + 16))
            four = _round(four, load_le64(at + 24))
            at += _STRIPE
        value = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
        for lane in (one, two, three, four):
            value = (value ^ _round(np.uint64(0), lane)) * _PRIME_1 + _PRIME_4
    else:
        value = _PRIME_5
    value += np.uint64(end - begin)
    while at + 8 <= end:
        value = _rotated(value ^ _round(np.uint64(0), load_le64(at)), 27) * _PRIME_1 + _PRIME_4
        at += 8
    if at + 4 <= end:
        value = _rotated(value ^ load_le32(at) * _PRIME_1, 23) * _PRIME_2 + _PRIME_3
        at += 4
    while at < end:
        value = _rotated(value ^ np.uint64(byte_at(at)) * _PRIME_5, 11) * _PRIME_1
        at += 1
    value = (value ^ value >> np.uint64(33)) * _PRIME_2
    value = (value ^ value >> np.uint64(29)) * _PRIME_3
    return value ^ value >> np.uint64(32)
