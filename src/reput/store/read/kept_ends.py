"""The ends of queues that the store has kept: a queue that ends earlier has lost files, or its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.maps import LogMaps
from reput.store.disk.frontier import marks_of
from reput.store.disk.given_offsets import believed_offsets, goes_past, read_given_offsets, without_queues
from reput.store.disk.layout import StoreLayout


class KeptEnds:
    """The next offsets of queues as reput gave them last. They are read when a queue is first asked for.

    Safe for threads. `is_raised`: the file does not have all of them. `is_of_writer`: nobody else changes the file.

    Args:
        layout, log: the store, and its log.
        log_end: returns where the log ends; for a writer, where it ended before its first message.
    """

    def __init__(self, layout: StoreLayout, log: LogMaps, log_end: Callable[[], int]) -> None:
        self._layout, self._log, self._log_end = layout, log, log_end
        # Now: a writer sets the watermark to the log's end, also if another program wrote it.
        self.wrote_offset = marks_of(layout)["wrote_offset"]
        self.is_raised = self.is_of_writer = False
        # Held while the file is read: a deletion meanwhile would be lost.
        self._lock = Lock()
        self._ends: dict[QueueKey, int] | None = None

    def all(self) -> dict[QueueKey, int]:
        """Return the next offset of each queue that has one.

        Raises:
            DamagedStoreError: the file is damaged.
        """
        with self._lock:
            return self._read()

    def raise_to(self, ends: Mapping[QueueKey, int]) -> None:
        """Take these ends in, which queues have reached. Raises: as `all`."""
        with self._lock:
            before = self._read()
            raised = {key: end for key, end in ends.items() if end > before.get(key, 0)}
            if raised:
                self._ends, self.is_raised = before | raised, True

    def forget(self, topic: bytes, queue_id: int | None) -> None:
        """Forget the queues of a topic, or this one: they were deleted."""
        with self._lock:
            if self._ends is not None:
                self._ends = without_queues(self._ends, topic, queue_id)

    def clear(self) -> None:
        """Read the file again when it is needed, unless a writer holds the store."""
        with self._lock:
            self._ends = self._ends if self.is_of_writer else None

    def _read(self) -> dict[QueueKey, int]:
        if self._ends is None:
            given, log_end = read_given_offsets(self._layout), self._log_end()
            if given is not None and goes_past(given, self._log, log_end):
                # A writer has come since this reader has looked at the log.
                return {}
            self._ends = believed_offsets(given, self._log, log_end, self.wrote_offset)
        return self._ends
