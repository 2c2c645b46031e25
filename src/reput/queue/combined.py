"""Two kinds of queues as one to read: light queues from the one, all others from the other.

Source: `CombineConsumeQueueStore.getCurrentReadStoreForTopic`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.formats.layout import INT64_MAX
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.formats.topics.lite_topics import is_light
from reput.queue.compare import MessageRows
from reput.queue.kinds import DurableQueues, QueueKind, QueueOnDisk, ReadableQueues
from reput.queue.placement import QueuePlacement
from reput.queue.tail import Trimmed


def kind_to_read(kinds: Sequence[QueueKind], placement: QueuePlacement) -> ReadableQueues:
    """Return the kind that answers reads: the first one, or with it another one for light queues that it lacks."""
    first = kinds[0]
    light = placement.of_kinds([kind.name for kind in kinds]).light_kind
    if light in {"", first.name}:
        return first
    return CombinedKind(first, next(kind for kind in kinds if kind.name == light))


class CombinedKind:
    """Two kinds, to read: `light` has the light queues, `main` all others. See `ReadableQueues`."""

    def __init__(self, main: QueueKind, light: QueueKind) -> None:
        self.main = main
        self.light = light
        self.name = f"{main.name} and {light.name}"
        self.folder: Path = main.folder
        self.has_batches = False

    def _of(self, topic: bytes) -> QueueKind:
        return self.light if is_light(topic) else self.main

    def queues(self, topic: bytes | None = None) -> Generator[QueueOnDisk]:
        """Yield the queues, or those of a topic: light queues after all others."""
        if topic is not None:
            yield from self._of(topic).queues(topic)
            return
        for kind in (self.main, self.light):
            with closing(kind.queues()) as queues:
                yield from (queue for queue in queues if self._of(queue.key.topic) is kind)

    def topics(self) -> Iterator[bytes]:
        """Yield the topics of all queues."""
        for kind in (self.main, self.light):
            yield from (topic for topic in kind.topics() if self._of(topic) is kind)

    @contextmanager
    def asked(self) -> Iterator[Callable[[QueueKey], QueueOnDisk | None]]:
        """Return single queues from the kind that has them."""
        with self.main.asked() as main, self.light.asked() as light:
            yield lambda key: light(key) if is_light(key.topic) else main(key)

    def open(self) -> CombinedQueues:
        """Return the queues for an open store."""
        return CombinedQueues(self.name, self.main.open(), self.light.open())

    def compared(self, log_min_offset: int) -> MessageRows:
        """Return the entries of all queues, to compare them."""
        return MessageRows(self.open(), log_min_offset)


class CombinedQueues:
    """The queues of an open store whose light queues are in another kind. See `DurableQueues`."""

    # Kernels find entries by the numbers of files only where all queues have files.
    file_entries = INT64_MAX

    def __init__(self, name: str, main: DurableQueues, light: DurableQueues) -> None:
        self.name = name
        self.most_blocks = min(main.most_blocks, light.most_blocks)
        self._main = main
        self._light = light

    def _of(self, topic: bytes) -> DurableQueues:
        return self._light if is_light(topic) else self._main

    def load(self, frontier_offset: int, log_min_offset: int) -> None:
        """Forget everything, in both kinds."""
        self._main.load(frontier_offset, log_min_offset)
        self._light.load(frontier_offset, log_min_offset)

    def advance(self, frontier_offset: int, grown: Iterable[Trimmed]) -> None:
        """Note that all entries below the frontier are durable now, each kind with the queues that it has."""
        found = list(grown)
        for queues in (self._main, self._light):
            queues.advance(frontier_offset, [one for one in found if self._of(one.entries.key.topic) is queues])

    def spans(self, topic: bytes | None = None) -> Iterator[tuple[QueueKey, OffsetRange]]:
        """Yield every queue, or those of a topic, with its span."""
        if topic is not None:
            yield from self._of(topic).spans(topic)
            return
        for queues in (self._main, self._light):
            yield from ((key, span) for key, span in queues.spans() if self._of(key.topic) is queues)

    def topics(self) -> Iterator[bytes]:
        """Yield the topics of all queues."""
        for queues in (self._main, self._light):
            yield from (topic for topic in queues.topics() if self._of(topic) is queues)

    def find(self, key: QueueKey) -> OffsetRange | None:
        """Return the span of a queue; None if there is no such queue."""
        return self._of(key.topic).find(key)

    def pull_entries(self, max_messages: int, has_filter: bool) -> int:
        """Return the maximum number of entries that one pull of either kind reads."""
        return max(queues.pull_entries(max_messages, has_filter) for queues in (self._main, self._light))

    def store_times(self, key: QueueKey) -> Callable[[int], int] | None:
        """Return a function from queue offset to store time; None if only the log has times."""
        return self._of(key.topic).store_times(key)

    def block_end(self, key: QueueKey, offset: int) -> int:
        """Return the queue offset at which a read of a queue stops at the latest."""
        return self._of(key.topic).block_end(key, offset)

    def entries(self, key: QueueKey, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the entries [begin, end) of a queue."""
        return self._of(key.topic).entries(key, begin, end)

    def block(self, key: QueueKey, offset: int) -> tuple[int, NDArray[np.uint8]] | None:
        """Return entries of a queue around an offset that are cheap to keep."""
        return self._of(key.topic).block(key, offset)

    def close(self) -> None:
        """Close the files of both kinds."""
        self._main.close()
        self._light.close()
