"""check: compares a store's indexes with its log. The rules are in `reput.store`; this job applies them to the data.

The same decode job as in a rebuild reads the log, and compares entries where a rebuild writes them. Nothing in the
store is changed; files between stages are in a temporary folder.

A process may append to the store meanwhile: a writer, a follower, a broker. Then the log is judged up to the confirmed
offset, and the indexes up to their frontier; entries of later records are ignored. A finding of such a look counts only
if the next look has it too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from reput.config import StoreConfig
from reput.errors import DamagedStoreError, ReputError, StoreLockedError
from reput.files import fs
from reput.files.scratch import ScratchFolder
from reput.pipeline.build.stages.decode import decode_splits, prove
from reput.pipeline.build.stages.place import merge
from reput.pipeline.check import deletions as check_deletions
from reput.pipeline.check.decode import decode_and_compare
from reput.pipeline.check.findings import (
    check_checkpoint,
    folder_findings,
    folder_missing,
    log_findings,
    own_findings,
    stray_findings,
)
from reput.pipeline.check.index_kinds import INDEX_CHECKS
from reput.pipeline.check.kinds import checks_of
from reput.pipeline.check.metadata import metadata_findings
from reput.pipeline.check.queue_file_tasks import Mismatch
from reput.pipeline.check.report import CheckReport, Finding
from reput.pipeline.check.rules import NOTE, SETTING
from reput.pipeline.check.state import Check
from reput.pipeline.spark.engine import Engine, Progress
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.ext_job import ExtJob, ext_job
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.plan import MAX_SPLIT_MB, Split, mib, plan_splits
from reput.pipeline.split.stitch import Stitched
from reput.store.disk.abort import is_closed
from reput.store.disk.contradictions import contradictions, without_wrong_sizes
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.settings import StoreSettings
from reput.store.disk.store import StoreOnDisk
from reput.store.open.beside import last_referenced
from reput.store.owner.holders import Holder, Who
from reput.store.owner.standstill import Standstill, begin_reading, end_reading

_LOOKS_MOST = 4
_SEEN_NAMED = 3


def check_store(
    root: Path | str,
    engine: Engine,
    config: StoreConfig | None = None,
    *,
    verify_crc: bool = True,
    split_mb: float = 128,
    listener: ProgressListener | None = None,
) -> CheckReport:
    """Check the store in `root`; faults are in the report, not raised.

    On a cluster the folder for temporary files (TMPDIR) must be shared by its workers.

    Raises:
        ReputError: the store cannot be read.
    """
    config = config or StoreConfig()
    begin = time.perf_counter()
    store = StoreOnDisk.find(root, config, Purpose.CHECK)
    layout = store.layout
    contradicted = contradictions(store)
    judged_with = without_wrong_sizes(config, contradicted)
    listener = listener or ProgressListener()
    mib("split_mb", split_mb, MAX_SPLIT_MB)
    looks = [_look(layout, engine, judged_with, verify_crc, split_mb, listener)]
    while not looks[-1].counts:
        if len(looks) == _LOOKS_MOST:
            raise looks[-1].error or StoreLockedError(
                f"{layout.root}: the store changed during all {_LOOKS_MOST} attempts, because {looks[-1].holder.text} "
                "has it. Check it when that process is done"
            )
        looks.append(_look(layout, engine, judged_with, verify_crc, split_mb, listener))
        _keep_what_both_found(looks[-2], looks[-1])
    report = looks[-1].report
    assert report is not None
    if len(looks) > 1:
        report.notes.append(_looked_again(looks))
    report.seconds["total"] = round(time.perf_counter() - begin, 4)
    for one in contradicted:
        if one.is_of_size and not config.force_setting:
            report.remark(SETTING, "setting-contradicted", str(one.place), 1, f"{one.text}: correct the setting")
        else:
            report.notes.insert(0, one.text)
    for text in store.contradicted if not config.force_setting else ():
        report.remark(SETTING, "setting-contradicted", str(layout.root), 1, text)
    report.findings.sort(key=_turn)
    return report


def _turn(one: Finding) -> tuple[bool, str, bool, str, str]:
    """Return the sort key of a finding: what is wrong with the log comes first, since it may cause the rest."""
    return one.severity != SETTING, one.severity, not one.rule.startswith("log-"), one.rule, one.file


@dataclass(slots=True)
class _Look:
    """One look at a store; `report` is None if it ended with an `error`, which a change meanwhile may explain.

    `counts`: its findings are valid, since nothing changed meanwhile, or another look has them too.
    """

    holder: Holder
    report: CheckReport | None = None
    counts: bool = False
    error: ReputError | None = None

    @property
    def suspects(self) -> set[tuple[str, str, int | None]]:
        """The findings that a change meanwhile may explain."""
        return {(one.rule, one.file, one.offset) for one in self._more_than_notes}

    @property
    def seen(self) -> list[str]:
        """The error, or the findings that a change meanwhile may explain, as texts."""
        if self.error is not None:
            return [str(self.error)]
        return sorted(f"{one.rule} in {one.file}: {one.detail:.300}" for one in self._more_than_notes)

    @property
    def _more_than_notes(self) -> list[Finding]:
        return [one for one in self.report.findings if one.severity != NOTE] if self.report else []


def _looked_again(looks: Sequence[_Look]) -> str:
    """Return a note about the looks, with what those before the last one saw."""
    seen = [text for look in looks[:-1] for text in look.seen]
    some = "; ".join([*dict.fromkeys(seen)][:_SEEN_NAMED])
    return f"the store was in use, so findings were looked at again: {len(looks)} looks. The earlier ones saw: {some}"


def _keep_what_both_found(before: _Look, now: _Look) -> None:
    """Keep the findings that two looks have, unless one of them ended with an error."""
    if now.report is None or before.report is None or now.counts:
        return
    shared = before.suspects & now.suspects
    if shared:
        now.report.findings = [
            one for one in now.report.findings if one.severity == NOTE or (one.rule, one.file, one.offset) in shared
        ]
        now.counts = True


def _look(
    layout: StoreLayout,
    engine: Engine,
    config: StoreConfig,
    verify_crc: bool,
    split_mb: float,
    listener: ProgressListener,
) -> _Look:
    standstill = begin_reading(layout)
    look = _Look(standstill.holder)
    with ScratchFolder("reput-check-") as work:
        try:
            check = _prepare(layout, engine, config, verify_crc, work, listener, standstill)
            _run(check, split_mb)
            look.report = check.report
        except ReputError as error:
            look.error = error
    try:
        stood_still = end_reading(layout, standstill, look.error)
    except StoreLockedError as error:
        if standstill.holder.who is not Who.WRITER:
            raise
        # The writer has deleted queues, or a job has followed it: the next look sees which.
        look.error, look.report = error, None
        return look
    if look.error is not None and stood_still:
        raise look.error
    look.counts = look.report is not None and (stood_still or not look.suspects)
    return look


def _prepare(
    layout: StoreLayout,
    engine: Engine,
    config: StoreConfig,
    verify_crc: bool,
    work: Path,
    listener: ProgressListener,
    standstill: Standstill,
) -> Check:
    holder = standstill.holder
    report = CheckReport(
        str(layout.root),
        closed_cleanly=is_closed(layout) and holder.who is not Who.BROKER,
        held_by=holder.who,
        held_by_pid=holder.pid,
    )
    # Listed after the confirmed offset was read, so that all files up to there are seen.
    store = StoreOnDisk(layout, config, Purpose.CHECK, verify_crc=verify_crc, tolerant=True, below=standstill.confirmed)
    if holder.who is Who.BROKER:
        standstill = _referenced_by_broker(store, standstill)
        store = replace(store, below=standstill.confirmed)
    log, settings = store.log, store.settings
    report.indexes_to = standstill.frontier
    report.notes += _holder_notes(report, standstill)
    report.assumed += settings.assumed
    report.notes += settings.notes
    job = Job.of_store(layout, settings, store.kinds, work, epoch=0)
    job = replace(
        job,
        # Of a database that was copied in part the queues are lost, and not those of another kind.
        placement=settings.placement if store.partial_database else job.placement,
        owner=fs.owner_of(work),
        build_queues=any(map(fs.is_dir, layout.queue_folders)),
        indexes=tuple(name for name in settings.indexes.built if INDEX_CHECKS[name].compares(store.indexes[name])),
        fenced=False,
        places_at_once=False,
        ext=_ext_to_check(layout, settings, log.file_size, report),
        checked=str(layout.root),
        judged_to=standstill.frontier,
        deleted=check_deletions.not_missed(layout, log.min_offset),
    )
    store.refuse()
    half_deleted = check_deletions.half_deleted(layout)
    return Check(store, engine, job, listener, report, standstill.confirmed, half_deleted)


def _referenced_by_broker(store: StoreOnDisk, standstill: Standstill) -> Standstill:
    """Return how far a broker has come.

    It makes the entries of one record after the other, so every record before the last one with entries has its own.
    """
    with store.maps() as maps:
        begin, end = last_referenced(store.kinds, maps)
    return standstill._replace(frontier=begin, confirmed=end)


def _holder_notes(report: CheckReport, standstill: Standstill) -> list[str]:
    if standstill.frontier is None:
        crashed = "the store was not closed (abort exists): remains of a crash are not damage"
        return [] if report.closed_cleanly else [crashed]
    log = "" if standstill.confirmed is None else f"the log up to {standstill.confirmed}, "
    return [f"{standstill.holder.text} has this store open: checked {log}the indexes up to {standstill.frontier}"]


def _ext_to_check(
    layout: StoreLayout, settings: StoreSettings, log_file_size: int, report: CheckReport
) -> ExtJob | None:
    """Return the ext job, with the filters for bitmaps if they are known.

    A running or crashed broker has computed bitmaps for filters that it has not written to a file.
    """
    if report.closed_cleanly:
        try:
            return ext_job(layout, replace(settings, calc_bitmaps=True), log_file_size)
        except DamagedStoreError as error:
            report.notes.append(f"bitmaps were not checked: {error}")
    return ext_job(layout, replace(settings, calc_bitmaps=False), log_file_size)


def _run(check: Check, split_mb: float) -> None:
    fs.make_dirs(check.job.parts_folder)
    stitched, mismatches = _decode(check, split_mb)
    folder_findings(check)
    metadata_findings(check)
    own_findings(check)
    log_findings(check, stitched)
    report = check.report
    report.log_min_offset, report.log_max_offset = check.log.min_offset, stitched.end
    report.messages = sum(result.records for result in stitched.results)
    stitched = _judged(check.job, stitched)
    results = stitched.results
    if check.job.build_queues:
        _check_queues(check, stitched, mismatches)
        check_deletions.report_deleted(check)
    elif any(result.records for result in results):
        first = next(result.first_record for result in results if result.records)
        folder_missing(check, "queue", str(check.layout.consume_queue), "no ConsumeQueues at all", first)
    for name, index in check.store.indexes.items():
        INDEX_CHECKS[name].check(check, index, results)
    if check.job.judged_to is None:
        # A holder writes the checkpoint from time to time, and makes and removes files.
        check_checkpoint(check)
        stray_findings(check)


def _judged(job: Job, stitched: Stitched) -> Stitched:
    """Return the part of the chain whose records are compared with the indexes."""
    if job.judged_to is None:
        return stitched
    count = sum(split.begin < job.judged_to for split in stitched.splits)
    end = min(stitched.end, job.judged_to)
    return replace(stitched, results=stitched.results[:count], splits=stitched.splits[:count], end=end)


def _decode(check: Check, split_mb: float) -> tuple[Stitched, dict[int, list[Mismatch]]]:
    splits = _plan(check, mib("split_mb", split_mb))
    mismatches: dict[int, list[Mismatch]] = {}

    def compare(job: Job, splits: Sequence[Split], progress: Progress) -> list[SplitResult]:
        task = partial(_compare_task, job, str(check.layout.consume_queue))
        outcomes = check.engine.run(task, splits, progress)
        mismatches.update((result.number, found) for result, found in outcomes)
        return [result for result, _ in outcomes]

    with check.stage("decode", sum(min(split.end, split.data_end) - split.begin for split in splits)):
        results = decode_splits(check, splits, compare)
        return prove(check, check.log.min_offset, splits, results, check.log.gaps, compare), mismatches


def _plan(check: Check, split_bytes: int) -> list[Split]:
    """Plan the splits of the log: none ends above the confirmed offset, and none crosses the frontier."""
    end = check.log.end_offset if check.confirmed is None else check.confirmed
    if check.job.judged_to is None:
        return plan_splits(check.log, split_bytes, end_offset=end)
    frontier = min(check.job.judged_to, end)
    judged = plan_splits(check.log, split_bytes, end_offset=frontier)
    further = plan_splits(check.log, split_bytes, frontier, end)
    return judged + [replace(split, number=number) for number, split in enumerate(further, len(judged))]


def _compare_task(job: Job, live_folder: str, split: Split) -> tuple[SplitResult, list[Mismatch]]:
    if job.judged_to is not None and split.begin >= job.judged_to:
        # These records have no indexes yet.
        job = replace(job, build_queues=False, indexes=())
    return decode_and_compare(job, live_folder, split)


def _check_queues(check: Check, stitched: Stitched, mismatches: dict[int, list[Mismatch]]) -> None:
    table = merge(check, stitched.splits, stitched.results, {}, stitched.end).table
    for kind in checks_of(check.job):
        kind.judge(check, stitched, table, mismatches)
    check.report.queues += int(np.count_nonzero(table.count[: len(table.keys)]))
    check.report.queue_entries += int(table.count[: len(table.keys)].sum())
    check.report.queue_messages += int((table.next - table.first)[: len(table.keys)].sum())
