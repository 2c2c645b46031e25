"""check: the IndexFiles against the log. Tasks compare one file each (`index.py`), and the driver reports them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

from reput.formats.index.index_file import file_size
from reput.index.files import IndexFileOnDisk, read_header
from reput.index.kinds import AnyIndex
from reput.pipeline.check.findings import folder_missing, index_findings, uncovered_findings
from reput.pipeline.check.index_file_tasks import (
    IndexFileChecked,
    IndexFileToCheck,
    check_index_file,
    find_uncovered,
)
from reput.pipeline.check.items import IndexPart
from reput.pipeline.check.state import Check
from reput.pipeline.split.job import Job, SplitResult

_HEADER_READS_MOST = 100


class FileIndexCheck:
    """See `IndexCheck`."""

    def compares(self, index: AnyIndex) -> bool:
        """See `IndexCheck`."""
        return index.is_present

    def check(self, check: Check, index: AnyIndex, results: Sequence[SplitResult]) -> None:
        """See `IndexCheck`."""
        if index.name in check.job.indexes:
            _compare(check, results)
        elif index.name in check.settings.indexes.built and any(result.items for result in results):
            first = next(result.first_record for result in results if result.items)
            folder_missing(check, "index", str(index.folder), "no IndexFiles at all", first)


def _compare(check: Check, results: Sequence[SplitResult]) -> None:
    job, report = check.job, check.report
    index_parts = [
        IndexPart(result.number, result.items, result.first_record, result.last_record + 1)
        for result in results
        if result.records
    ]
    files: list[IndexFileToCheck] = []
    before = None
    for file in _index_files(check):
        if file.header is None or file.size != _index_size(job):
            detail = f"{file.size} bytes instead of {_index_size(job)}"
            report.damage("index-file-size", str(file.path), None, 1, detail)
            before = None
        else:
            log_min = check.log.min_offset
            log_max = index_parts[-1].end if index_parts else log_min
            grows = job.judged_to is not None
            log_max = job.judged_to if job.judged_to is not None else log_max
            log_end = report.log_max_offset
            files.append(IndexFileToCheck(str(file.path), file.header, before, log_min, log_max, log_end, grows))
            before = file.header
    with check.stage("index"):
        task = partial(check_index_file, job, index_parts)
        checked = check.engine.run(task, files, check.listener.advance)
        index_findings(check, files, checked)
        _find_uncovered(check, index_parts, files, checked)
    report.index_files = len(files)
    report.index_items = sum(one.items for one in checked)


def _index_files(check: Check) -> list[IndexFileOnDisk]:
    """Return the IndexFiles to judge: beside a holder that appends, up to the last one with a judged item."""
    # Listed again: a program may have come and extended the indexes while the log was decoded.
    files, judged_to = replace(check.store).index_files, check.job.judged_to
    if judged_to is None:
        return files
    last = max(
        (
            number
            for number, file in enumerate(files)
            if file.header and file.header.index_count > 1 and file.header.begin_physical_offset < judged_to
        ),
        default=-1,
    )
    return [*files[:last], _settled(files[last])] if last >= 0 else []


def _settled(file: IndexFileOnDisk) -> IndexFileOnDisk:
    """Read the header of a file that may be growing, until two reads agree: then it is not half old and half new."""
    for _ in range(_HEADER_READS_MOST):
        before = file.header
        file = replace(file, header=read_header(file.path))
        if file.header == before:
            break
    return file


def _index_size(job: Job) -> int:
    return file_size(job.index_slots, job.index_items)


def _find_uncovered(
    check: Check,
    index_parts: list[IndexPart],
    files: list[IndexFileToCheck],
    checked: list[IndexFileChecked],
) -> None:
    covered = _by_part(index_parts, [one for file in checked for one in file.covered])
    work = [
        (part, ranges) for part, ranges in zip(index_parts, covered, strict=True) if not _is_whole(ranges, part.items)
    ]
    found = check.engine.run(partial(find_uncovered, check.job), work, check.listener.advance)
    index_end = max((file.header.end_physical_offset for file in files), default=-1)
    skipped_tags = sum(one.skipped_tags for one in checked)
    uncovered_findings(check, index_end, skipped_tags, found)


def _by_part(index_parts: list[IndexPart], ranges: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Convert ranges of the log's items to ranges of each split's items."""
    firsts = list(accumulate((part.items for part in index_parts), initial=0))
    found: list[list[tuple[int, int]]] = [[] for _ in index_parts]
    for begin, end in ranges:
        row = bisect_right(firsts, begin) - 1
        while row < len(index_parts) and firsts[row] < end:
            found[row].append((max(begin, firsts[row]) - firsts[row], min(end, firsts[row + 1]) - firsts[row]))
            row += 1
    return found


def _is_whole(ranges: list[tuple[int, int]], items: int) -> bool:
    reached = 0
    for begin, end in sorted(ranges):
        if begin > reached:
            return False
        reached = max(reached, end)
    return reached >= items
