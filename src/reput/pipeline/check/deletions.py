"""Deleted queues in a check, which reports them and does not miss their entries."""

from __future__ import annotations

from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.check.rules import LEFTOVER, NOTE
from reput.pipeline.check.state import Check
from reput.store.disk.layout import StoreLayout
from reput.store.owner.deletion import how_to_bring_back, named, present_keys, read_deleted, still_deleted


def not_missed(layout: StoreLayout, log_min_offset: int) -> dict[QueueKey, int]:
    """Return the deleted queues, each with the log offset below which a check does not miss its entries."""
    deleted = still_deleted(layout, log_min_offset)
    here = present_keys(layout, [one.key for one in deleted])
    return {one.key: one.offset for one in deleted if one.key not in here}


def half_deleted(layout: StoreLayout) -> frozenset[QueueKey]:
    """Return the queues whose deletion was interrupted."""
    return frozenset(one.key for one in read_deleted(layout) if not one.done)


def report_deleted(check: Check) -> None:
    """Report the deleted queues; an interrupted deletion is a leftover."""
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
