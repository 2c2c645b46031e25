"""The share of a consumer in the queues of a topic.

Source: `AllocateMessageQueueAveragely`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Queue = TypeVar("Queue")


def allocate_averagely(queues: Sequence[Queue], client_ids: Sequence[str], own_id: str) -> list[Queue]:
    """Return the queues of one consumer: neighbours, and the first consumers have one more if they do not divide.

    All members of a group compute this of the same lists, so each queue has one consumer.

    Args:
        queues: the queues, in the order that all members know.
        client_ids: the ids of the members, in that order.
        own_id: the id of this consumer; without it among the members it has no queue.
    """
    if own_id not in client_ids:
        return []
    place, members = client_ids.index(own_id), len(client_ids)
    share, more = divmod(len(queues), members)
    begin = place * share + min(place, more)
    return list(queues[begin : begin + share + (place < more)])
