"""Damaged queues that reads meet, each reported: entries that do not lead to the next message, and lost messages.

RocketMQ takes an entry whose record would end after the log for expired, and passes over all entries that lead into the
same file of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from reput.formats.queue.consume_queue import QueueKey

_MOST_REPORTS = 1000
"""Reports of a store; `reput check` finds all."""


class EntryDamage(StrEnum):
    """The damage of an entry, and what reads make of it."""

    NO_RECORD = "leads to no record of the log, so reads of this queue pass over it and all like it"
    FOREIGN = "leads to a message of another queue, so reads of this queue pass over it and all like it"
    NO_FILE = "is in a file that is missing, so reads of this queue go on after it"
    NO_ORDER = "leads to a record that does not lie after the one before, so messages come twice or in another order"


class DamagedEntries:
    """The damaged queues of a store, each reported once for each kind of damage; `report` takes the sentence."""

    def __init__(self, root: Path) -> None:
        self.report: Callable[[str], object] = str
        self._root = root
        self._known: set[tuple[QueueKey, str]] = set()

    def met(self, key: QueueKey, place: int, damage: EntryDamage) -> None:
        """Report a damaged entry, unless another one of its queue has the same damage.

        `place` is its queue offset, for FOREIGN one after it: a pull does not keep those of its messages.
        """
        if not self._is_new(key, damage):
            return
        entry = "an entry before" if damage is EntryDamage.FOREIGN else "the entry of"
        self.report(
            f"{self._root}: queue {key}: {entry} queue offset {place} {damage}. `reput check` finds all, and "
            "`reput rebuild --only queue` builds them from the log"
        )

    def lost(self, key: QueueKey, loss: str) -> None:
        """Report a queue that lost its last messages, with this sentence."""
        if self._is_new(key, "lost"):
            self.report(loss)

    def _is_new(self, key: QueueKey, damage: str) -> bool:
        if (key, damage) in self._known or len(self._known) == _MOST_REPORTS:
            return False
        self._known.add((key, damage))
        return True
