"""The marks of the index database, and what its entries say where a mark is missing or wrong.

RocketMQ writes both marks with each batch of entries. A mark that is missing or no number says nothing: the database
then counts as complete up to no record, and a job that extends it writes its entries again. The entries themselves say
more to people: those of the last hour name the newest record that has any.

Source: `MessageRocksDBStorage.writeRecordsForIndex`, `IndexRocksDBStoreAdapter.getDispatchFromPhyOffset`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexMarks
from reput.index.kinds import WrongMarks

if TYPE_CHECKING:
    from reput.files.database import Family

REMEDY = "`reput rebuild --only index` makes the database anew"
NO_RECORD = IndexMarks(-1, 0)
"""The marks of a database with entries that do not say how far it goes."""


def read_marks(family: Family) -> IndexMarks | None:
    """Return the marks of an open database; None if it has neither marks nor entries.

    They are `NO_RECORD` if the mark is missing, or no log offset.
    """
    offset, time = family.get(fmt.LAST_OFFSET), family.get(fmt.LAST_TIME)
    if offset is None:
        return NO_RECORD if any(True for _ in _entry_keys_back(family)) else None
    number = _number(offset)
    return NO_RECORD if number is None else IndexMarks(number, _number(time or b"") or 0)


def odd_marks(family: Family) -> str:
    """Describe the first mark that is no number of 8 bytes; "" if none is."""
    for name in fmt.MARKS:
        value = family.get(name)
        if value is not None and _number(value) is None:
            is_long = len(value) == fmt.MARK.size
            what = "is below 0" if is_long else f"has {len(value)} bytes instead of {fmt.MARK.size}"
            return f"the mark {name.decode()} {what}"
    return ""


def wrong_marks(folder: Path, odd: str, marks: IndexMarks | None, log_end: int | None) -> WrongMarks | None:
    """Return what is wrong with marks: `odd` of `odd_marks`, or a log offset above the log's end, if that is known."""
    if odd:
        return WrongMarks(f"{folder}: {odd}, so it does not say how far the index goes. {REMEDY}", False)
    if marks is None or log_end is None or marks.offset < log_end:
        return None
    return WrongMarks(
        f"{folder}: the mark {fmt.LAST_OFFSET.decode()} is {marks.offset}, and the log ends at {log_end}: its own end "
        f"was lost in a crash, or the mark is wrong. reput lowers the mark when it opens the store to write; {REMEDY}",
        True,
    )


def newest_entry(family: Family) -> IndexMarks | None:
    """Return the last record that has an entry in the last hour with any; None without an entry.

    If the clock was set back, a later record may be in an earlier hour.
    """
    for hour in hours_back(family):
        return max(IndexMarks(fmt.offset_of(key), time_of(value)) for key, value in entries_of(family, hour))
    return None


def hours_back(family: Family) -> Iterator[bytes]:
    """Yield the hours that have entries, as the first bytes of their keys, the newest first."""
    bound = fmt.LAST_OFFSET
    while key := next(_entry_keys_back(family, bound), b""):
        bound = key[: fmt.HOUR.size]
        yield bound


def entries_of(family: Family, hour: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of an hour; keys that are no entry's are skipped."""
    for key, value in family.walk(hour, hour + b"\xff"):
        if fmt.decode_entry_key(key) is not None:
            yield key, value


def time_of(value: bytes) -> int:
    """Return the store time (ms) of an entry; 0 for a value of another length."""
    return fmt.decode_value(value) if len(value) == fmt.VALUE_SIZE else 0


def _entry_keys_back(family: Family, bound: bytes = fmt.LAST_OFFSET) -> Iterator[bytes]:
    """Yield the keys of entries below a bound, the last one first."""
    return (key for key, _ in family.walk_back(b"", bound) if fmt.decode_entry_key(key) is not None)


def _number(mark: bytes) -> int | None:
    """Return the number of a mark; None for what is no offset and no time."""
    try:
        number = fmt.decode_mark(mark)
    except struct.error:
        return None
    return number if number >= 0 else None
