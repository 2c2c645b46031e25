"""The types of queues that a topic can have (`queue.type`), and which topics have which, as far as it is known.

Source: `TopicAttributes.QUEUE_TYPE_ATTRIBUTE`, `CQType`.
"""

from __future__ import annotations

from typing import NamedTuple

QUEUE_TYPE = "queue.type"
SIMPLE, BATCH = "SimpleCQ", "BatchCQ"


class QueueTypes(NamedTuple):
    """Topics whose queues are known to hold batches, and topics whose queues are known not to.

    The records decide about a topic in neither: an inner batch (sysFlag 0x80, with INNER_NUM and INNER_BASE) can have
    been put only to a queue of batches. With `others_are_simple` no other topic has queues of batches, whatever its
    records say.
    """

    batch: frozenset[bytes] = frozenset()
    simple: frozenset[bytes] = frozenset()
    others_are_simple: bool = False


UNKNOWN_TYPES = QueueTypes()
