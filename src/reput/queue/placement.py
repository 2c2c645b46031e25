"""The places of queues: the kinds of a store that hold each queue.

A queue is in every kind of its store. A broker that writes both kinds may have less in each:

    combineCQUseRocksdbForLmq             light queues are in RocksDB alone
    rocksdbCQSelectiveDoubleWriteEnable   RocksDB has the topics of type LITE and their light queues alone

With both settings a light queue that belongs to no topic of type LITE is in neither kind. RocketMQ decides by the topic
of the record whether RocksDB gets an entry of a light queue; only records of its parent name a lite topic's queue, so
the queue's name says the same.

Source: `CombineConsumeQueueStore.putMessagePositionInfoWrapper`, `shouldDoubleWriteForTopic`,
`getCurrentReadStoreForTopic`, `MultiDispatchUtils.checkMultiDispatchQueue`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reput.formats.lite_topics import decode_lite_topic, is_light
from reput.formats.queue_kinds import FILE, ROCKSDB


class QueuePlacement(NamedTuple):
    """The queues that each of a store's two kinds holds; by default both hold every queue.

    `light_in_rocksdb`: light queues are in RocksDB alone. `rocksdb_topics`: RocksDB has the queues of these topics and
    their light queues alone; None for those of all topics.
    """

    light_in_rocksdb: bool = False
    rocksdb_topics: frozenset[bytes] | None = None

    def holds(self, kind: str, topic: bytes) -> bool:
        """Return True if a kind of the store holds the queues of a topic."""
        if kind == FILE:
            return not (self.light_in_rocksdb and is_light(topic))
        if kind != ROCKSDB or self.rocksdb_topics is None:
            return True
        lite = decode_lite_topic(topic)
        return (topic if lite is None else lite.parent) in self.rocksdb_topics

    def in_files(self, topic: bytes) -> bool:
        """Return True if queue files hold the queues of a topic."""
        return self.holds(FILE, topic)

    def of_kinds(self, kinds: Sequence[str]) -> QueuePlacement:
        """Return the placement in a store that has these kinds: one kind alone holds every queue."""
        return self if FILE in kinds and ROCKSDB in kinds else EVERYWHERE

    @property
    def settings(self) -> list[str]:
        """The settings of broker.conf that make it."""
        light = ["combineCQUseRocksdbForLmq=true"] if self.light_in_rocksdb else []
        selective = [] if self.rocksdb_topics is None else ["rocksdbCQSelectiveDoubleWriteEnable=true"]
        return light + selective


EVERYWHERE = QueuePlacement()
"""Every kind holds every queue."""
