"""Queue files: entries are in their places, queues out of order are reordered, fronts and ends get blank entries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from reput.files import fs
from reput.formats import paths
from reput.formats.queue.consume_queue import QueueKey, QueueRange
from reput.pipeline.build.queues import blanks
from reput.pipeline.build.queues.ext import ExtWork, build_units, clear_units, ext_tasks
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.reorder.stage import reorder_queues
from reput.pipeline.build.stages.state import Build, KeptNumbers, Lost, NextOffsets, RangeQueues
from reput.queue.file_kind import FILE, FileKind


class FileBuilder:
    """See `QueueBuilder`."""

    has_places: ClassVar[bool] = True
    has_rows: ClassVar[bool] = True

    def __init__(self) -> None:
        self._outcomes: list[QueueOutcome] = []

    def reads_parts(self, build: Build, queues: RangeQueues) -> bool:
        """Return True if a decode task that is still at work could undo what is built here."""
        return build.job.ext is not None or bool(queues.table.out_of_order())

    def place(self, build: Build, queues: RangeQueues) -> list[QueueOutcome]:
        """Build the queues that are out of order in log order; the others are in their places."""
        self._outcomes = []
        out_of_order = [key for key in queues.table.out_of_order() if build.job.holds(FILE, key)]
        if out_of_order:
            with build.stage("reorder"):
                self._outcomes = reorder_queues(
                    build.engine, build.job, queues.splits, out_of_order, build.listener, queues.ends
                )
        return self._outcomes

    def keep_numbers(self, build: Build, queues: RangeQueues, lost: Lost) -> KeptNumbers:  # noqa: ARG002 - a QueueBuilder
        """Find none: all queues have rows."""
        return KeptNumbers()

    def finish(self, build: Build, queues: RangeQueues, kept: NextOffsets) -> None:
        """Fill fronts of new queues and ends of queues that keep their numbers with blanks; build ext units."""
        new = [(key, int(queues.table.first[row])) for key, row in _held(build, queues) if not queues.ends.get(key)]
        retained = [(one.key, one.next) for one in kept.retained if build.job.holds(FILE, one.key)]
        ends = [one for one in kept.ends if build.job.holds(FILE, one.key)]
        fronts = blanks.front_blanks(build.job, new, retained)
        if fronts:
            with build.stage("pre-blank"):
                build.run(blanks.blank_fronts, blanks.in_tasks(fronts))
        if ends:
            with build.stage("keep-ends"):
                build.run(blanks.blank_end_of_queue, ends)
        if build.job.ext is not None:
            self._build_ext(build, queues)

    def _build_ext(self, build: Build, queues: RangeQueues) -> None:
        table, begun_again = queues.table, {one.key for one in self._outcomes if one.restarts}
        work = [
            ExtWork(
                QueueRange(key, int(table.first[row]), int(table.next[row])),
                afresh=key in begun_again or not queues.ends.get(key),
            )
            for key, row in _held(build, queues)
        ]
        with build.stage("ext"):
            fs.make_dirs(build.job.ext_folder, build.job.owner)
            clear_units(build.job, work)
            units = sum(build.run(build_units, ext_tasks(work)))
        build.note(f"ConsumeQueueExt: {units} units")

    def verify(self, build: Build, queues: RangeQueues) -> list[str]:
        """Compare the end of each queue's files, which have no hole, with the end of its records."""
        ends = {key: int(queues.table.next[row]) for key, row in _held(build, queues)}
        wrong = []
        for queue in FileKind(Path(build.job.queue_folder), build.job.queue_file_size).queues():
            end = queue.span().max_offset
            expected = ends.pop(queue.key, end)
            if end != expected:
                wrong.append(f"{queue.key}: ends at {end}, its records at {expected}")
        return wrong + [f"{key}: no queue" for key in ends]

    def parts(self, build: Build) -> list[str]:
        """Return the folders of queues and of their ext units: whole, or those of the topics that were built."""
        job = build.job
        folders = {paths.CONSUME_QUEUE: job.queue_folder}
        if job.ext is not None:
            folders[paths.CONSUME_QUEUE_EXT] = job.ext_folder
        found = []
        for part, folder in folders.items():
            fs.make_dirs(folder, job.owner)
            topics = [entry.name for entry in fs.list_dir(folder) if not entry.is_file]
            found += [part] if job.of_all_topics else [f"{part}/{topic}" for topic in topics]
        return found

    def close(self) -> None:
        """Do nothing: no file is held open."""


def _held(build: Build, queues: RangeQueues) -> Iterator[tuple[QueueKey, int]]:
    """Yield each queue of the range that files hold, with its row."""
    return ((key, row) for key, row in queues.present() if build.job.holds(FILE, key))
