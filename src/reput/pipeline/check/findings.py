"""The findings of a check: damage, remains of a crash, notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.watermarks import damage_of_watermarks
from reput.formats.checkpoint import CHECKPOINT
from reput.formats.log.record import Verdict, decode_record
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.files import LogFiles
from reput.log.read.reader import confirmed_damage, file_of, good_record, written_bytes
from reput.nearest import FEW, some
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.check.index_file_tasks import IndexFileChecked, IndexFileToCheck, Uncovered
from reput.pipeline.check.queue_finding import QueueFinding
from reput.pipeline.check.rules import LEFTOVER, NOTE, RULES
from reput.pipeline.check.state import Check
from reput.pipeline.split.stitch import Stitched, time_regressions
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.database_folder import misplaced_database
from reput.store.disk.frontier import Frontiers, marks_of, read_frontier
from reput.store.disk.given_offsets import read_given_offsets
from reput.store.disk.placement import placement_settings
from reput.store.owner.strays import list_strays, strays_text
from reput.store.recover.known_good import why_known_good

_OF_FOLDERS = {
    "queue": ("queue-out-of-date", "queue-folder-missing"),
    "index": ("index-out-of-date", "index-folder-missing"),
    "index-database": ("index-database-out-of-date", "index-database-folder-missing"),
}
"""The rules about an index that is not there: its records wait for it, or it is lost."""


def folder_findings(check: Check) -> None:
    """Report files in the place of folders and the reverse, and databases of queues that are two or copied in part.

    RocketMQ does not start with two databases.
    """
    layout = check.layout
    for one in check.store.wrong_types:
        if one.is_of_queue:
            continue
        rule = "not-a-file" if one.is_of_file else "not-a-folder"
        check.report.damage(rule, str(one.path), None, 1, one.text)
    if why := misplaced_database(layout):
        check.report.damage("two-databases", str(layout.other_queue_database), None, 1, why)
    if why := check.store.partial_database:
        check.report.damage("database-in-part", str(layout.root), None, 1, why)


def log_findings(check: Check, stitched: Stitched) -> None:
    """Report faults in the log itself, and remains of a crash or of RocketMQ at its end."""
    report, log = check.report, check.log
    missing = {one.missing_text: one.folder for one in check.store.missing_log_folders}
    for note in log.notes:
        if note in missing:
            report.damage("log-path-missing", str(missing[note]), None, 1, note)
        elif "empty last file" in note:
            report.remark(LEFTOVER, "log-empty-file", str(log.folder), 1, note)
        else:
            report.damage("log-file", str(log.folder), None, 1, note)
    for gap in stitched.gaps:
        report.damage(
            "log-record",
            *log_place(log, gap.begin),
            1,
            f"{gap.verdict.meaning} at log offset {gap.begin}: {gap.end - gap.begin} bytes until the next record",
        )
    place = log_place(log, stitched.end)
    if why := confirmed_damage(stitched.end, stitched.tail_verdict or Verdict.ZERO, check.confirmed):
        report.damage("log-record", *place, 1, f"log offset {stitched.end}: {why}")
    elif check.confirmed is None and stitched.tail_verdict is not None and (size := written_bytes(log, stitched.end)):
        detail = f"{size} bytes after the last record at the log's end {stitched.end}: {stitched.tail_verdict.meaning}"
        with check.store.maps() as maps:
            known = why_known_good(check.layout, maps, stitched.end, size)
        if known:
            report.damage("log-record", *place, 1, f"{detail}; {known}, and a crash does not leave such an end")
        else:
            report.after_crash("log-torn-tail", *place, 1, detail)
    if found := time_regressions(stitched.results):
        report.remark(NOTE, "log-times", log_place(log, found.first)[0], found.times, found.text)
    if not report.closed_cleanly:
        _note_torn_properties(check, stitched)
    empty = [file for file in log.files if file.data_end == file.start]
    if empty and empty[-1] is log.files[-1] and len(log.files) > 1:
        report.remark(NOTE, "log-preallocated", str(empty[-1].path), 1, "a file made ahead; RocketMQ removes it")


def _note_torn_properties(check: Check, stitched: Stitched) -> None:
    """Note a last record whose properties end with zeros: a crash may have taken them.

    The CRC of a record covers its body, so RocketMQ takes such a record for a good one.
    """
    last = next((one for one in reversed(stitched.results) if one.records), None)
    if last is None:
        return
    record = good_record(check.log, last.last_record)
    if record is not None and decode_record(record.data).properties.endswith(b"\0"):
        file, _ = log_place(check.log, last.last_record)
        detail = (
            f"the properties of the last record, at log offset {last.last_record}, end with zeros: the crash may have "
            "taken its tags and keys, which its CRC does not cover"
        )
        check.report.remark(NOTE, "log-torn-properties", file, 1, detail)


def log_place(log: LogFiles, offset: int) -> tuple[str, int]:
    """Return a log offset as file and byte in it; the folder if no file has it."""
    file = file_of(log, offset)
    return (str(file.path), offset - file.start) if file else (str(log.folder), offset)


def note_out_of_order(check: Check, outcome: QueueOutcome) -> None:
    """Note a queue whose offsets are not consecutive in the log."""
    check.report.remark(
        NOTE,
        "queue-offsets",
        str(outcome.key),
        1,
        f"queue offsets are not consecutive in the log: {outcome.repeats} repeats, {outcome.blanks} missing, "
        f"{outcome.restarts} restarts",
    )


def note_unused(check: Check, place: str, unused: Sequence[QueueKey]) -> None:
    """Note queues in a kind that does not hold them: no broker with these settings reads or extends them."""
    if unused:
        named = some([str(key) for key in unused], FEW)
        said = " and ".join(placement_settings(check.job.placement))
        detail = f"queues that {said} places elsewhere: {named}. They were not compared; a rebuild removes them"
        check.report.remark(NOTE, "queue-not-used", place, len(unused), detail)


def folder_missing(check: Check, index: str, folder: str, what: str, first: int) -> None:
    """Report that an index (`queue`, `index` ...) is missing, though it has records from log offset `first` on."""
    out_of_date, missing = _OF_FOLDERS[index]
    if is_unindexed(check, first):
        check.report.after_crash(out_of_date, folder, None, 1, f"{what} yet, and none was promised")
    else:
        check.report.damage(missing, folder, None, 1, what)


def is_unindexed(check: Check, offset: int) -> bool:
    """Return True if a record at a log offset waits for its indexes, so that its queue may have no folder yet.

    A reput writer makes a queue's folder with its first entries, which its frontier precedes. RocketMQ makes entries in
    the log's order, for queues of every kind: after a kill of it no queue has the entry of a later record.

    Source: `DefaultMessageStore.ReputMessageService.doReput`.
    """
    if check.job.judged_to is not None:
        return False
    if check.store.frontier is not None:
        return offset >= Frontiers.of(check.store.frontier).both
    if marks_of(check.layout)["wrote_offset"] > offset:
        return True
    return not check.report.closed_cleanly and offset > check.last_entry


def indexed_to(check: Check) -> int:
    """Return the log offset of reput's durable frontier; 0 for none, and if the log is not that one any more."""
    frontier = check.store.frontier
    last = None if frontier is None else frontier.queue_fingerprint
    if frontier is None or last is None:
        return 0
    with check.store.maps() as log:
        return frontier.queue_offset if last.offset < log.min_offset or log.has_record(last) else 0


def what_is_there(file: str, offset: int) -> tuple[str, int | None, str]:
    """Return a place in a file; for a missing file its lowest folder that exists, and the beginning of a detail."""
    path = Path(file)
    if fs.exists(path):
        return file, offset, ""
    there = next(folder for folder in path.parents if fs.exists(folder))
    return str(there), None, f"no {path.relative_to(there)}: "


def outside_finding(check: Check, one: QueueFinding, log_end: int) -> None:
    """Report entries before a queue's first record or after its last."""
    report, rule = check.report, RULES[one.rule]
    if rule.severities == (LEFTOVER,):
        report.remark(LEFTOVER, one.rule, one.file, one.times, one.detail)
    elif rule.severities == (NOTE,):
        report.remark(NOTE, one.rule, one.file, one.times, f"{one.detail} (first at byte {one.offset})")
    elif rule.may_be_of_crash and one.physical_offset >= log_end:
        report.after_crash(one.rule, one.file, one.offset, one.times, f"{one.detail}; the log ends at {log_end}")
    else:
        report.damage(one.rule, one.file, one.offset, one.times, one.detail)


def index_findings(check: Check, files: list[IndexFileToCheck], checked: list[IndexFileChecked]) -> None:
    """Report the findings of the tasks in IndexFiles."""
    report = check.report
    for file, one in zip(files, checked, strict=True):
        for found in one.findings:
            add = report.after_crash if _may_be_of_crash(found.rule, file) else report.damage
            add(found.rule, found.file, found.offset, found.times, found.detail)
        if one.repeated:
            detail = "items that repeat another item: RocketMQ indexes a message twice after a crash"
            report.remark(NOTE, "index-repeated", file.path, one.repeated, detail)


def _may_be_of_crash(rule: str, file: IndexFileToCheck) -> bool:
    """Return True for what a power cut may leave, which the next items mend: a new file has lost its whole header."""
    return RULES[rule].may_be_of_crash and (rule != "index-header" or not any(file.header))


def uncovered_findings(check: Check, index_end: int, skipped_tags: int, found: Sequence[Uncovered]) -> None:
    """Report the items that no IndexFile has.

    `index_end` is the log offset where the last IndexFile ends (-1: none), `skipped_tags` the tags in their ranges
    without an item.
    """
    report, folder = check.report, str(check.layout.index)
    items, tags = sum(one.items for one in found), skipped_tags + sum(one.tags for one in found)
    if tags:
        detail = "tags without an item, as RocketMQ before 5.4.0 left them"
        report.remark(NOTE, "index-without-tags", folder, tags, detail)
    if not items:
        return
    first = min(one.first for one in found if one.items)
    if first >= index_end:
        detail = f"the index ends at log offset {index_end}, {items} items of later messages are not in it"
        check.out_of_date("index-out-of-date", folder, None, items, detail)
    else:
        detail = f"items of messages that no IndexFile has, first of the message at log offset {first}"
        report.damage("index-item-missing", folder, None, items, detail)


def stray_findings(check: Check) -> None:
    """Report files among the indexes that RocketMQ ignores."""
    strays = list_strays(check.layout)
    if strays:
        check.report.remark(NOTE, "stray-file", str(check.layout.root), len(strays), strays_text(strays))


def own_findings(check: Check) -> None:
    """Report files of reput's own that writers refuse, and records that are kept."""
    layout, report = check.layout, check.report
    for entry in fs.list_dir(layout.reput):
        if not entry.is_file and own.is_cut_name(entry.name):
            detail = "good records that a cut of the log removed: this folder is a store that has them"
            report.remark(NOTE, "log-kept", str(layout.own(entry.name)), 1, detail)
    watermarks = layout.own(own.WATERMARKS_NAME)
    if why := damage_of_watermarks(watermarks):
        report.damage("own-file-damaged", str(watermarks), None, 1, why)
    for name, read in ((own.FRONTIER_NAME, read_frontier), (own.GIVEN_OFFSETS_NAME, read_given_offsets)):
        try:
            read(layout)
        except DamagedStoreError as error:
            report.damage("own-file-damaged", str(layout.own(name)), None, 1, str(error))


def check_checkpoint(check: Check) -> None:
    """Report a missing or cut checkpoint, and one that makes RocketMQ destroy an IndexFile."""
    end = max((file.header.end_timestamp for file in check.store.index_files if file.header), default=0)
    place = str(check.layout.checkpoint)
    data = fs.read_bytes(check.layout.checkpoint, CHECKPOINT.size)
    if data is None:
        check.report.remark(NOTE, "checkpoint-missing", place, 1, "RocketMQ makes a new one")
    elif 0 < len(data) < CHECKPOINT.size:
        # A program makes it empty, and then gives it its length.
        check.report.damage("checkpoint-cut", place, None, 1, f"{len(data)} bytes, at least {CHECKPOINT.size} expected")
    elif not check.report.closed_cleanly and read_checkpoint(check.layout).index_msg_timestamp < end:
        check.report.remark(
            NOTE,
            "checkpoint-out-of-date",
            place,
            1,
            "older than the newest IndexFile: RocketMQ will destroy that file when it opens the store, and index again",
        )
