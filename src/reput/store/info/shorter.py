"""Queues that end before the offset that the store has kept of them: they lost files, or the log lost its end."""

from __future__ import annotations

from reput.errors import DamagedStoreError
from reput.formats.stored_text import stored_text
from reput.nearest import FEW, some
from reput.store.disk.frontier import marks_of
from reput.store.disk.given_offsets import offsets_of_store, read_given_offsets
from reput.store.disk.store import StoreOnDisk
from reput.store.info.values import StoreInfo


def judge_ends(store: StoreOnDisk, info: StoreInfo) -> None:
    """Report them, and a damaged file of given offsets. Every queue has been read, and nobody has the store."""
    try:
        given, frontier = read_given_offsets(store.layout), store.frontier
    except DamagedStoreError as error:
        info.damage.append(str(error))
        return
    if given is None or frontier is None or frontier.queue_offset < info.log.max_offset:
        # Messages may wait for their entries.
        return
    if _is_known_otherwise(store):
        return
    kept = offsets_of_store(store, given, info.log.max_offset, marks_of(store.layout)["wrote_offset"])
    ends = {
        (topic.topic, queue.queue_id): queue.max_offset - queue.waiting
        for topic in info.topics
        for queue in topic.queues
    }
    shorter = [
        str(key) for key, offset in sorted(kept.items()) if ends.get((stored_text(key.topic), key.queue_id), 0) < offset
    ]
    if shorter:
        info.damage.append(
            f"queues end before offsets that were given: {some(shorter, FEW)}. They lost files, or the log lost its "
            "end: restore them, or run `reput rebuild`"
        )


def _is_known_otherwise(store: StoreOnDisk) -> bool:
    """Return True if a kind of queues says up to where it has the log, or cannot be read, as is reported already."""
    try:
        return any(store.complete_to(kind) is not None for kind in store.message_kinds)
    except DamagedStoreError:
        return True
