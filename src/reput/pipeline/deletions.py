"""Deleted queues in jobs: a rebuild leaves them out unless it names their topics, and a check does not miss them."""

from __future__ import annotations

from reput.formats import own
from reput.formats.consume_queue import QueueKey
from reput.pipeline.check_state import Check
from reput.pipeline.rebuild_state import RebuildOptions, Run
from reput.store.deletion import how_to_bring_back, named, present_keys, read_deleted, still_deleted, write_deleted
from reput.store.layout import StoreLayout
from reput.store.report import LEFTOVER, NOTE


def kept(layout: StoreLayout, log_min_offset: int, options: RebuildOptions) -> dict[QueueKey, int]:
    """The deleted queues that a rebuild leaves out, each with the log offset below which it does.

    Raises:
        DamagedStoreError: the file that has them is none.
    """
    return {one.key: one.offset for one in still_deleted(layout, log_min_offset) if not _is_named(one, options)}


def _is_named(one: own.Deleted, options: RebuildOptions) -> bool:
    return one.key.topic in {topic.encode("utf-8", "surrogateescape") for topic in options.topics}


def not_missed(layout: StoreLayout, log_min_offset: int) -> dict[QueueKey, int]:
    """The deleted queues that a check does not miss, each with the log offset below which it does not."""
    deleted = still_deleted(layout, log_min_offset)
    here = present_keys(layout, [one.key for one in deleted])
    return {one.key: one.offset for one in deleted if one.key not in here}


def half_deleted(layout: StoreLayout) -> frozenset[QueueKey]:
    """The queues whose deletion broke off."""
    return frozenset(one.key for one in read_deleted(layout) if not one.done)


def report(run: Run) -> None:
    """Say which deleted queues stay deleted, and which are back."""
    deleted = [one for one in still_deleted(run.layout, run.log.min_offset) if run.job.wants(one.key.topic)]
    stay = [one for one in deleted if one.key in run.job.deleted]
    if stay:
        run.report.notes.append(f"queues that were deleted stay deleted: {named(stay)}; {how_to_bring_back(stay)}")
    back = [one for one in deleted if one.key not in run.job.deleted]
    if back:
        run.report.notes.append(f"queues that were deleted are back, since --topic names them: {named(back)}")


def forget(run: Run) -> None:
    """Keep of the deleted queues those that a rebuild, which is live now, has left out or not looked at."""
    here = present_keys(run.layout, [one.key for one in read_deleted(run.layout)])
    write_deleted(
        run.layout,
        [
            one._replace(done=one.done or run.job.wants(one.key.topic))
            for one in read_deleted(run.layout)
            if one.offset > run.log.min_offset and (one.key not in here or not run.job.wants(one.key.topic))
        ],
    )


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
