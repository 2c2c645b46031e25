"""check: a store's indexes held against its log. The rules are in `reput.store`; this job brings them to the data.

The same decode job as a rebuild goes over the log, comparing entries where a rebuild would write them. Nothing in the
store is created or changed; what one stage leaves for the next lies in a temporary folder.
"""

from __future__ import annotations

import dataclasses
import time
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np

from reput.config import StoreConfig
from reput.errors import DamagedStoreError, ReputError
from reput.files import fs, locks
from reput.files.scratch import ScratchFolder
from reput.formats.queue_kinds import DEFAULT_KINDS
from reput.index.files import list_index_files
from reput.log.files import list_log_files
from reput.pipeline import parts
from reput.pipeline.batch_build import learn_types
from reput.pipeline.check_batches import check_batches
from reput.pipeline.check_decode import decode_and_compare
from reput.pipeline.check_findings import (
    check_checkpoint,
    folder_missing,
    index_findings,
    log_findings,
    stray_findings,
    uncovered_findings,
)
from reput.pipeline.check_index import (
    IndexFileChecked,
    IndexFileToCheck,
    Uncovered,
    check_index_file,
    find_uncovered,
)
from reput.pipeline.check_items import IndexPart
from reput.pipeline.check_queues import (
    Mismatch,
)
from reput.pipeline.check_state import Check
from reput.pipeline.engine import Engine
from reput.pipeline.ext_job import ExtJob, ext_job
from reput.pipeline.job import Job, SplitResult
from reput.pipeline.kinds import CHECKS
from reput.pipeline.listener import ProgressListener
from reput.pipeline.merge import QueueTable
from reput.pipeline.plan import Split, plan_splits
from reput.pipeline.stitch import Stitched, stitch
from reput.store.kinds import present_kinds
from reput.store.layout import StoreLayout, find_store, refuse_what_we_cannot_build
from reput.store.queue_types import refuse_batches_beside
from reput.store.report import CheckReport
from reput.store.settings import StoreSettings, resolve_settings
from reput.store.standstill import begin_reading, end_reading

_QUEUES_A_TASK = 256


def check_store(
    root: Path | str,
    engine: Engine,
    config: StoreConfig | None = None,
    *,
    verify_crc: bool = True,
    split_mb: float = 128,
    listener: ProgressListener | None = None,
) -> CheckReport:
    """Check the store in `root`; what is wrong in it is in the report, not raised.

    On a cluster the folder for temporary files (TMPDIR) must be shared by its workers.

    Raises:
        ReputError: the store could not be looked at.
    """
    config = config or StoreConfig()
    begin = time.perf_counter()
    layout = find_store(root, config)
    refuse_what_we_cannot_build(layout, config)
    standstill = begin_reading(layout)
    with ScratchFolder("reput-check-") as work:
        check = _prepare(layout, engine, config, verify_crc, work, listener or ProgressListener())
        try:
            _run(check, split_mb)
        except ReputError as error:
            end_reading(layout, standstill, error)
            raise
        end_reading(layout, standstill)
        check.report.seconds["total"] = round(time.perf_counter() - begin, 4)
        check.report.findings.sort(key=lambda finding: (finding.severity, finding.rule, finding.file))
        return check.report


def _prepare(
    layout: StoreLayout,
    engine: Engine,
    config: StoreConfig,
    verify_crc: bool,
    work: Path,
    listener: ProgressListener,
) -> Check:
    report = CheckReport(str(layout.root), closed_cleanly=not fs.exists(layout.abort))
    if locks.broker_is_live(layout.broker_lock):
        report.closed_cleanly = False
        report.notes.append("a broker has this store open: what it writes while we look may show as behind")
    elif not report.closed_cleanly:
        report.notes.append("the store was not closed (abort is there): what a crash leaves behind is no damage")
    log = list_log_files(layout.commit_log, config.mapped_file_size_commit_log, tolerant=True)
    settings = resolve_settings(layout, config, verify_crc)
    report.assumed += settings.assumed
    job = Job(
        reput_folder=str(layout.reput),
        staging=str(work),
        epoch=0,
        decode=settings.decoding(True),
        queue_file_size=settings.queue_file_size,
        batch_queue_file_size=settings.batch_queue_file_size,
        types=settings.types,
        index_slots=settings.index_slots,
        index_items=settings.index_items,
        owner=fs.owner_of(work),
        build_queues=fs.exists(layout.consume_queue) or fs.exists(layout.batch_consume_queue),
        kinds=tuple(kind.name for kind in present_kinds(layout)) or DEFAULT_KINDS,
        build_index=settings.index_enabled and bool(list_index_files(layout.index)),
        fenced=False,
        ext=_ext_to_check(layout, settings, log.file_size, report),
        checked=str(layout.root),
    )
    refuse_batches_beside(settings.types, present_kinds(layout))
    return Check(layout, log, settings, engine, job, listener, report)


def _ext_to_check(
    layout: StoreLayout, settings: StoreSettings, log_file_size: int, report: CheckReport
) -> ExtJob | None:
    """With the filters that bitmaps are held against; without, where they are not known.

    A broker at work, or one that crashed, has computed bitmaps for filters that it has not written down.
    """
    if report.closed_cleanly:
        try:
            return ext_job(layout, dataclasses.replace(settings, calc_bitmaps=True), log_file_size)
        except DamagedStoreError as error:
            report.notes.append(f"bitmaps were not looked at: {error}")
    return ext_job(layout, dataclasses.replace(settings, calc_bitmaps=False), log_file_size)


def _run(check: Check, split_mb: float) -> None:
    fs.make_dirs(check.job.parts_folder)
    stitched, mismatches = _decode(check, split_mb)
    log_findings(check, stitched)
    report, results = check.report, stitched.results
    report.log_min_offset, report.log_max_offset = check.log.min_offset, stitched.end
    report.messages = sum(result.records for result in results)
    if check.job.build_queues:
        _check_queues(check, stitched, mismatches)
    elif report.messages:
        folder_missing(check, "queue", "no ConsumeQueues at all", _first(results, "records"))
    if check.job.build_index:
        _check_index(check, results)
    elif check.settings.index_enabled and any(result.items for result in results):
        folder_missing(check, "index", "no IndexFiles at all", _first(results, "items"))
    check_checkpoint(check)
    stray_findings(check)


def _first(results: list[SplitResult], what: str) -> int:
    """The log offset from which on there are records, or records with index items."""
    return next(result.first_record for result in results if getattr(result, what))


def _decode(check: Check, split_mb: float) -> tuple[Stitched, dict[int, list[Mismatch]]]:
    splits = plan_splits(check.log, max(1, int(split_mb * (1 << 20))))
    task = partial(_compare_task, check.job, str(check.layout.consume_queue))
    mismatches: dict[int, list[Mismatch]] = {}

    def again(split: Split) -> SplitResult:
        (result, found), *_ = check.engine.run(task, [split], _silent)
        mismatches[split.number] = found
        return result

    with check.stage("decode", sum(min(split.end, split.data_end) - split.begin for split in splits)):
        outcomes = check.engine.run(task, splits, check.listener.advance)
        for result, found in outcomes:
            mismatches[result.number] = found
        results = [result for result, _ in outcomes]
        stitched = stitch(check.log.min_offset, splits, results, again, check.log.gaps)

        def decode(job: Job, more: list[Split]) -> list[SplitResult]:
            task = partial(_compare_task, job, str(check.layout.consume_queue))
            found = check.engine.run(task, more, _silent)
            mismatches.update((result.number, ones) for result, ones in found)
            return [result for result, _ in found]

        check.job = learn_types(check.job, stitched, present_kinds(check.layout), decode)
        return stitched, mismatches


def _silent(finished: int, total: int) -> None:  # noqa: ARG001 - a Progress
    return None


def _compare_task(job: Job, live_folder: str, split: Split) -> tuple[SplitResult, list[Mismatch]]:
    return decode_and_compare(job, live_folder, split)


def _check_queues(check: Check, stitched: Stitched, mismatches: dict[int, list[Mismatch]]) -> None:
    table = QueueTable()
    for result in stitched.results:
        if result.records:
            table.add(parts.load_ranges(parts.ranges_path(check.job.parts_folder, result.number)))
    check_batches(check, stitched, table)
    for kind in check.job.kinds:
        CHECKS[kind].judge(check, stitched, table, mismatches)
    check.report.queues += int(np.count_nonzero(table.count[: len(table.keys)]))
    check.report.queue_entries += int(table.count[: len(table.keys)].sum())


def _check_index(check: Check, results: list[SplitResult]) -> None:
    job, report = check.job, check.report
    index_parts = [
        IndexPart(result.number, result.records, result.items, result.first_record, result.last_record + 1)
        for result in results
        if result.records
    ]
    files: list[IndexFileToCheck] = []
    before = None
    for file in list_index_files(check.layout.index):
        if file.header is None or file.size != _index_size(job):
            detail = f"{file.size} bytes instead of {_index_size(job)}"
            report.damage("index-file-size", str(file.path), None, 1, detail)
            before = None
        else:
            log_max = index_parts[-1].end if index_parts else check.log.min_offset
            files.append(IndexFileToCheck(str(file.path), file.header, before, check.log.min_offset, log_max))
            before = file.header
    with check.stage("index"):
        task = partial(_index_task, job, index_parts)
        checked = check.engine.run(task, files, check.listener.advance)
        index_findings(check, files, checked)
        _find_uncovered(check, index_parts, files, checked)
    report.index_files = len(files)
    report.index_items = sum(one.items for one in checked)


def _index_size(job: Job) -> int:
    from reput.formats.index_file import file_size

    return file_size(job.index_slots, job.index_items)


def _index_task(job: Job, index_parts: list[IndexPart], file: IndexFileToCheck) -> IndexFileChecked:
    return check_index_file(job, index_parts, file)


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
    found = check.engine.run(partial(_uncovered_task, check.job), work, check.listener.advance)
    index_end = max((file.header.end_physical_offset for file in files), default=-1)
    skipped_tags = sum(one.skipped_tags for one in checked)
    uncovered_findings(check, index_end, skipped_tags, found)


def _by_part(index_parts: list[IndexPart], ranges: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Ranges of the log's items, numbered through, as ranges of each split's own."""
    firsts = list(accumulate((part.items for part in index_parts), initial=0))
    found: list[list[tuple[int, int]]] = [[] for _ in index_parts]
    for begin, end in ranges:
        row = bisect_right(firsts, begin) - 1
        while row < len(index_parts) and firsts[row] < end:
            found[row].append((max(begin, firsts[row]) - firsts[row], min(end, firsts[row + 1]) - firsts[row]))
            row += 1
    return found


def _uncovered_task(job: Job, work: tuple[IndexPart, list[tuple[int, int]]]) -> Uncovered:
    return find_uncovered(job, work)


def _is_whole(ranges: list[tuple[int, int]], items: int) -> bool:
    reached = 0
    for begin, end in sorted(ranges):
        if begin > reached:
            return False
        reached = max(reached, end)
    return reached >= items
