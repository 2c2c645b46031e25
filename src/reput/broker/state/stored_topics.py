"""The topics of a store whose topics no broker has written: those that its queues have.

The broker makes them before it writes its own. Its list would say of the others that they were deleted, and of a topic
with queues of batches that its queues are plain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from reput.formats.queue.queue_types import BATCH, QUEUE_TYPE
from reput.formats.stored_text import stored_bytes, stored_text
from reput.formats.topics.lite_topics import is_light
from reput.formats.topics.system_topics import SELF_TEST_TOPIC

if TYPE_CHECKING:
    from reput.embedded import MessageStore


class StoredTopic(NamedTuple):
    """A topic as its queues show it: its name, the queues up to the highest id, and its attributes."""

    name: str
    queues: int
    attributes: dict[str, str]


def stored_topics(store: MessageStore, known: Collection[str]) -> Iterator[StoredTopic]:
    """Yield the topics that have queues, if no broker has written `known`, the topics of the store.

    Light queues belong to no topic of a broker. A name that is no UTF-8 cannot be in a list of topics.
    """
    if SELF_TEST_TOPIC in known or store.view.topics_of_broker().has_every_attribute:
        return
    counts: dict[str, int] = {}
    for queue in store.view.queues():
        counts[queue.topic] = max(counts.get(queue.topic, 0), queue.queue_id + 1)
    batches = {stored_text(name) for name in store.view.follower.types.batch}
    for name in sorted(counts.keys() | batches):
        if not is_light(name) and _is_text(name):
            yield StoredTopic(name, counts.get(name, 1), {QUEUE_TYPE: BATCH} if name in batches else {})


def is_of_batches(store: MessageStore, topic: str) -> bool:
    """Return True if the queues of a topic are of batches: an entry may be for several messages."""
    return stored_bytes(topic) in store.view.follower.types.batch


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
