"""The lives of a store, one after the other, that one seed decides."""

from __future__ import annotations

import hashlib
import itertools
import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from support.determined import FIRST_MS

if TYPE_CHECKING:
    from pathlib import Path

    from support.power.disk import Tree
    from support.power.recorder import Recorder
    from support.simulation.sometimes import Sometimes


class Lives(ABC):
    """The lives of one seed, in a folder that is empty; a subclass lives each of them."""

    kind: ClassVar[str]
    """The name of such lives in errors; another kind of the same seed takes another course."""
    count: ClassVar[int]

    def __init__(self, seed: int, folder: Path, sometimes: Sometimes) -> None:
        self._seed, self._folder, self._sometimes = seed, folder, sometimes
        self._chance = random.Random(f"{self.kind} {seed}")
        self._ticks = itertools.count(FIRST_MS)
        self._digest = hashlib.blake2b()
        self._done: list[str] = []

    def run(self) -> str:
        """Run all lives; return a digest of every change of the disk.

        Raises:
            AssertionError: A promise is broken; the text has the seed and the steps.
        """
        tree: Tree = {}
        try:
            for number in range(self.count):
                tree = self._live(self._folder / f"{number}", tree)
        except Exception as error:
            again = f"make simulate FIRST={self._seed} SEEDS=1"
            words = f"seed {self._seed}, {self.kind}: {error!r}; steps: {self._done}\nagain: {again}"
            raise AssertionError(words) from error
        return self._digest.hexdigest()

    @abstractmethod
    def _live(self, folder: Path, tree: Tree) -> Tree:
        """Live once on a disk; return what it keeps."""

    def _remember(self, recorder: Recorder) -> None:
        """Take a life's changes of the disk into the digest."""
        for entry in recorder.journal:
            self._digest.update(repr(entry).encode())
