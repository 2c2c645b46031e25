"""redo, the driver's side: take the crooked queues out of the splits, then build each in log order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reput.files import fs
from reput.formats.consume_queue import QueueKey
from reput.pipeline import redo
from reput.pipeline.engine import Engine
from reput.pipeline.job import Job
from reput.pipeline.listener import ProgressListener
from reput.pipeline.plan import Split
from reput.pipeline.stitch import Stitched


def redo_queues(
    engine: Engine, job: Job, stitched: Stitched, crooked: list[QueueKey], listener: ProgressListener
) -> list[redo.QueueOutcome]:
    """Build these queues again in log order, in the job's staging folder."""
    splits = [split for split, result in zip(stitched.splits, stitched.results, strict=True) if result.records]
    extracts = extract_queues(engine, job, splits, crooked, listener)
    outcomes = engine.run(partial(_redo_task, job), list(extracts.items()), listener.advance)
    _remove_empty_topics(job, outcomes)
    return outcomes


def extract_queues(
    engine: Engine, job: Job, splits: Sequence[Split], crooked: list[QueueKey], listener: ProgressListener
) -> dict[QueueKey, list[tuple[redo.Extract, int]]]:
    """Take these queues out of the splits; per queue its extracts in log order, with all entries of each one's file."""
    found = engine.run(partial(_extract_task, job, crooked), splits, listener.advance)
    extracts: dict[QueueKey, list[tuple[redo.Extract, int]]] = {key: [] for key in crooked}
    for listed in found:
        in_file = sum(part.entries for _, part in listed)
        for key, part in listed:
            extracts[key].append((part, in_file))
    return extracts


def _remove_empty_topics(job: Job, outcomes: Sequence[redo.QueueOutcome]) -> None:
    """Remove the staged folders of topics that only a wrong decoding had seen."""
    for topic in {outcome.key.topic for outcome in outcomes if not outcome.entries}:
        folder = f"{job.queue_folder}/{topic.decode()}"
        if not fs.list_dir(folder):
            fs.remove_tree(folder)


def _extract_task(job: Job, keys: Sequence[QueueKey], split: Split) -> list[tuple[QueueKey, redo.Extract]]:
    return redo.extract(job, split, keys)


def _redo_task(job: Job, work: tuple[QueueKey, Sequence[tuple[redo.Extract, int]]]) -> redo.QueueOutcome:
    return redo.redo_queue(job, *work)
