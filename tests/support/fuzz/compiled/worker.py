"""One process of a run: it tries rounds of inputs, and keeps what it is at in a file that outlives it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from support.fuzz.compiled.change import MOST_BYTES
from support.fuzz.compiled.laws import Current
from support.fuzz.compiled.targets import TARGETS, Target, rooms

if TYPE_CHECKING:
    from collections.abc import Callable

ROUND = 1 << 15
"""The inputs of a round. After each round the last input is compared with the specification."""
_WORDS = 8


class Note(NamedTuple):
    """A file with the state of a worker: `words` are the round, inputs tried, size, base and check of the input.

    `ends` counts answers, `data` has the input.
    """

    words: Any
    data: Any
    ends: Any

    @classmethod
    def at(cls, path: Path, target: Target) -> Note:
        """Open or make it."""
        shape = target.ends().shape
        size = 8 * _WORDS + MOST_BYTES + 8 * int(np.prod(shape))
        if not path.exists():
            path.write_bytes(bytes(size))
        whole = np.memmap(path, dtype=np.uint8, mode="r+", shape=(size,))
        head, rest = 8 * _WORDS, 8 * _WORDS + MOST_BYTES
        plain = [np.asarray(part) for part in (whole[:head], whole[head:rest], whole[rest:])]
        return cls(plain[0].view(np.int64), plain[1], plain[2].view(np.int64).reshape(shape))

    @property
    def tried(self) -> int:
        """Inputs that were tried."""
        return int(self.words[1])

    @property
    def input(self) -> bytes:
        """The current input."""
        return self.data[: int(self.words[2])].tobytes()


def seed_of(seed: int, round_number: int) -> int:
    """Return the state that a round's generator begins with, never 0."""
    return int(np.random.SeedSequence([seed, round_number]).generate_state(1, np.uint64)[0]) | 1


def loop_of(target: Target, note: Note) -> tuple[Callable[[int], int], Current]:
    """Return the loop, which tries a number of inputs, and what it keeps of the one that it is at."""
    now = Current(np.zeros(1, dtype=np.uint64), note.words[2:3], note.words[3:5])
    return target.loop(target.pool(), rooms(note.data), now, note.ends), now


def run(target: Target, note: Note, seed: int, rounds: range) -> None:
    """Try rounds; raise AssertionError if an input breaks the law."""
    loop, now = loop_of(target, note)
    for number in rounds:
        note.words[0], now.chance[0] = number, seed_of(seed, number)
        kept = loop(ROUND)
        note.words[1] += kept
        assert kept == ROUND, "the answer depends on where the bytes are, or does not add up"
        target.compare(note.input, int(now.how[0]), int(now.how[1]))


def main() -> None:
    """Run one share: NAME NOTE SEED FIRST COUNT."""
    name, path, seed, first, count = sys.argv[1:]
    (target,) = (one for one in TARGETS if one.name == name)
    run(target, Note.at(Path(path), target), int(seed), range(int(first), int(first) + int(count)))


if __name__ == "__main__":
    main()
