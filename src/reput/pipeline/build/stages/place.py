"""The second stage of a build: what decode tasks left becomes queues of every kind.

A rebuild and a job that follows the log take the same steps. A rebuild has no queues before the range.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.names import is_empty_dir
from reput.formats import paths
from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.stages.decode import Decoding
from reput.pipeline.build.stages.state import Build, NextOffsets, RangeQueues
from reput.pipeline.split import parts
from reput.pipeline.split.job import SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.plan import Split
from reput.pipeline.split.stitch import inferred_topics

_NAMED = 5
_NONE = NextOffsets()


def merge(
    run: Decoding,
    splits: Sequence[Split],
    results: Sequence[SplitResult],
    ends: Mapping[QueueKey, int],
    end: int,
    out_of_order: Iterable[QueueKey] = (),
) -> RangeQueues:
    """Join the queue ranges of the splits up to log offset `end`.

    A queue is out of order if its first entry is not the one after `ends`, or if it is in `out_of_order`.
    """
    table = SplitQueues()
    for result in results:
        if result.records:
            table.add(parts.load_ranges(run.job, result.number))
    if ends:
        table.mark_out_of_order(
            key for key, row in table.rows.items() if ends.get(key, 0) not in (0, int(table.first[row]))
        )
    table.mark_out_of_order(key for key in out_of_order if run.job.wants(key.topic))
    inferred = inferred_topics(results)
    table.drop_topics(inferred)
    if not inferred <= run.job.types.batch:
        types = run.job.types
        run.job = replace(run.job, types=types._replace(batch=types.batch | inferred))
    return RangeQueues(splits, results, table, ends, end)


def _nothing() -> None:
    return None


def place_queues(
    build: Build, queues: RangeQueues, start_index: Callable[[], None] = _nothing
) -> Collection[QueueOutcome]:
    """Build the queues of a range of every kind; returns the outcomes that builders report, one for each queue.

    `start_index` lets tasks build IndexFiles at the same time. It is called when no more tasks are to be fenced off.
    """
    if any(builder.reads_parts(build, queues) for builder in build.builders):
        build.fence_late_tasks()
    if queues.table.out_of_order() and build.job.ext is not None:
        # A late attempt that writes entries overwrites the units' addresses, so tasks that reorder are fenced off, too.
        outcomes = _place(build, queues)
        build.fence_late_tasks()
        start_index()
    else:
        start_index()
        outcomes = _place(build, queues)
    return outcomes.values()


def _place(build: Build, queues: RangeQueues) -> dict[QueueKey, QueueOutcome]:
    placed = [(builder, builder.place(build, queues)) for builder in build.builders]
    for builder, outcomes in placed:
        if builder.has_rows:
            queues.enter(outcomes)
        else:
            queues.others.extend(outcomes)
    return {one.key: one for _, outcomes in placed for one in outcomes}


def finish_queues(build: Build, queues: RangeQueues, kept: NextOffsets = _NONE) -> None:
    """Complete the queues of every kind, and keep the next offsets of those that lost messages."""
    for builder in build.builders:
        builder.finish(build, queues, kept)


def verify_queues(build: Build, queues: RangeQueues) -> None:
    """Read the staged queues back.

    Raises:
        DamagedStoreError: a queue differs from its records.
    """
    with build.stage("verify"):
        wrong = [text for builder in build.builders for text in builder.verify(build, queues)]
    if wrong:
        raise DamagedStoreError(
            f"{build.job.queue_folder}: the new queues, read back, are not what was written: "
            f"{'; '.join(wrong[:_NAMED])} ({len(wrong)} queues in all). The old ones are live. Check the disk"
        )


def queue_parts(build: Build) -> list[str]:
    """Return the paths of all staged queues that are swapped in, relative to the store.

    An empty folder replaces old queues in a folder where the job's kinds have none, such as a database that moves.
    """
    found = dict.fromkeys(part for builder in build.builders for part in builder.parts(build))
    if build.job.of_all_topics:
        for part in (paths.CONSUME_QUEUE, paths.SEPARATE_QUEUE_FOLDER):
            if part not in found and not is_empty_dir(build.layout.root / part):
                fs.make_dirs(f"{build.job.staging}/{part}", build.job.owner)
                found[part] = None
    if paths.CONSUME_QUEUE in found:
        return [part for part in found if not part.startswith(f"{paths.CONSUME_QUEUE}/")]
    return list(found)
