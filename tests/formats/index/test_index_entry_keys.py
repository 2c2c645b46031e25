"""The entries of a record in the index database."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput.files.database import DatabaseReader
from reput.formats import paths
from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexKey, entry_keys
from reput.formats.log.properties import encode_properties
from reput.formats.log.record import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Record
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from support import golden

TIME = 7_200_001
NAMED = {b"KEYS": b"b a  b", b"TAGS": b"paid", b"UNIQ_KEY": b"u@1"}


def entries(record: Record) -> list[tuple[bytes, bytes]]:
    """Kind and text of each entry, which all have the record's topic, hour and offset."""
    found = []
    for data in entry_keys(record):
        key = fmt.decode_entry_key(data)
        assert key is not None
        assert key == IndexKey(7_200_000, b"orders", key.kind, key.text, record.physical_offset)
        found.append((key.kind, key.text))
    return found


def record(named: dict[bytes, bytes], **values: int) -> Record:
    """A record with these properties."""
    return Record(b"orders", b"", encode_properties(named), **{"physical_offset": 9, "store_timestamp": TIME} | values)


def test_order() -> None:
    """The keys come in order, then the tag, then the unique key."""
    wanted = [(b"K", b"b@u@1"), (b"K", b"a@u@1"), (b"K", b"b@u@1"), (b"T", b"paid@u@1"), (b"U", b"u@1")]
    assert entries(record(NAMED)) == wanted
    assert entries(record(NAMED, sys_flag=TRANSACTION_PREPARED)) == wanted


@pytest.mark.parametrize(
    "one",
    [
        record({name: value for name, value in NAMED.items() if name != b"UNIQ_KEY"}),
        record(NAMED, sys_flag=TRANSACTION_ROLLBACK),
        record(NAMED, store_timestamp=0),
        record(NAMED, store_timestamp=fmt.HOUR_MS - 1),
    ],
)
def test_records_without_entries(one: Record) -> None:
    """A record without a unique key, a rolled-back one, and one from the first hour of 1970 have no entry."""
    assert entries(one) == []


def test_malformed_text_is_written_as_java_writes_it() -> None:
    """A malformed byte in a key becomes U+FFFD."""
    assert entries(record({b"KEYS": b"a\xff", b"UNIQ_KEY": b"u"})) == [(b"K", b"a\xef\xbf\xbd@u"), (b"U", b"u")]


def given_by_log(store: Path) -> dict[bytes, bytes]:
    """All keys and values that the log of a store gives the index, with the marks."""
    found: dict[bytes, bytes] = {}
    log = list_log_files(store / paths.COMMIT_LOG)
    for one in (record.decode() for record in LogWalk(log, log.min_offset)):
        if keys := entry_keys(one):
            found |= dict.fromkeys(keys, fmt.encode_value(one.store_timestamp))
            found[fmt.LAST_OFFSET] = fmt.encode_mark(one.physical_offset)
            found[fmt.LAST_TIME] = fmt.encode_mark(one.store_timestamp)
    return found


@pytest.mark.golden
@pytest.mark.parametrize("name", ["index-both", "index-rocksdb"])
def test_the_log_gives_all_that_a_broker_wrote(name: str) -> None:
    """The entries of all records, and the marks of the last one, are those of the broker's database, key by key."""
    store = golden.shared(name)
    with DatabaseReader(store / paths.INDEX_DATABASE, [fmt.FAMILY]) as reader:
        assert dict(reader.families[fmt.FAMILY].walk()) == given_by_log(store)
