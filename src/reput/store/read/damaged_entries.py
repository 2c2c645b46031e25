"""Entries that lead to no record of the log: a pull passes over them, and reports one of each queue.

An entry is damaged if its record would be empty, or would end after the log. RocketMQ takes such a record for expired,
and passes over all entries that lead into the same file of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reput.formats.queue.consume_queue import QueueKey

_MOST_QUEUES = 1000
"""Queues that are reported; `reput check` finds all."""


class DamagedEntries:
    """The queues of a store with damaged entries, each reported once; `report` takes the sentence."""

    def __init__(self, root: Path) -> None:
        self.report: Callable[[str], object] = str
        self._root = root
        self._known: set[QueueKey] = set()

    def met(self, key: QueueKey, offset: int) -> None:
        """Report a damaged entry, unless another one of its queue is known."""
        if key in self._known or len(self._known) == _MOST_QUEUES:
            return
        self._known.add(key)
        self.report(
            f"{self._root}: queue {key}: the entry of queue offset {offset} leads to no record of the log, so reads of "
            "this queue pass over it and all like it. `reput check` finds all, and `reput rebuild --only queue` builds "
            "them from the log"
        )
