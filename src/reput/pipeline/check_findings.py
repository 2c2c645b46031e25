"""What the stages of a check bring back becomes findings of its report: which rule, where, how often, how bad."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reput.files import fs
from reput.formats.consume_queue import ENTRY_SIZE, QueueKey
from reput.formats.paths import offset_name
from reput.index.files import IndexFileOnDisk
from reput.log.files import LogFiles
from reput.log.reader import file_of, written_bytes
from reput.pipeline.check_index import IndexFileChecked, IndexFileToCheck, Uncovered
from reput.pipeline.check_queues import Mismatch, OutsideFinding
from reput.pipeline.merge import QueueTable
from reput.pipeline.sink import queue_path
from reput.pipeline.stitch import Stitched
from reput.store.checkpoint import read_checkpoint
from reput.store.layout import StoreLayout
from reput.store.report import LEFTOVER, NOTE, CheckReport

_NAMED = 5


def log_findings(report: CheckReport, log: LogFiles, stitched: Stitched) -> None:
    """What is wrong with the log itself: its files, bytes that are no record, and its end."""
    for note in log.notes:
        if "empty last file" in note:
            report.remark(LEFTOVER, "log-empty-file", str(log.folder), 1, note)
        else:
            report.damage("log-file", str(log.folder), None, 1, note)
    for gap in stitched.gaps:
        report.damage(
            "log-record",
            *_place(log, gap.begin),
            1,
            f"{gap.verdict.meaning} at log offset {gap.begin}: {gap.end - gap.begin} bytes until the next record",
        )
    if stitched.tail_verdict is not None and (size := written_bytes(log, stitched.end)):
        report.after_crash(
            "log-torn-tail",
            *_place(log, stitched.end),
            1,
            f"{size} bytes behind the last record at the log's end {stitched.end}: {stitched.tail_verdict.meaning}",
        )
    empty = [file for file in log.files if file.data_end == file.start]
    if empty and empty[-1] is log.files[-1] and len(log.files) > 1:
        report.remark(NOTE, "log-preallocated", str(empty[-1].path), 1, "a file made ahead; RocketMQ removes it")


def _place(log: LogFiles, offset: int) -> tuple[str, int]:
    """A log offset as file and byte in it; the folder where no file has it."""
    file = file_of(log, offset)
    return (str(file.path), offset - file.start) if file else (str(log.folder), offset)


class QueueFindings:
    """Makes findings of what differs in queues; `configured` are the topics that the broker has (None: not known)."""

    def __init__(
        self, report: CheckReport, live_folder: str, file_size: int, configured: Collection[bytes] | None
    ) -> None:
        self.report = report
        self.live_folder = live_folder
        self.file_size = file_size
        self.configured = configured

    def add(self, table: QueueTable, found: Sequence[Mismatch]) -> None:
        """Add what the comparison of entries found; queues that are not there at all become one finding."""
        by_queue: dict[QueueKey, list[Mismatch]] = {}
        for one in found:
            by_queue.setdefault(one.key, []).append(one)
        absent = []
        for key, ones in by_queue.items():
            self._add_wrong(key, ones)
            missing = sum(one.missing for one in ones)
            folder = queue_path(self.live_folder, key)
            if not missing:
                continue
            if fs.exists(folder):
                first = min(one.first_missing for one in ones if one.missing)
                self._add_missing(folder, missing, first, int(table.next[table.rows[key]]))
            elif self.configured is not None and key.topic not in self.configured:
                detail = f"the topic was deleted, {missing} of its messages are still in the log"
                self.report.remark(NOTE, "queue-of-deleted-topic", folder, 1, detail)
            else:
                absent.append((key, missing))
        self._add_absent(absent)

    def _add_wrong(self, key: QueueKey, ones: Sequence[Mismatch]) -> None:
        wrong = sum(one.wrong for one in ones)
        if wrong:
            first = min(one.first_wrong for one in ones if one.wrong)
            detail = f"entries that are not what their records give, first queue offset {first}"
            place = self._entry_place(queue_path(self.live_folder, key), first)
            self.report.damage("queue-entry-wrong", *place, wrong, detail)

    def _add_missing(self, folder: str, missing: int, first: int, queue_end: int) -> None:
        place = self._entry_place(folder, first)
        if first + missing == queue_end:
            detail = f"the queue ends at offset {first}, its records at {first + missing}"
            self.report.after_crash("queue-behind", *place, missing, detail)
        else:
            detail = f"records without an entry, first queue offset {first}"
            self.report.damage("queue-entry-missing", *place, missing, detail)

    def _add_absent(self, absent: Sequence[tuple[QueueKey, int]]) -> None:
        if not absent:
            return
        named = ", ".join(str(key) for key, _ in absent[:_NAMED]) + (", ..." if len(absent) > _NAMED else "")
        total = sum(missing for _, missing in absent)
        self.report.damage(
            "queue-missing",
            self.live_folder,
            None,
            len(absent),
            f"queues without a folder: {named}; {total} messages cannot be consumed",
        )

    def _entry_place(self, folder: str, queue_offset: int) -> tuple[str, int]:
        position = queue_offset * ENTRY_SIZE
        start = position // self.file_size * self.file_size
        return f"{folder}/{offset_name(start)}", position - start


def outside_finding(report: CheckReport, one: OutsideFinding, log_end: int) -> None:
    """Add what is wrong with a queue's files, or stands outside its records."""
    if one.rule == "queue-empty-file":
        report.remark(LEFTOVER, one.rule, one.file, one.times, one.detail)
    elif one.rule == "queue-entry-past-end" and one.physical_offset >= log_end:
        report.after_crash(one.rule, one.file, one.offset, one.times, f"{one.detail}; the log ends at {log_end}")
    else:
        report.damage(one.rule, one.file, one.offset, one.times, one.detail)


def index_findings(report: CheckReport, files: Sequence[IndexFileToCheck], checked: Sequence[IndexFileChecked]) -> None:
    """Add what the look at each IndexFile found."""
    for file, one in zip(files, checked, strict=True):
        for found in one.findings:
            add = report.after_crash if found.rule in ("index-slot-ahead", "index-item-past-end") else report.damage
            add(found.rule, found.file, found.offset, found.times, found.detail)
        if one.repeated:
            detail = "items that say again what another says: RocketMQ indexes a message twice after a crash"
            report.remark(NOTE, "index-repeated", file.path, one.repeated, detail)


def uncovered_findings(
    report: CheckReport, folder: str, index_end: int, skipped_tags: int, found: Sequence[Uncovered]
) -> None:
    """Add the items that no IndexFile has.

    `index_end` is the log offset where the last IndexFile ends (-1: none), `skipped_tags` what the files passed over.
    """
    items, tags = sum(one.items for one in found), skipped_tags + sum(one.tags for one in found)
    if tags:
        detail = "tags without an item, as RocketMQ before 5.4.0 left them"
        report.remark(NOTE, "index-without-tags", folder, tags, detail)
    if not items:
        return
    first = min(one.first for one in found if one.items)
    if first >= index_end:
        detail = f"the index ends at log offset {index_end}, {items} items of later messages are not in it"
        report.after_crash("index-behind", folder, None, items, detail)
    else:
        detail = f"items of messages that no IndexFile has, first of the message at log offset {first}"
        report.damage("index-item-missing", folder, None, items, detail)


def checkpoint_findings(report: CheckReport, layout: StoreLayout, index_files: Sequence[IndexFileOnDisk]) -> None:
    """Add what RocketMQ will do because of the checkpoint."""
    end = max((file.header.end_timestamp for file in index_files if file.header), default=0)
    if not fs.exists(layout.checkpoint):
        report.remark(NOTE, "checkpoint-missing", str(layout.checkpoint), 1, "RocketMQ makes a new one")
    elif not report.closed_cleanly and read_checkpoint(layout).index_msg_timestamp < end:
        report.remark(
            NOTE,
            "checkpoint-behind",
            str(layout.checkpoint),
            1,
            "older than the newest IndexFile: RocketMQ will destroy that file when it opens the store, and index again",
        )
