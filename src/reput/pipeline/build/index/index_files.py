"""IndexFiles in jobs: a rebuild makes new ones, and a job that follows the log appends to the last one.

One task builds one IndexFile. If there are few, cores are idle, and queues can be built at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.index.index_file import capacity, file_size
from reput.halving import first_where
from reput.index.files import IndexFileOnDisk, list_index_files, read_items
from reput.log.read.maps import LogMaps
from reput.pipeline.build.index.built import IndexBuilt
from reput.pipeline.build.index.plan import IndexEnd, IndexFilePlan, IndexFileResult, largest_first, plan_of
from reput.pipeline.build.index.write import append_items, build_index_file
from reput.pipeline.build.stages.state import Build
from reput.pipeline.spark.engine import Started
from reput.pipeline.split import parts
from reput.pipeline.split.decode import DecodedSplit
from reput.pipeline.split.job import Job, SplitResult
from reput.store.owner.indexer import CatchUpTask


class FileIndexJobs:
    """See `IndexJobs`."""

    def builder(self, build: Build, results: Sequence[SplitResult]) -> FileIndexBuilder:
        """See `IndexJobs`."""
        return FileIndexBuilder(build, results)

    def grower(self, task: CatchUpTask, job: Job, log_file_size: int) -> FileIndexGrower:
        """See `IndexJobs`."""
        return FileIndexGrower(task, job, log_file_size)

    def append(
        self, job: Job, decoded: DecodedSplit, result: SplitResult, end: IndexEnd, named_at: datetime
    ) -> list[IndexFileResult]:
        """See `IndexJobs`."""
        return append_items(job, parts.items_of(decoded.columns), result, end, named_at)


class FileIndexBuilder:
    """See `IndexBuilder`."""

    def __init__(self, build: Build, results: Sequence[SplitResult]) -> None:
        self._build = build
        self._started: Started[IndexFileResult] | None = None
        self._plans = largest_first(plan_of(build.job, results))

    def start(self) -> None:
        """See `IndexBuilder`."""
        if self._plans:
            self._started = self._build.engine.start(partial(build_index_file, self._build.job), self._plans)

    def finish(self) -> IndexBuilt:
        """See `IndexBuilder`. The stage's seconds are the wait for the files."""
        build = self._build
        with build.stage("index"):
            if self._started is not None:
                made = self._started.results(build.listener.advance)
            else:
                made = build.run(build_index_file, self._plans)
        return IndexBuilt((paths.INDEX,), tuple(sorted(made)))

    def stop(self) -> None:
        """See `IndexBuilder`."""
        if self._started is not None:
            self._started.results()


class FileIndexGrower:
    """See `IndexGrower`. What lies above the frontier is first removed: a crash or a dead job left it."""

    has_files: ClassVar[bool] = True

    def __init__(self, task: CatchUpTask, job: Job, log_file_size: int) -> None:
        files = list_index_files(task.layout.index)
        self.end = _index_end(task, files, capacity(task.settings.index_items), log_file_size)
        _remove_later_files(task, files, self.end)
        _remove_later_items(task, job, files, self.end)

    def work(self, build: Build, results: Sequence[SplitResult]) -> list[IndexFilePlan]:
        """See `IndexGrower`."""
        return largest_first(plan_of(build.job, results, self.end))

    def take(self, build: Build, results: Sequence[SplitResult], made: Sequence[IndexFileResult]) -> None:  # noqa: ARG002 - an IndexGrower
        """See `IndexGrower`."""
        if made:
            self.end = made[-1].end

    def close(self) -> None:
        """See `IndexGrower`."""


def _index_end(task: CatchUpTask, files: Sequence[IndexFileOnDisk], most: int, log_file_size: int) -> IndexEnd:
    """Return the end of the IndexFiles that hold items of records below the frontier.

    As in RocketMQ a file without an item is the last one if there is no item yet, or if the file before it is full. Its
    header then has the end of that file; a power cut may have taken it, and the file is removed and made anew.

    Raises:
        DamagedStoreError: the length of an IndexFile is not the one that the settings give.
    """
    size = file_size(task.settings.index_slots, task.settings.index_items)
    empty, is_blank = "", False
    for file in reversed(files):
        if file.size == 0:
            # A task was killed, or the power failed, before the file had its length. It and all after it are removed.
            empty = ""
            continue
        if file.size != size or file.header is None:
            raise DamagedStoreError(
                f"{file.path}: {file.size} bytes, {size} expected. Run `reput rebuild --only index`"
            )
        count = _items_below(task, file.path, min(file.header.index_count - 1, most))
        if count:
            last = read_items(file.path, task.settings.index_slots, count, 1)[0]
            offset = int(last["physical_offset"])
            # The header may be that of later items, or a power cut has torn it.
            with LogMaps(task.layout.commit_log, log_file_size) as log:
                place = offset, log.store_time(offset)
            if place[1] < 0:
                is_whole = (file.header.index_count, file.header.end_physical_offset) == (count + 1, offset)
                after_s = file.header.begin_timestamp + int(last["time_diff_s"]) * 1000
                place = offset, file.header.end_timestamp if is_whole else after_s
            if empty and count == most and not is_blank:
                return IndexEnd(empty, 1, place)
            return IndexEnd(file.path.name, count + 1, place)
        begin_ms, end_ms, begin, end, *_ = file.header
        # Without an item both ends are that of the file before: another header is torn.
        has_no_item = file.header.index_count <= 1 and (begin_ms, begin) == (end_ms, end)
        empty, is_blank = file.path.name if has_no_item else "", not any(file.header)
    return IndexEnd(empty)


def _items_below(task: CatchUpTask, path: Path, count: int) -> int:
    """Return the number of a file's items that belong to records below the frontier; items are in log order."""

    def is_past(number: int) -> bool:
        item = read_items(path, task.settings.index_slots, number, 1)
        return not len(item) or int(item[0]["physical_offset"]) >= task.frontiers.both

    return first_where(1, count + 1, is_past) - 1


def _remove_later_files(task: CatchUpTask, files: Sequence[IndexFileOnDisk], end: IndexEnd) -> None:
    """Remove the IndexFiles that hold nothing below the frontier; a crashed broker or a dead job left them."""
    removed = [file.path for file in files if file.path.name > end.name]
    for path in removed:
        fs.remove_file(path)
    if removed:
        task.owned.notes.append(
            f"removed IndexFiles that a crash left ahead of the indexes' end at log offset {task.frontiers.both}; what "
            f"they held is indexed again: {', '.join(path.name for path in removed)}"
        )


def _remove_later_items(task: CatchUpTask, job: Job, files: Sequence[IndexFileOnDisk], end: IndexEnd) -> None:
    """Take back items above the frontier in the last IndexFile that stays, if its header does not end before them.

    The records of a log that a power cut has shortened may have no keys: then no later item replaces these.
    """
    (header,) = [file.header for file in files if file.path.name == end.name and end.next_item > 1] or [None]
    if header is None:
        return
    if (header.index_count, header.end_physical_offset, header.end_timestamp) == (end.next_item, *end.last):
        return
    build_index_file(job, IndexFilePlan(end.name, (), None, end.next_item, end.last))
    task.owned.notes.append(
        f"removed items that a crash left ahead of the indexes' end at log offset {task.frontiers.both} from IndexFile "
        f"{end.name}; what they held is indexed again"
    )
