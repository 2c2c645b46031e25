"""Deleted queues in a rebuild: it leaves them out unless it names their topics."""

from __future__ import annotations

from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import stored_bytes
from reput.pipeline.build.rebuild.options import RebuildOptions
from reput.pipeline.build.rebuild.state import Rebuild
from reput.store.disk.layout import StoreLayout
from reput.store.owner.deletion import (
    how_to_bring_back,
    named,
    present_keys,
    read_deleted,
    still_deleted,
    write_deleted,
)


def kept(layout: StoreLayout, log_min_offset: int, options: RebuildOptions) -> dict[QueueKey, int]:
    """Return the deleted queues that a rebuild leaves out, each with the log offset below which it does.

    Raises:
        DamagedStoreError: the file that lists them is damaged.
    """
    return {one.key: one.offset for one in still_deleted(layout, log_min_offset) if not _is_named(one, options)}


def _is_named(one: own.Deleted, options: RebuildOptions) -> bool:
    return one.key.topic in {stored_bytes(topic) for topic in options.topics}


def report(run: Rebuild) -> None:
    """Report the deleted queues that stay deleted, and those that are back."""
    deleted = [one for one in still_deleted(run.layout, run.log.min_offset) if run.job.wants(one.key.topic)]
    stay = [one for one in deleted if one.key in run.job.deleted]
    if stay:
        run.report.notes.append(f"queues that were deleted stay deleted: {named(stay)}; {how_to_bring_back(stay)}")
    back = [one for one in deleted if one.key not in run.job.deleted]
    if back:
        run.report.notes.append(f"queues that were deleted are back, since --topic names them: {named(back)}")


def forget(run: Rebuild) -> None:
    """Update the list of deleted queues after the swap: it keeps those that the rebuild left out or did not look at."""
    here = present_keys(run.layout, [one.key for one in read_deleted(run.layout)])
    write_deleted(
        run.layout,
        [
            one._replace(done=one.done or run.job.wants(one.key.topic))
            for one in read_deleted(run.layout)
            if one.offset > run.log.min_offset and (one.key not in here or not run.job.wants(one.key.topic))
        ],
    )
