"""The queues of an open store and their readers, by kind: the one list of kinds for reads."""

from __future__ import annotations

from collections.abc import Iterator

from reput.queue.batch import BatchQueues
from reput.queue.kinds import OpenQueues
from reput.queue.queues import Queues
from reput.store.disk.store import StoreOnDisk
from reput.store.read.batch_reader import BatchReader
from reput.store.read.damaged_entries import DamagedEntries
from reput.store.read.queue_answers import AnswersBeside, PullLimits
from reput.store.read.tail_follower import TailFollower


class OpenKinds:
    """The queues of an open store: `plain` have an entry for each message, `batches` have one for each batch."""

    def __init__(self, store: StoreOnDisk) -> None:
        self.plain = Queues(store.reading.open())
        folder, file_size = store.layout.batch_consume_queue, store.settings.batch_queue_file_size
        self.batches = BatchQueues(folder, file_size, self.plain.tail)

    def __iter__(self) -> Iterator[OpenQueues]:
        yield from (self.plain, self.batches)

    def readers_beside(
        self, follower: TailFollower, limits: PullLimits, damaged: DamagedEntries
    ) -> tuple[AnswersBeside, ...]:
        """Return the readers of the topics that have queues of their own kind."""
        return (BatchReader(self.batches, follower, limits, damaged),)
