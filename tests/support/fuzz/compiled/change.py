"""The changes to an input, compiled: flipped bits, lengths that lie, stretches that move, and lengths mended again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_BYTES = 2048
"""The most bytes of an input."""

_BYTES = np.frombuffer(b"\x00\x01\x02\x20,%/.-0129\x7f\x80\xbf\xc3\xed\xf0\xff", dtype=np.uint8)
_LENGTHS = np.array(
    (0, 1, 2, 0x5A, 0x5B, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF), dtype=np.int64
)
_LONGEST_STRETCH = 40


class Pool(NamedTuple):
    """The inputs that changes begin with: their bytes one after the other, and where each begins."""

    data: NDArray[np.uint8]
    begin: NDArray[np.int64]

    @classmethod
    def of(cls, inputs: Sequence[bytes]) -> Pool:
        """Put inputs together."""
        begin = np.cumsum([0, *map(len, inputs)]).astype(np.int64)
        return cls(np.frombuffer(b"".join(inputs), dtype=np.uint8), begin)


@numba.njit
def draw(chance: Any, below: int) -> int:
    """Return a random number from 0 on, and step the generator (xorshift64*) whose state is `chance[0]`."""
    x = chance[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    chance[0] = x
    return np.int64(x * np.uint64(2685821657736338717) >> np.uint64(33)) % below


@numba.njit
def put_be(data: Any, at: int, size: int, value: int) -> None:
    """Write a big-endian number."""
    for n in range(size):
        data[at + n] = value >> (8 * (size - 1 - n)) & 0xFF


@numba.njit
def take(pool: Pool, chance: Any, data: Any, size: int) -> int:
    """Append an input of the pool to the `size` bytes of `data` if there is space; return the new size."""
    one = draw(chance, len(pool.begin) - 1)
    begin, length = pool.begin[one], pool.begin[one + 1] - pool.begin[one]
    if size + length > MOST_BYTES:
        return size
    data[size : size + length] = pool.data[begin : begin + length]
    return size + length


@numba.njit
def _move(data: Any, size: int, begin: int, to: int, count: int) -> None:
    """Move bytes within `data`, which may overlap."""
    count = min(count, size - begin)
    if to < begin:
        for n in range(count):
            data[to + n] = data[begin + n]
    else:
        for n in range(count - 1, -1, -1):
            data[to + n] = data[begin + n]


@numba.njit
def change(data: Any, size: int, chance: Any) -> int:
    """Make one change to the `size` bytes of `data`; return the new size."""
    if size < 8:
        return size
    how, at = draw(chance, 9), draw(chance, size)
    count = 1 + draw(chance, _LONGEST_STRETCH)
    if how == 0:
        data[at] ^= 1 << draw(chance, 8)
    elif how == 1:
        data[at] = draw(chance, 256)
    elif 2 <= how <= 3:
        data[at] = _BYTES[draw(chance, len(_BYTES))]
    elif how == 4:
        put_be(data, min(at, size - 4), 4, _LENGTHS[draw(chance, len(_LENGTHS))] + draw(chance, 3) - 1)
    elif how == 5:
        put_be(data, min(at, size - 2), 2, _LENGTHS[draw(chance, len(_LENGTHS))] + draw(chance, 3) - 1)
    elif how == 6:
        # A stretch is gone.
        count = min(count, size - at)
        _move(data, size, at + count, at, size - at - count)
        size -= count
    elif how == 7 and size + count <= MOST_BYTES:
        # A stretch is there twice.
        count = min(count, size - at)
        _move(data, size, at, at + count, size - at)
        size += count
    elif how == 8:
        to = draw(chance, size)
        _move(data, size, at, to, min(count, size - max(at, to)))
    return size
