"""The first stage of a build: tasks decode the splits, and the driver proves that the splits join.

Tasks of a rebuild place entries at once, in staging, where a wrong decoding can be built again. What a job writes in
live files cannot be taken back, so its tasks leave entries until the splits are proved (`Job.places_at_once`). Tasks of
a check compare entries, and the driver proves the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from reput.files import fs
from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.spark.engine import Engine, Progress
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import Split
from reput.pipeline.split.stitch import Stitched, inferred_topics, stitch
from reput.pipeline.split.tasks import decode_and_sink
from reput.store.disk.kinds import all_kinds
from reput.store.disk.layout import StoreLayout
from reput.store.disk.queue_types import refuse_batches_beside


class Decoding(Protocol):
    """The state of a job that decodes the log: a build, or a check."""

    job: Job

    @property
    def layout(self) -> StoreLayout:
        """The store's paths."""
        ...

    @property
    def engine(self) -> Engine:
        """The engine that runs tasks."""
        ...

    @property
    def listener(self) -> ProgressListener:
        """The listener to stages."""
        ...

    def fence_late_tasks(self) -> None:
        """Stop every task so far from writing."""
        ...


class Decode(Protocol):
    """A function that decodes splits in tasks, and keeps what tasks return beside the results."""

    def __call__(self, job: Job, splits: Sequence[Split], progress: Progress) -> list[SplitResult]:
        """Return the results in the order of the splits."""
        ...


def sink_entries(engine: Engine) -> Decode:
    """Return the decoding of a build: tasks hand entries to the sinks."""
    return lambda job, splits, progress: engine.run(partial(decode_and_sink, job), splits, progress)


def decode_splits(run: Decoding, splits: Sequence[Split], decode: Decode | None = None) -> list[SplitResult]:
    """Decode splits in tasks, those of a build unless `decode` names others."""
    return (decode or sink_entries(run.engine))(run.job, splits, run.listener.advance)


def prove(
    run: Decoding,
    begin: int,
    splits: Sequence[Split],
    results: Sequence[SplitResult],
    holes: Collection[tuple[int, int]] = (),
    decode: Decode | None = None,
) -> Stitched:
    """Prove the splits from log offset `begin` on, and decode again those that do not join.

    `holes` are the ranges that no log file covers. `decode` is that of `decode_splits`. Afterwards every split knows
    the topics of queues of batches.

    Raises:
        UnsupportedStoreError: records show queues of batches, and the job has kinds that exclude them.
    """
    decode = decode or sink_entries(run.engine)
    found = {result.number: result for result in results}
    tainted: list[QueueKey] = []

    def again(split: Split) -> SplitResult:
        # An attempt of the wrong decoding may still be at work.
        run.fence_late_tasks()
        if run.job.build_queues and run.job.places_at_once and found[split.number].records:
            tainted.extend(parts.load_ranges(run.job, split.number).keys)
        return decode(run.job, [split], _silent)[0]

    stitched = stitch(begin, splits, results, again, holes)
    stitched.tainted = tainted
    _learn_types(run, stitched, decode)
    return stitched


def _learn_types(run: Decoding, stitched: Stitched, decode: Decode) -> None:
    """Decode again the splits that missed a topic with queues of batches; the job knows these topics then.

    If records alone show that a topic has queues of batches, a split without such a record takes the topic's messages
    for entries of other queues.

    Raises:
        UnsupportedStoreError: the job has kinds that exclude queues of batches.
    """
    inferred = inferred_topics(stitched.results)
    if not inferred:
        return
    run.fence_late_tasks()
    job = run.job
    job = replace(job, types=job.types._replace(batch=job.types.batch | inferred))
    known = all_kinds(run.layout)
    refuse_batches_beside(job.types, [known[name] for name in job.kinds])
    numbers = [n for n, result in enumerate(stitched.results) if result.records and inferred - result.inferred]
    done = decode(job, [stitched.splits[n] for n in numbers], _silent)
    for n, result in zip(numbers, done, strict=True):
        stitched.results[n] = result
    run.job = job
    for topic in sorted(inferred) if job.places_at_once else ():
        fs.remove_tree(f"{job.queue_folder}/{topic.decode()}")


def _silent(finished: int, total: int) -> None:  # noqa: ARG001 - a Progress
    return None
