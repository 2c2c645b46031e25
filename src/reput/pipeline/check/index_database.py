"""The index database compared with the log: keys that are missing, and entries that no record gives.

A task for each split looks up the keys that its records give. One more goes through the whole database and counts what
is there. Only if that is more than the splits found does it compare each entry with its record. Memory holds one entry.

RocketMQ writes the marks with the entries, and only logs that a batch of entries has failed. So keys may be missing
below the marks. If the index was turned on later, the keys of older messages are missing, too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from reput.dispatch.index_keys import index_keys
from reput.files.database import Family
from reput.formats import index_database as fmt
from reput.formats.index_database import IndexMarks
from reput.formats.record import CHECK_NONE, Verdict, decode_record, examine
from reput.index.database import open_index_database
from reput.log.read.files import list_log_files
from reput.log.read.maps import LogMaps
from reput.pipeline.check.state import Check
from reput.pipeline.split.index_keys import indexed_records
from reput.pipeline.split.job import SplitResult
from reput.store.disk.report import NOTE


class _KeyRange(NamedTuple):
    """The records [begin, end) of the log in `log_folder`, and the database to compare them with, up to its marks."""

    log_folder: str
    folder: str
    begin: int
    end: int
    marks: IndexMarks


class _KeysLooked(NamedTuple):
    """Keys of a range: those found, and those missing or with another value; log offsets of the first of each (-1).

    `early` keys are missing before the first one that is found, `late` keys are of records above the marks.
    """

    found: int = 0
    early: int = 0
    missing: int = 0
    late: int = 0
    first_found: int = -1
    first_early: int = -1
    first_missing: int = -1
    first_late: int = -1

    def plus(self, name: str, count: int, offset: int) -> _KeysLooked:
        """Return the counts with more keys of a record."""
        first = f"first_{name}"
        before = getattr(self, first)
        return self._replace(**{name: getattr(self, name) + count, first: offset if before < 0 else before})


class _EntriesWalked(NamedTuple):
    """Entries of the database: of records that the log has, of later ones, and those that no record gives.

    `first`: the first wrong key.
    """

    entries: int
    past_end: int
    wrong: int
    first: bytes


def check_index_database(check: Check, results: Sequence[SplitResult]) -> None:
    """Compare the index database with the log, if the store has one that is extended."""
    database, folder = check.store.index_database, check.layout.index_database
    if database.damage:
        check.report.damage("index-database-damaged", str(folder), None, 1, database.damage)
        return
    if database.marks is None or not check.settings.index_kinds.builds_database:
        return
    parts = [
        _KeyRange(str(check.layout.commit_log), str(folder), one.first_record, one.chain_end, database.marks)
        for one in results
        if one.records
    ]
    with check.stage("index database"):
        looked = check.engine.run(_look_up, parts, check.listener.advance)
        found = sum(one.found for one in looked)
        begin, end = check.log.min_offset, max((one.end for one in parts), default=check.log.min_offset)
        walk = partial(_walk, str(check.layout.commit_log), check.log.file_size, str(folder), begin, end)
        walked = check.engine.run(walk, [found], check.listener.advance)[0]
    check.report.index_entries = walked.entries
    _missing_findings(check, looked)
    _walk_findings(check, walked, end)


def _look_up(part: _KeyRange) -> _KeysLooked:
    looked = _KeysLooked()
    log = list_log_files(Path(part.log_folder), tolerant=True)
    with open_index_database(Path(part.folder)) as reader:
        family = reader.families[fmt.FAMILY]
        for record in indexed_records(log, part.begin, part.end):
            value = fmt.encode_value(record.store_timestamp)
            there = sum(family.get(key) == value for key in record.keys)
            if there:
                looked = looked.plus("found", there, record.offset)
            if lacking := len(record.keys) - there:
                name = "late" if record.offset > part.marks.offset else "missing" if looked.found else "early"
                looked = looked.plus(name, lacking, record.offset)
    return looked


def _walk(log_folder: str, file_size: int, folder: str, begin: int, end: int, found: int) -> _EntriesWalked:
    with open_index_database(Path(folder)) as reader:
        family = reader.families[fmt.FAMILY]
        walked = _count(family, begin, end)
        if walked.entries == found and not walked.wrong:
            return walked
        log = LogMaps(Path(log_folder), file_size)
        wrong, first = 0, b""
        for data, value in family.walk():
            if data not in fmt.MARKS and not _is_right(log, data, value, begin, end):
                wrong, first = wrong + 1, first or data
        log.close()
        return walked._replace(wrong=wrong, first=first)


def _count(family: Family, begin: int, end: int) -> _EntriesWalked:
    """Count the entries, by their keys alone; those of expired records do not count."""
    entries = past_end = wrong = 0
    for data, _ in family.walk():
        key = fmt.decode_entry_key(data)
        if key is None:
            wrong += data not in fmt.MARKS
        elif key.physical_offset >= end:
            past_end += 1
        elif key.physical_offset >= begin:
            entries += 1
    return _EntriesWalked(entries, past_end, wrong, b"")


def _is_right(log: LogMaps, data: bytes, value: bytes, begin: int, end: int) -> bool:
    """Return True if the record of an entry gives it; an entry of an expired or a later record passes."""
    key = fmt.decode_entry_key(data)
    if key is None:
        return False
    if not begin <= key.physical_offset < end:
        return True
    start = log.file_at(key.physical_offset)
    if start is None:
        return False
    file = log.array(start).data
    verdict, size = examine(file, key.physical_offset - start, len(file), key.physical_offset, CHECK_NONE)
    if verdict is not Verdict.GOOD:
        return False
    record = decode_record(file[key.physical_offset - start : key.physical_offset - start + size])
    try:
        return data in index_keys(record) and fmt.decode_value(value) == record.store_timestamp
    except struct.error:
        return False


def _missing_findings(check: Check, looked: Sequence[_KeysLooked]) -> None:
    folder, report = str(check.layout.index_database), check.report
    remedy = "`reput rebuild --only index` builds it for the whole log"
    found_in = next((number for number, one in enumerate(looked) if one.found), -1)
    older = sum(one.early for one in looked[: found_in + 1])
    holes = sum(one.early for one in looked[found_in + 1 :]) + sum(one.missing for one in looked)
    if older:
        begin = looked[found_in].first_found
        detail = f"the index was turned on later: {older} keys of messages before log offset {begin} are not in it"
        if check.settings.index_kinds.reads_database:
            report.damage("index-database-begins-late", folder, None, older, f"{detail}; {remedy}")
        else:
            report.remark(NOTE, "index-database-begins-late", folder, older, f"{detail}. IndexFiles answer; {remedy}")
    if holes:
        firsts = [one.first_missing for one in looked] + [one.first_early for one in looked[found_in + 1 :]]
        first = min(offset for offset in firsts if offset >= 0)
        detail = f"keys that are missing or have another time, first of the message at log offset {first}"
        report.damage("index-key-missing", folder, None, holes, f"{detail}; {remedy}")
    late = [one for one in looked if one.late]
    if late:
        first, count = min(one.first_late for one in late), sum(one.late for one in late)
        detail = f"keys of messages from log offset {first} on are not in the index yet"
        check.out_of_date("index-database-out-of-date", folder, None, count, detail)


def _walk_findings(check: Check, walked: _EntriesWalked, end: int) -> None:
    folder, report = str(check.layout.index_database), check.report
    if walked.wrong:
        detail = f"entries that no record gives, first key {walked.first!r:.120}"
        report.damage("index-key-wrong", folder, None, walked.wrong, detail)
    if walked.past_end and check.job.judged_to is None:
        detail = f"entries of records above the log's end at {end}"
        report.after_crash("index-key-past-end", folder, None, walked.past_end, detail)
