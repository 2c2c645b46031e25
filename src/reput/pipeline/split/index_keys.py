"""The entries of records in the index database, read from a range of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reput.dispatch.index_keys import index_keys
from reput.formats.record import CHECK_NONE, decode_record
from reput.log.read.files import LogListing
from reput.log.read.scan import LogWalk, checking

_UNCHECKED = checking(CHECK_NONE)


class IndexedRecord(NamedTuple):
    """A record with entries: its log offset, its store time (ms), and the keys of its entries."""

    offset: int
    store_timestamp: int
    keys: tuple[bytes, ...]


def indexed_records(log: LogListing, begin: int, end: int) -> Iterator[IndexedRecord]:
    """Yield the records with entries that begin in [begin, end), from a boundary on; damage is passed over."""
    for walk in LogWalk(log, begin, _UNCHECKED, end, tolerant=True).pieces():
        data, base = walk.buffer.data, walk.base
        for offset, size in zip(walk.position.tolist(), walk.size.tolist(), strict=True):
            record = decode_record(data[offset - base : offset - base + size])
            if keys := index_keys(record):
                yield IndexedRecord(offset, record.store_timestamp, keys)
