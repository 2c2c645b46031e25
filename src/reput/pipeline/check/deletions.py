"""Deleted queues in a check: it does not ask for them, and reports them."""

from __future__ import annotations

from reput.formats import own
from reput.formats.consume_queue import QueueKey
from reput.pipeline.check.state import Check
from reput.store.disk.layout import StoreLayout
from reput.store.disk.report import LEFTOVER, NOTE
from reput.store.owner.deletion import how_to_bring_back, named, present_keys, read_deleted, still_deleted


def not_missed(layout: StoreLayout, log_min_offset: int) -> dict[QueueKey, int]:
    """The deleted queues that a check does not miss, each with the log offset below which it does not."""
    deleted = still_deleted(layout, log_min_offset)
    here = present_keys(layout, [one.key for one in deleted])
    return {one.key: one.offset for one in deleted if one.key not in here}


def half_deleted(layout: StoreLayout) -> frozenset[QueueKey]:
    """The queues whose deletion broke off."""
    return frozenset(one.key for one in read_deleted(layout) if not one.done)


def judge(check: Check) -> None:
    """Say which queues were deleted; those whose deletion broke off are a leftover."""
    deleted = still_deleted(check.layout, check.log.min_offset)
    done = [one for one in deleted if one.done]
    path = str(check.layout.own(own.DELETED_NAME))
    if done:
        detail = f"deleted with reput, their messages are still in the log: {named(done)}; {how_to_bring_back(done)}"
        check.report.remark(NOTE, "queue-deleted", path, len(done), detail)
    undone = [one for one in deleted if not one.done]
    if undone:
        detail = f"a deletion broke off: {named(undone)}. The next command that writes the store finishes it"
        check.report.remark(LEFTOVER, "queue-deletion-begun", path, len(undone), detail)
