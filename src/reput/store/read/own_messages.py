"""Pulls for those who show or send records without a look at them."""

from __future__ import annotations

from reput.store.read.foreign import without_foreign
from reput.store.read.reading import Reading
from reput.store.read.results import GetResult
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter


def own_messages(
    store: Reading,
    topic: str,
    queue_id: int,
    offset: int,
    max_messages: int,
    wanted: str | TagFilter | SqlFilter | None,
    max_bytes: int,
) -> GetResult:
    """Pull messages as `Reading.get_message` does, without those of other queues; report the queue if there are any."""
    found = store.get_message(topic, queue_id, offset, max_messages, wanted, max_bytes)
    return without_foreign(found, store.view.damaged)
