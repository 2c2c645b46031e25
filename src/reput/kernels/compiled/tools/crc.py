"""CRC-32 (the polynomial of zlib) of a stretch of memory.

Where the processor multiplies without carries, all stretches of 16 bytes of a short body are folded into the last at
the same time (`reput.kernels.compiled.tools.fold`); elsewhere eight bytes a step go through tables.
"""

from __future__ import annotations

import numpy as np

from reput.kernels.compiled.tools.fold import (
    CAN_FOLD,
    MOST_STEPS,
    SIZE,
    add_moved,
    last_bytes,
    load_16,
    register_after,
    with_register,
)
from reput.kernels.compiled.tools.jit import BYTES, entry_kernel, kernel
from reput.kernels.compiled.tools.memory import address_of, byte_at, load_le32, load_le64

_BYTE = np.uint64(0xFF)
_LOW_32 = np.uint64(0xFFFFFFFF)
_FOLD_FROM = 16
"""Below this many bytes there are only the tables."""


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


@kernel
def _eight(crc, word):
    """Return the CRC register after eight more bytes, given as a little-endian word."""
    word ^= crc
    return np.uint64(
        _TABLE[7, word & _BYTE]
        ^ _TABLE[6, word >> np.uint64(8) & _BYTE]
        ^ _TABLE[5, word >> np.uint64(16) & _BYTE]
        ^ _TABLE[4, word >> np.uint64(24) & _BYTE]
        ^ _TABLE[3, word >> np.uint64(32) & _BYTE]
        ^ _TABLE[2, word >> np.uint64(40) & _BYTE]
        ^ _TABLE[1, word >> np.uint64(48) & _BYTE]
        ^ _TABLE[0, word >> np.uint64(56)]
    )


@kernel
def _rest(crc, at, end):
    """Return the CRC register after the bytes in [at, end)."""
    while at + 8 <= end:
        crc = _eight(crc, load_le64(at))
        at += 8
    if at + 4 <= end:
        word = load_le32(at) ^ crc
        crc = np.uint64(
            _TABLE[3, word & _BYTE]
            ^ _TABLE[2, word >> np.uint64(8) & _BYTE]
            ^ _TABLE[1, word >> np.uint64(16) & _BYTE]
            ^ _TABLE[0, word >> np.uint64(24) & _BYTE]
        )
        at += 4
    while at < end:
        crc = np.uint64(_TABLE[0, (crc ^ np.uint64(byte_at(at))) & _BYTE]) ^ crc >> np.uint64(8)
        at += 1
    return crc


if CAN_FOLD:

    @kernel
    def _folded(begin, end):
        """Return the CRC register after the bytes in [begin, end), at least 16, from a register of ones."""
        # The odd bytes come first, after zeros, which do not count while the register is 0.
        count = (end - begin - 1 & SIZE - 1) + 1
        last, at = last_bytes(with_register(load_16(begin), _LOW_32), count), begin + count
        if at == end:
            return register_after(last)
        # The register's first value is added to four bytes; some of them may be here.
        following = with_register(load_16(at), _LOW_32 >> np.uint64(8 * min(count, 4)))
        last, at = add_moved(following, last, 1), at + SIZE
        while end - at > MOST_STEPS * SIZE:
            last = add_moved(load_16(at + 3 * SIZE), last, 4)
            last = add_moved(last, load_16(at), 3)
            last = add_moved(last, load_16(at + SIZE), 2)
            last = add_moved(last, load_16(at + 2 * SIZE), 1)
            at += 4 * SIZE
        # All of them move to the end at the same time; none waits for the one before.
        total = last
        steps = end - at >> 4
        if steps > 0:
            total = add_moved(load_16(end - SIZE), last, steps)
            while steps > 1:
                steps -= 1
                total = add_moved(total, load_16(at), steps)
                at += SIZE
        return register_after(total)

    @kernel
    def crc32_at(begin, end):
        """CRC-32 of the bytes in [begin, end), the sign bit cleared as the peer stores it."""
        register = _folded(begin, end) if end - begin >= _FOLD_FROM else _rest(_LOW_32, begin, end)
        return np.int64(~register & np.uint64(0x7FFFFFFF))

else:

    @kernel
    def crc32_at(begin, end):
        """CRC-32 of the bytes in [begin, end), the sign bit cleared as the peer stores it."""
        return np.int64(~_rest(_LOW_32, begin, end) & np.uint64(0x7FFFFFFF))


@kernel
def crc32(buffer, begin, end):
    """CRC-32 of `buffer[begin:end]`, the sign bit cleared; the twin of `reput.formats.log.record.crc32`."""
    address = address_of(buffer)
    return crc32_at(address + begin, address + end)


@entry_kernel(BYTES)
def body_crc(body):
    """Return the CRC-32 of a body (Python's bytes), as a record holds it."""
    at = address_of(body)
    return crc32_at(at, at + len(body))
