"""CRC-32 (the polynomial of zlib) of a stretch of a buffer, eight bytes a step."""

from __future__ import annotations

import numpy as np
from numba import njit

from reput.kernels.compiled.memory import load_le64


def _tables() -> np.ndarray:
    table = np.zeros((8, 256), dtype=np.uint32)
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        table[0, value] = crc
    for row in range(1, 8):
        previous = table[row - 1]
        table[row] = previous >> 8 ^ table[0][previous & 0xFF]
    return table


_TABLE = _tables()


@njit(cache=True, nogil=True)
def crc32(buffer, begin, end):
    """CRC-32 of `buffer[begin:end]`, the sign bit cleared as the peer stores it."""
    crc = np.uint32(0xFFFFFFFF)
    position = begin
    while position + 8 <= end:
        word = load_le64(buffer, position) ^ np.uint64(crc)
        crc = (
            _TABLE[7, word & np.uint64(0xFF)]
            ^ _TABLE[6, word >> np.uint64(8) & np.uint64(0xFF)]
            ^ _TABLE[5, word >> np.uint64(16) & np.uint64(0xFF)]
            ^ _TABLE[4, word >> np.uint64(24) & np.uint64(0xFF)]
            ^ _TABLE[3, word >> np.uint64(32) & np.uint64(0xFF)]
            ^ _TABLE[2, word >> np.uint64(40) & np.uint64(0xFF)]
            ^ _TABLE[1, word >> np.uint64(48) & np.uint64(0xFF)]
            ^ _TABLE[0, word >> np.uint64(56)]
        )
        position += 8
    while position < end:
        crc = _TABLE[0, (crc ^ np.uint32(buffer[position])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        position += 1
    return np.int64(~crc & np.uint32(0x7FFFFFFF))
