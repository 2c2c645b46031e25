"""The share of a consumer in the queues of a topic, as clients and brokers compute it.

Source: `AllocateMessageQueueAveragely`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Queue = TypeVar("Queue")


def allocate_averagely(queues: Sequence[Queue], client_ids: Sequence[str], own_id: str) -> list[Queue]:
    """Return the queues of one consumer, which follow one another.

    If the number of queues cannot be divided by that of the members, the first members have one queue more. All members
    of a group compute this from the same lists, so each queue has one consumer.

    Args:
        queues: the queues, in the order that all members know.
        client_ids: the ids of the members, in that order.
        own_id: the id of this consumer; if it is not among the members, the consumer has no queue.
    """
    if own_id not in client_ids:
        return []
    place, members = client_ids.index(own_id), len(client_ids)
    share, more = divmod(len(queues), members)
    begin = place * share + min(place, more)
    return list(queues[begin : begin + share + (place < more)])
