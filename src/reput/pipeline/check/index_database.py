"""check: the index database against the log: keys that are missing, and entries that no record gives.

Decode tasks leave the keys of their splits in sorted runs. A task for each range of keys goes through these and through
the database at the same time. Memory holds the keys of one range.

RocketMQ writes the marks with the entries, and only logs that a batch of entries has failed. So keys may be missing
below the marks. If the index was turned on later, the keys of older messages are missing, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files.part_file import Part, part_path, write_part
from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexMarks
from reput.formats.own.part_file import PartKind
from reput.index.database import REMEDY, open_index_database
from reput.index.kinds import AnyIndex
from reput.pipeline.check.findings import folder_missing
from reput.pipeline.check.rules import NOTE
from reput.pipeline.check.state import Check
from reput.pipeline.split.index_keys import KeyRange, keys_in, load_runs, plan_key_ranges
from reput.pipeline.split.job import Job, SplitResult

_MISSING = PartKind("missing-keys", {"physical_offset": "i8"})


class _Against(NamedTuple):
    """The database to compare with, and the log offsets [begin, end) of the records that the log has."""

    folder: str
    begin: int
    end: int


class _RangeCompared(NamedTuple):
    """A range of the database: entries of records that the log has, of later ones, and those that no record gives.

    `missing` counts the keys that are missing or have another time; a part has their records. `first_found` and
    `last_found`: the lowest and the highest log offset of a record with an entry (-1: none), `first_wrong` the first
    wrong key.
    """

    number: int
    entries: int = 0
    past_end: int = 0
    wrong: int = 0
    missing: int = 0
    first_found: int = -1
    last_found: int = -1
    first_wrong: bytes = b""


class DatabaseIndexCheck:
    """See `IndexCheck`."""

    def compares(self, index: AnyIndex) -> bool:
        """See `IndexCheck`."""
        return not index.damage

    def check(self, check: Check, index: AnyIndex, results: Sequence[SplitResult]) -> None:
        """See `IndexCheck`."""
        if index.damage:
            check.report.damage("index-database-damaged", str(index.folder), None, 1, index.damage)
        elif index.name in check.job.indexes:
            _compare(check, index, [one for one in results if one.records])


def _compare(check: Check, index: AnyIndex, results: Sequence[SplitResult]) -> None:
    runs = [load_runs(check.job, one.number) for one in results]
    if check.job.judged_to is None and (wrong := index.wrong_marks(check.report.log_max_offset)) is not None:
        report = check.report.after_crash if wrong.is_of_crash else check.report.damage
        report("index-mark-wrong", str(index.folder), None, 1, wrong.text)
    if index.marks is None:
        with_keys = [one.first_record for one, left in zip(results, runs, strict=True) if left.keys]
        if with_keys:
            detail, folder = f"no index in RocksDB, though the settings ask for one; {REMEDY}", str(index.folder)
            if check.job.judged_to is not None:
                check.out_of_date("index-database-out-of-date", folder, None, 1, detail)
            elif not check.report.closed_cleanly:
                # RocketMQ writes keys in groups, some time after their messages: a kill may come before the first.
                check.report.after_crash("index-database-out-of-date", folder, None, 1, detail)
            else:
                folder_missing(check, "index-database", folder, detail, with_keys[0])
        return
    begin, end = check.log.min_offset, max((one.chain_end for one in results), default=check.log.min_offset)
    with check.stage("index database"):
        task = partial(_compare_range, check.job, _Against(str(index.folder), begin, end))
        compared = check.engine.run(task, plan_key_ranges(runs), check.listener.advance)
    check.report.index_entries = sum(one.entries for one in compared)
    _missing_findings(check, index, index.marks, compared)
    _wrong_findings(check, index, compared, end)


def _compare_range(job: Job, against: _Against, wanted: KeyRange) -> _RangeCompared:
    found, missing = _RangeCompared(wanted.number), list[int]()
    with open_index_database(Path(against.folder)) as reader:
        walk = reader.families[fmt.FAMILY].walk(wanted.low or None, wanted.high or None)
        for key, value, time in _side_by_side(walk, keys_in(job, wanted).rows()):
            if time is None:
                found = _judged_alone(found, against, key)
                continue
            offset = fmt.offset_of(key)
            if value == fmt.encode_value(time):
                first = offset if found.first_found < 0 else min(found.first_found, offset)
                last = max(offset, found.last_found)
                found = found._replace(entries=found.entries + 1, first_found=first, last_found=last)
                continue
            missing.append(offset)
            if value is not None:
                found = _plus_wrong(found, key)
    if missing:
        path = part_path(job.parts_folder, _MISSING, wanted.number)
        write_part(path, _MISSING, physical_offset=np.array(missing, dtype=np.int64))
    return found._replace(missing=len(missing))


def _side_by_side(
    walk: Iterator[tuple[bytes, bytes]], expected: Iterator[tuple[bytes, int]]
) -> Iterator[tuple[bytes, bytes | None, int | None]]:
    """Yield each key with its value in the database and the store time that the log gives it; None for neither."""
    wanted = next(expected, None)
    for key, value in walk:
        while wanted is not None and wanted[0] < key:
            yield wanted[0], None, wanted[1]
            wanted = next(expected, None)
        if wanted is not None and wanted[0] == key:
            yield key, value, wanted[1]
            wanted = next(expected, None)
        else:
            yield key, value, None
    if wanted is not None:
        yield wanted[0], None, wanted[1]
    for key, time in expected:
        yield key, None, time


def _judged_alone(found: _RangeCompared, against: _Against, data: bytes) -> _RangeCompared:
    """Judge an entry that no record gives: that of a later record counts apart, that of an expired one is nothing."""
    if data in fmt.MARKS:
        return found
    key = fmt.decode_entry_key(data)
    if key is None or against.begin <= key.physical_offset < against.end:
        return _plus_wrong(found, data)
    return found._replace(past_end=found.past_end + (key.physical_offset >= against.end))


def _plus_wrong(found: _RangeCompared, data: bytes) -> _RangeCompared:
    return found._replace(wrong=found.wrong + 1, first_wrong=found.first_wrong or data)


def _missing_findings(check: Check, index: AnyIndex, marks: IndexMarks, compared: Sequence[_RangeCompared]) -> None:
    folder, report = str(index.folder), check.report
    remedy = "`reput rebuild --only index` builds it for the whole log"
    missing = _missing_offsets(check.job, compared)
    begin = min((one.first_found for one in compared if one.first_found >= 0), default=-1)
    end = marks.offset
    if report.closed_cleanly and check.job.judged_to is None:
        # Marks that are too low, or missing, say less than the entries. A kill may come between entries and marks.
        end = max(end, *(one.last_found for one in compared))
    late = missing > end
    early = ~late & (missing < begin)
    holes = missing[~late & ~early]
    if older := int(early.sum()):
        detail = f"the index was turned on later: {older} keys of messages before log offset {begin} are not in it"
        if check.settings.indexes.read == index.name:
            report.damage("index-database-begins-late", folder, None, older, f"{detail}; {remedy}")
        else:
            report.remark(NOTE, "index-database-begins-late", folder, older, f"{detail}. Another answers; {remedy}")
    if len(holes):
        detail = f"keys that are missing or have another time, first of the message at log offset {holes.min()}"
        report.damage("index-key-missing", folder, None, len(holes), f"{detail}; {remedy}")
    if count := int(late.sum()):
        detail = f"keys of messages from log offset {missing[late].min()} on are not in the index yet"
        check.out_of_date("index-database-out-of-date", folder, None, count, detail)


def _missing_offsets(job: Job, compared: Sequence[_RangeCompared]) -> NDArray[np.int64]:
    """Return the log offsets of the records of all missing keys, one for each key."""
    left = (Part(part_path(job.parts_folder, _MISSING, one.number), _MISSING) for one in compared if one.missing)
    return np.concatenate([np.empty(0, dtype=np.int64), *(part.read("physical_offset") for part in left)])


def _wrong_findings(check: Check, index: AnyIndex, compared: Sequence[_RangeCompared], end: int) -> None:
    folder, report = str(index.folder), check.report
    if wrong := sum(one.wrong for one in compared):
        first = next(one.first_wrong for one in compared if one.wrong)
        report.damage("index-key-wrong", folder, None, wrong, f"entries that no record gives, first key {first!r:.120}")
    past_end = sum(one.past_end for one in compared)
    if past_end and check.job.judged_to is None:
        detail = f"entries of records above the log's end at {end}"
        report.after_crash("index-key-past-end", folder, None, past_end, detail)
