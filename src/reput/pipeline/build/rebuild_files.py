"""rebuild, queue files: entries are in their places already; crooked queues are redone, fronts and ends get blanks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from reput.files import fs
from reput.formats import paths
from reput.formats.consume_queue import QueueKey
from reput.pipeline.build import finish
from reput.pipeline.build.ext_build import ExtWork, build_units, ext_tasks
from reput.pipeline.build.queue_builder import QueueOutcome
from reput.pipeline.build.rebuild_state import EndToKeep, RebuildRun
from reput.pipeline.build.redo_job import redo_queues
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.stitch import Stitched
from reput.queue.file_kind import FileKind
from reput.store.disk.retained import Retained


class FileSide:
    """See `kinds.QueueSide`."""

    reads_parts: ClassVar[bool] = False

    def build(self, run: RebuildRun, stitched: Stitched, table: SplitQueues) -> list[QueueOutcome]:
        """Build the crooked queues again in log order; the others are built."""
        crooked: list[QueueKey] = table.crooked()
        if not crooked:
            return []
        with run.stage("redo"):
            return redo_queues(run.engine, run.job, stitched, crooked, run.listener)

    def finish(
        self,
        run: RebuildRun,
        table: SplitQueues,
        retained: Sequence[Retained],
        kept: Sequence[EndToKeep],
        end: int,  # noqa: ARG002 - files do not say how far they go
    ) -> None:
        """Fill with blanks what is in front of first messages, and the ends of queues that keep their numbers."""
        queues = [(key, int(table.first[row])) for key, row in table.rows.items() if table.count[row]]
        work = finish.front_blanks(run.job, queues, [(one.key, one.next) for one in retained])
        if work:
            with run.stage("pre-blank"):
                run.engine.run(partial(finish.blank_fronts, run.job), finish.in_tasks(work), run.listener.advance)
        ends = [finish.EndBlank(*one) for one in kept]
        if ends:
            with run.stage("keep-ends"):
                run.engine.run(partial(finish.blank_end_of_queue, run.job), ends, run.listener.advance)
        if run.job.ext is not None:
            self._build_ext(run, table)

    def _build_ext(self, run: RebuildRun, table: SplitQueues) -> None:
        work = [
            ExtWork(key, int(table.first[row]), int(table.next[row]), afresh=True)
            for key, row in table.rows.items()
            if table.count[row] and run.job.wants(key.topic)
        ]
        with run.stage("ext"):
            fs.make_dirs(run.job.ext_folder, run.job.owner)
            units = sum(run.engine.run(partial(build_units, run.job), ext_tasks(work), run.listener.advance))
        run.report.notes.append(f"ConsumeQueueExt: {units} units")

    def parts(self, run: RebuildRun) -> list[str]:
        """The folders of queues and of their ext units: whole, or those of the topics that were built."""
        job = run.job
        folders = {paths.CONSUME_QUEUE: job.queue_folder}
        if job.ext is not None:
            folders[paths.CONSUME_QUEUE_EXT] = job.ext_folder
        found = []
        for part, folder in folders.items():
            fs.make_dirs(folder, job.owner)
            topics = [entry.name for entry in fs.list_dir(folder) if entry.is_dir]
            found += [part] if job.of_all_topics else [f"{part}/{topic}" for topic in topics]
        return found

    def verify(self, run: RebuildRun, table: SplitQueues) -> list[str]:
        """Each queue's files must end, without a hole in between, where its records do."""
        ends = {key: int(table.next[row]) for key, row in table.rows.items() if table.count[row]}
        wrong = []
        for queue in FileKind(Path(run.job.queue_folder), run.job.queue_file_size).queues():
            told = queue.span().max_offset
            expected = ends.pop(queue.key, told)
            if told != expected:
                wrong.append(f"{queue.key}: ends at {told}, its records at {expected}")
        return wrong + [f"{key}: no queue" for key in ends]
