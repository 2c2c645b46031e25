"""Java's String.hashCode of stored bytes: ours against the JVM's, malformed UTF-8 included."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reput.formats.java.hashing import java_string_hash_utf8
from support.hashes import java_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

pytestmark = pytest.mark.peer

# The bytes at which a UTF-8 decoder changes its mind.
EDGES = bytes.fromhex("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 fc fe ff")
CODE_POINTS_MAX = (0x7F, 0x7FF, 0xD7FF, 0xFFFF, 0x10FFFF)


def every_short_string() -> Iterator[bytes]:
    """Nothing, every byte, and every pair and triple of the bytes that matter."""
    yield b""
    yield from (bytes([first]) for first in range(256))
    yield from (bytes([first, second]) for first in EDGES for second in EDGES)
    yield from (bytes([first, second, third]) for first in EDGES for second in EDGES for third in EDGES)


def text(chance: random.Random) -> bytes:
    """Valid UTF-8 of any length class, from ASCII to astral planes."""
    most = chance.choice(CODE_POINTS_MAX)
    points = (chance.randint(0, most) for _ in range(chance.randint(0, 40)))
    return "".join(chr(point) for point in points if not 0xD800 <= point <= 0xDFFF).encode()


def broken_text(chance: random.Random) -> bytes:
    """Valid UTF-8 with bytes changed, lost and cut off."""
    data = bytearray(text(chance) + "€𝄞".encode())
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data))
        data[place : place + chance.randint(0, 2)] = bytes(chance.choices(EDGES, k=chance.randint(0, 2)))
        if not data:
            break
    return bytes(data[: chance.randint(0, len(data))])


def noise(chance: random.Random) -> bytes:
    """Any bytes at all, those that matter to a decoder more often."""
    pool = EDGES if chance.random() < 0.7 else bytes(range(256))
    return bytes(chance.choices(pool, k=chance.randint(0, 24)))


def samples() -> list[bytes]:
    """Some 30,000 strings, the same in every run."""
    chance = random.Random(20)
    makers: tuple[Callable[[random.Random], bytes], ...] = (text, broken_text, noise)
    return [*every_short_string(), *(make(chance) for make in makers for _ in range(2000))]


@pytest.fixture(scope="module")
def hashed(peer: ModuleType) -> list[tuple[bytes, int]]:
    """The samples, each with the hash code that the JVM gives it."""
    strings = samples()
    return list(zip(strings, peer.hash_codes(strings), strict=True))


def test_specification_hashes_as_java_does(hashed: list[tuple[bytes, int]]) -> None:
    """The plain-Python hash of any bytes is the JVM's."""
    wrong = [(data.hex(), code) for data, code in hashed if java_string_hash_utf8(data) != code]

    assert wrong == []


def test_kernel_hashes_as_java_does(hashed: list[tuple[bytes, int]]) -> None:
    """The compiled hash of any bytes is the JVM's, at any place in a buffer."""
    buffer = np.frombuffer(b"".join(data for data, _ in hashed), dtype=np.uint8)
    ends = np.cumsum([len(data) for data, _ in hashed])
    wrong = [
        (data.hex(), code)
        for (data, code), end in zip(hashed, ends, strict=True)
        if java_hash(buffer, end - len(data), end, 0) != code
    ]

    assert wrong == []
