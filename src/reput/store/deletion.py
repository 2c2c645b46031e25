"""Deleting a topic, or one of its queues: entries, ext units and numbers go; the log keeps the messages.

Each queue goes at once: killed in between, some are there whole and others not at all, and the same call does the rest.
A rebuild brings back what the log still has.

Source: `DefaultMessageStore.deleteTopics`.
"""

from __future__ import annotations

from collections.abc import Sequence

from reput.files import fs
from reput.formats import own
from reput.formats.consume_queue import QueueKey
from reput.queue.files import move_queues_aside
from reput.queue.kinds import QueueKind
from reput.store.layout import refuse_linked_indexes
from reput.store.owner import Ownership


def delete_queues(
    owned: Ownership, kinds: Sequence[QueueKind], topic: bytes, queue_id: int | None = None
) -> list[QueueKey]:
    """Delete the queues of a topic, or the one with this id, of every kind; returns those that went, by id.

    Raises:
        UnsupportedStoreError: a folder of queues is a link, and files cannot be moved out of its file system.
    """
    layout = owned.layout
    refuse_linked_indexes(layout)
    # A killed process leaves it to the next owner to remove this.
    aside, owner = layout.own(own.aside_name(owned.epoch)) / "deleted", fs.owner_of(layout.root)
    gone = {key for kind in kinds for key in kind.delete(topic, queue_id, owner, aside)}
    gone.update(move_queues_aside(layout.batch_consume_queue, topic, queue_id, aside))
    # Behind the queues: an entry whose unit has gone would tell of damage.
    move_queues_aside(layout.consume_queue_ext, topic, queue_id, aside)
    if gone:
        owned.indexes_replaced()
    fs.remove_tree(layout.own(own.aside_name(owned.epoch)))
    return sorted(gone)
