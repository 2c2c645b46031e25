"""Cutting the index database at the log's end: the entries of records that a crash took go, then the marks are lowered.

The entries go first. As long as a mark is above the log's end, or there are bytes after that, the next opening does
again what a killed one did not finish.

Entries are sorted by hour, and the lost records are the newest. So the entries of the last record's hour and later are
looked at, and those of the hour before, for a clock that was set back.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from reput.files import fs
from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexMarks
from reput.index.database_marks import entries_of, hours_back, read_marks, time_of

if TYPE_CHECKING:
    from reput.files.database import DatabaseReader, Family
    from reput.files.database_owner import DatabaseOwner

_BATCH_ENTRIES = 10_000


def cut_entries(reader: DatabaseReader, logs: Path, owner: fs.Owner, end: int, last_ms: int, remedy: str) -> int:
    """Remove the entries of records at or above log offset `end`, and lower the marks, durably; return how many.

    Only a database that has some is opened to write. `last_ms`: the store time of the log's last record, 0 if unknown.

    Raises:
        DamagedStoreError: it cannot be read.
        StoreLockedError: another process has it open to write.
    """
    from reput.files.database_owner import DatabaseOwner

    family = reader.families[fmt.FAMILY]
    marks = read_marks(family)
    is_above = marks is not None and marks.offset >= end
    if not is_above and next(_lost(family, end, last_ms), None) is None:
        return 0
    removed = 0
    with DatabaseOwner(reader.folder, fmt.FAMILIES, logs, owner, remedy=remedy) as database:
        family = database.families[fmt.FAMILY]
        lost = _lost(family, end, last_ms)
        while keys := [*islice(lost, _BATCH_ENTRIES)]:
            batch = database.batch()
            for key in keys:
                batch.delete(fmt.FAMILY, key)
            database.write(batch)
            removed += len(keys)
        if is_above:
            _lower_marks(database, _last_below(family, end))
        database.sync()
    return removed


def _lost(family: Family, end: int, last_ms: int) -> Iterator[bytes]:
    """Yield the keys of the entries of records at or above a log offset."""
    first = fmt.hour_bytes(fmt.hour_of(max(0, last_ms - fmt.HOUR_MS)))
    for hour in hours_back(family):
        if hour < first:
            return
        yield from (key for key, _ in entries_of(family, hour) if fmt.offset_of(key) >= end)


def _last_below(family: Family, end: int) -> IndexMarks | None:
    """Return the last record below a log offset that has entries, as the newest hour with such a record says it."""
    for hour in hours_back(family):
        found = (IndexMarks(fmt.offset_of(key), time_of(value)) for key, value in entries_of(family, hour))
        last = max((one for one in found if one.offset < end), default=None)
        if last is not None:
            return last
    return None


def _lower_marks(database: DatabaseOwner, marks: IndexMarks | None) -> None:
    """Set the marks; without a record there are none."""
    batch = database.batch()
    for name, number in zip(fmt.MARKS, marks or (), strict=False):
        batch.put(fmt.FAMILY, name, fmt.encode_mark(number))
    if marks is None:
        for name in fmt.MARKS:
            batch.delete(fmt.FAMILY, name)
    database.write(batch)
