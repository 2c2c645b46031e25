"""reorder in the driver: take the queues out of order from the splits, then build each in log order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from reput.files import fs
from reput.formats.queue.consume_queue import QueueKey
from reput.pipeline.build.reorder import tasks
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.job import Job
from reput.pipeline.split.plan import Split

_GROUPS_MOST = 256


class QueueGroup(NamedTuple):
    """Queues that one task reorders: the number of the first of them among all queues out of order, and their keys."""

    first: int
    keys: tuple[QueueKey, ...]


class Extracts(NamedTuple):
    """The splits that have entries of out-of-order queues, in log order, and the tasks' groups of queues.

    Each split's part lists the queues of its entries: the driver never holds that list.
    """

    splits: tuple[int, ...]
    groups: tuple[QueueGroup, ...]

    def of_group(self, job: Job, group: QueueGroup) -> list[list[tasks.Extract]]:
        """Return the extracts of a group's queues, in log order."""
        return tasks.extracts_of(job, self.splits, group.first, len(group.keys))


def reorder_queues(
    engine: Engine,
    job: Job,
    splits: Sequence[Split],
    out_of_order: list[QueueKey],
    listener: ProgressListener,
    ends: Mapping[QueueKey, int] | None = None,
) -> list[QueueOutcome]:
    """Build these queues in log order from the splits; a queue that has entries continues at its offset in `ends`."""
    extracts = extract_queues(engine, job, splits, out_of_order, listener)
    work = [(group, tuple((ends or {}).get(key, 0) for key in group.keys)) for group in extracts.groups]
    done = engine.run(partial(_reorder_task, job, extracts._replace(groups=())), work, listener.advance)
    outcomes = [outcome for group in done for outcome in group]
    if not job.live:
        _remove_empty_topics(job, outcomes)
    return outcomes


def extract_queues(
    engine: Engine, job: Job, splits: Sequence[Split], out_of_order: list[QueueKey], listener: ProgressListener
) -> Extracts:
    """Take the entries of these queues out of the splits."""
    counts = engine.run(partial(_extract_task, job, out_of_order), splits, listener.advance)
    return Extracts(
        tuple(split.number for split, count in zip(splits, counts, strict=True) if count),
        tuple(in_groups(out_of_order)),
    )


def in_groups(queues: Sequence[QueueKey]) -> Iterator[QueueGroup]:
    """Yield queues in groups of one size, each of them the work of a task."""
    each = max(1, -(-len(queues) // _GROUPS_MOST))
    yield from (QueueGroup(at, tuple(queues[at : at + each])) for at in range(0, len(queues), each))


def _remove_empty_topics(job: Job, outcomes: Sequence[QueueOutcome]) -> None:
    """Remove the staged folders of topics that only a wrong decoding had seen."""
    for topic in {outcome.key.topic for outcome in outcomes if not outcome.entries}:
        folder = f"{job.queue_folder}/{topic.decode()}"
        if not fs.list_dir(folder):
            fs.remove_tree(folder)


def _extract_task(job: Job, keys: Sequence[QueueKey], split: Split) -> int:
    return tasks.extract(job, split, keys)


def _reorder_task(job: Job, extracts: Extracts, work: tuple[QueueGroup, tuple[int, ...]]) -> list[QueueOutcome]:
    group, ends = work
    found = extracts.of_group(job, group)
    return [tasks.reorder_queue(job, key, parts, end) for key, parts, end in zip(group.keys, found, ends, strict=True)]
