"""Queues of a store as plans and tasks ask them, of any kind.

Only entries of records below the frontier count. If a store has its queues in two kinds (double write), the one that
RocketMQ reads first answers; topics of batches have queues of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reput.connect.cut.batch_queue import QueuesOfBatches
from reput.connect.cut.disk_queue import DiskQueue, QueuesOfKind
from reput.connect.cut.plain_queue import PlainQueues
from reput.errors import ReputError, StoreLockedError
from reput.formats import paths
from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.maps import LogMaps
from reput.queue.batch_kind import BatchKind
from reput.queue.kinds import ReadableQueues
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import StoreLayout


def _queues_of(
    kind: ReadableQueues | BatchKind, within: tuple[int, int], maps: LogMaps, stack: ExitStack
) -> QueuesOfKind:
    """Return the queues of one kind, of records in the log offsets `within`."""
    if isinstance(kind, BatchKind):
        return QueuesOfBatches(kind, *within)
    return PlainQueues(kind, *within, maps, stack)


@dataclass(frozen=True)
class IndexedQueues:
    """The queues of a store as a value that goes to tasks; `opened` reads them.

    `kinds` are the queues that answer reads; a topic has queues of one of them. The log has records from `begin` on, in
    files of `log_file_size` bytes, and only entries of records below `frontier` count. `swaps` is the store's count of
    swaps when it was listed: queues of other indexes are not read.
    """

    kinds: tuple[ReadableQueues | BatchKind, ...]
    commit_log: str
    log_file_size: int
    begin: int
    frontier: int
    layout: StoreLayout
    swaps: int

    @contextmanager
    def opened(self) -> Iterator[DiskQueues]:
        """Open the queues and the log while the block runs.

        Raises:
            StoreLockedError: a job has swapped other indexes in, so that the block may have found no queue, or a part.
        """
        with LogMaps(Path(self.commit_log), self.log_file_size) as maps, ExitStack() as stack:
            try:
                yield DiskQueues(self, maps, stack)
            except ReputError as error:
                self._refuse_swapped(error)
                raise
            self._refuse_swapped()

    def _refuse_swapped(self, cause: Exception | None = None) -> None:
        if marks_of(self.layout)["swaps"] != self.swaps:
            raise StoreLockedError(
                f"{self.layout.root}: a rebuild or a conversion has replaced the indexes since this read began. "
                "Read again"
            ) from cause


@dataclass
class DiskQueues:
    """The open queues of a store: all, those of some topics, or one; and its log's maps."""

    source: IndexedQueues
    maps: LogMaps
    stack: ExitStack

    @cached_property
    def kinds(self) -> list[QueuesOfKind]:
        """The queues by kind. A topic has queues of one of them."""
        within = self.source.begin, self.source.frontier
        return [_queues_of(kind, within, self.maps, self.stack) for kind in self.source.kinds]

    def all(self) -> Iterator[DiskQueue]:
        """Yield every queue; each is good until the next one is asked for."""
        for kind in self.kinds:
            yield from (queue for queue in kind.of(None) if paths.is_topic_folder_name(queue.key.topic))

    def of(self, topics: Iterable[bytes]) -> Iterator[DiskQueue]:
        """Yield the queues of some topics; each is good until the next one is asked for."""
        for topic in topics:
            for kind in self.kinds if paths.is_topic_folder_name(topic) else ():
                yield from kind.of(topic)

    def one(self, key: QueueKey) -> DiskQueue | None:
        """Return one queue, good until the block ends; None if it is not there."""
        kinds = self.kinds if paths.is_topic_folder_name(key.topic) else ()
        return next((queue for kind in kinds if (queue := kind.one(key)) is not None), None)

    def of_kind(self, key: QueueKey, name: str) -> DiskQueue | None:
        """Return the queue of one kind, as a plan found it; None if it is gone."""
        return {kind.name: kind for kind in self.kinds}[name].one(key)
