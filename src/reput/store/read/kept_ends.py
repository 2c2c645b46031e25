"""The ends of queues that the store has kept: a queue that ends earlier has lost files, or its messages."""

from __future__ import annotations

from collections.abc import Callable

from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.maps import LogMaps
from reput.store.disk.frontier import marks_of
from reput.store.disk.given_offsets import believed_offsets, read_given_offsets, without_queues
from reput.store.disk.layout import StoreLayout


class KeptEnds:
    """The next offsets of queues as reput gave them last. They are read when a queue is first asked for.

    Args:
        layout, log: the store, and its log.
        log_end: returns where the log ends; for a writer, where it ended before its first message.
    """

    def __init__(self, layout: StoreLayout, log: LogMaps, log_end: Callable[[], int]) -> None:
        self._layout, self._log, self._log_end = layout, log, log_end
        # Now: a writer sets the watermark to the log's end, also if another program wrote it.
        self.wrote_offset = marks_of(layout)["wrote_offset"]
        self._ends: dict[QueueKey, int] | None = None

    def all(self) -> dict[QueueKey, int]:
        """Return the next offset of each queue that has one.

        Raises:
            DamagedStoreError: the file is damaged.
        """
        if self._ends is None:
            given = read_given_offsets(self._layout)
            self._ends = believed_offsets(given, self._log, self._log_end(), self.wrote_offset)
        return self._ends

    def forget(self, topic: bytes, queue_id: int | None) -> None:
        """Forget the queues of a topic, or this one: they were deleted."""
        if self._ends is not None:
            self._ends = without_queues(self._ends, topic, queue_id)

    def clear(self) -> None:
        """Read the file again when it is needed."""
        self._ends = None
