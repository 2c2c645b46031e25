"""The places of queues: the kinds of a store that hold each queue.

A queue is in every kind of its store. A broker that writes several kinds may have less in one of them:

    combineCQUseRocksdbForLmq             light queues are in one kind alone
    rocksdbCQSelectiveDoubleWriteEnable   one kind has the topics of type LITE and their light queues alone

With both settings a light queue that belongs to no topic of type LITE is in neither kind. RocketMQ decides by the topic
of the record whether RocksDB gets an entry of a light queue; only records of its parent name a lite topic's queue, so
the queue's name says the same.

Source: `CombineConsumeQueueStore.putMessagePositionInfoWrapper`, `shouldDoubleWriteForTopic`,
`getCurrentReadStoreForTopic`, `MultiDispatchUtils.checkMultiDispatchQueue`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reput.formats.topics.lite_topics import decode_lite_topic, is_light


class QueuePlacement(NamedTuple):
    """The queues that each of a store's kinds holds; by default each holds every queue.

    `light_kind`: the kind that alone has light queues; "" if all have them. `part_kind`: the kind that has the queues
    of `part_topics` and their light queues alone; "" for none.
    """

    light_kind: str = ""
    part_kind: str = ""
    part_topics: frozenset[bytes] = frozenset()

    def holds(self, kind: str, topic: bytes) -> bool:
        """Return True if a kind of the store holds the queues of a topic."""
        if self.light_kind and kind != self.light_kind and is_light(topic):
            return False
        if kind != self.part_kind:
            return True
        lite = decode_lite_topic(topic)
        return (topic if lite is None else lite.parent) in self.part_topics

    def of_kinds(self, kinds: Sequence[str]) -> QueuePlacement:
        """Return the placement in a store that has these kinds: one kind alone holds every queue."""
        return self if len(kinds) > 1 else EVERYWHERE


EVERYWHERE = QueuePlacement()
"""Every kind holds every queue."""
