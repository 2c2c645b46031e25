"""The first stage of a build: tasks decode the splits, and the driver proves that the splits join.

Tasks of a rebuild place entries at once, in staging, where a wrong decoding can be built again. What a job writes in
live files cannot be taken back, so its tasks leave entries until the splits are proved (`Job.places_at_once`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from reput.files import fs
from reput.formats.consume_queue import QueueKey
from reput.pipeline.build.stages.state import Build
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import Split
from reput.pipeline.split.stitch import Stitched, inferred_topics, stitch
from reput.pipeline.split.tasks import decode_and_sink
from reput.queue.kinds import QueueKind
from reput.store.disk.kinds import all_kinds
from reput.store.disk.queue_types import refuse_batches_beside


def decode_splits(build: Build, splits: Sequence[Split]) -> list[SplitResult]:
    """Decode splits in tasks."""
    return build.run(decode_and_sink, splits)


def prove(
    build: Build,
    begin: int,
    splits: Sequence[Split],
    results: Sequence[SplitResult],
    holes: Collection[tuple[int, int]] = (),
) -> Stitched:
    """Prove the splits from log offset `begin` on, and decode again those that do not join.

    `holes` are the ranges that no log file covers. Afterwards every split knows the topics of queues of batches.
    """
    found = {result.number: result for result in results}
    tainted: list[QueueKey] = []

    def again(split: Split) -> SplitResult:
        # An attempt of the wrong decoding may still be at work.
        build.fence_late_tasks()
        if build.job.build_queues and build.job.places_at_once and found[split.number].records:
            tainted.extend(parts.load_ranges(build.job, split.number).keys)
        return build.engine.run(partial(decode_and_sink, build.job), [split], _silent)[0]

    stitched = stitch(begin, splits, results, again, holes)
    stitched.tainted = tainted
    inferred = inferred_topics(stitched.results)
    if inferred:
        build.fence_late_tasks()
        kinds = [all_kinds(build.layout)[name] for name in build.job.kinds]
        build.job = learn_types(
            build.job,
            stitched,
            kinds,
            lambda job, more: build.engine.run(partial(decode_and_sink, job), more, _silent),
        )
        for topic in sorted(inferred) if build.job.places_at_once else ():
            fs.remove_tree(f"{build.job.queue_folder}/{topic.decode()}")
    return stitched


def learn_types(
    job: Job,
    stitched: Stitched,
    kinds: Iterable[QueueKind],
    decode: Callable[[Job, list[Split]], list[SplitResult]],
) -> Job:
    """Decode again the splits that missed a topic with queues of batches; returns the job that knows these topics.

    If records alone show that a topic has queues of batches, a split without such a record takes the topic's messages
    for entries of other queues.

    Raises:
        UnsupportedStoreError: the store has `kinds` that exclude queues of batches.
    """
    inferred = inferred_topics(stitched.results)
    if not inferred:
        return job
    job = replace(job, types=job.types._replace(batch=job.types.batch | inferred))
    refuse_batches_beside(job.types, kinds)
    numbers = [n for n, result in enumerate(stitched.results) if result.records and inferred - result.inferred]
    done = decode(job, [stitched.splits[n] for n in numbers])
    for n, result in zip(numbers, done, strict=True):
        stitched.results[n] = result
    return job


def _silent(finished: int, total: int) -> None:  # noqa: ARG001 - a Progress
    return None
