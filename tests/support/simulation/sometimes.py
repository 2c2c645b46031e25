"""The rare states that simulations must reach at times, and how often they did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import ENTRY_SIZE, decode_entry

if TYPE_CHECKING:
    from support.power.disk import Tree

INTENT, TORN, REPEAT = "a swap is under way", "the log has a torn tail", "queues are ahead of their frontier"
FAILED_SYNC, FULL, TAKEN_OVER = "a sync fails", "the disk is full", "a store without a close is taken over"
TORN_HEAD = "a disk tears the head of a record"
KEPT_OUT = "a second program that writes indexes is kept out"
BROKER, KILLED_BROKER = "a model of RocketMQ's broker goes on with the store", "the model is killed"
LOST_KEYS = "the model removes IndexFiles after a crash"
CONTENDED = "a thread waits for a lock that another one holds"
CLOSED_AMID = "a thread closes the store while others are at work"
TAIL_FULL = "a put finds too many messages without indexes"
DELETED, EXPIRED_FILES = "a topic is deleted", "files of the log expire"
BROKEN_DELETION = "a deletion of a topic has broken off"
NAMES = (INTENT, TORN, REPEAT, FAILED_SYNC, FULL, TAKEN_OVER, KEPT_OUT, BROKER, KILLED_BROKER, LOST_KEYS)
NAMES += (DELETED, EXPIRED_FILES, BROKEN_DELETION)
NAMES += (CONTENDED, CLOSED_AMID, TAIL_FULL)
_STORE = "store"


class Sometimes:
    """Counts how often each rare state was reached."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def reached(self, name: str, is_so: bool = True) -> None:
        """Note a state if it is reached.

        Raises:
            KeyError: no state has this name.
        """
        if name not in (*NAMES, TORN_HEAD):
            raise KeyError(name)
        self.counts[name] += is_so

    @property
    def missing(self) -> list[str]:
        """The states that were never reached."""
        return [name for name in NAMES if not self.counts[name]]

    def look_at_disk(self, tree: Tree) -> None:
        """Note what a disk has kept."""
        self.reached(INTENT, f"{_STORE}/{paths.REPUT}/{own.INTENT_NAME}" in tree)
        self.reached(TAKEN_OVER, f"{_STORE}/{paths.ABORT}" in tree)
        deleted = tree.get(f"{_STORE}/{paths.REPUT}/{own.DELETED_NAME}")
        if isinstance(deleted, bytes):
            self.reached(BROKEN_DELETION, not all(one.done for one in own.decode_deleted(deleted, own.DELETED_NAME)))
        data = tree.get(f"{_STORE}/{paths.REPUT}/{own.FRONTIER_NAME}")
        if isinstance(data, bytes):
            try:
                frontier = own.decode_frontier(data, own.FRONTIER_NAME).queue_offset
            except DamagedStoreError:
                return
            self.reached(REPEAT, any(place >= frontier for place in _places(tree)))

    def look_at_tail(self, tree: Tree, end: int) -> None:
        """Note if the log, which was found to end at a log offset, has bytes after it."""
        logs = {path.rpartition("/")[2]: data for path, data in tree.items() if f"{_STORE}/{paths.COMMIT_LOG}/" in path}
        after = (data[max(0, end - int(name)) :] for name, data in logs.items() if isinstance(data, bytes))
        self.reached(TORN, any(map(any, after)))


def _places(tree: Tree) -> list[int]:
    """Return the log offsets that the queue files of a disk have."""
    found = []
    for path, data in tree.items():
        if f"{_STORE}/{paths.CONSUME_QUEUE}/" in path and isinstance(data, bytes):
            entries = (decode_entry(data, at) for at in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE))
            found += [entry.physical_offset for entry in entries if entry.is_valid]
    return found
