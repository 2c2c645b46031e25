"""Queues that a record may have an entry in: its own one, and the further ones that it names.

The queue offset is no sign: RocketMQ gives an entry after a hole the next place, not that of its message.

Source: `ConsumeQueue.multiDispatchLmqQueue`.
"""

from __future__ import annotations

from reput.formats.log import properties
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.topics.system_topics import LMQ_PREFIX


def is_in_queue(own: QueueKey, stored_properties: bytes, queue: QueueKey) -> bool:
    """Return True if a queue may have an entry of a record, whose own queue and properties these are."""
    if own == queue:
        return True
    further = properties.decode_properties(stored_properties).get(properties.INNER_MULTI_DISPATCH, b"")
    queue_id = 0 if queue.topic.startswith(LMQ_PREFIX) else own.queue_id
    return queue.queue_id == queue_id and queue.topic in further.split(properties.QUEUE_SEPARATOR)
