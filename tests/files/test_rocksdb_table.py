"""Tables that reput writes are those that RocksDB's own writer writes, and RocksDB reads them as such."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.database import DatabaseReader
from reput.files.database_owner import DatabaseOwner
from reput.files.rocksdb_table import TableFile, grouped
from reput.formats.database import rocksdb_table as fmt
from reput.formats.queue import rocksdb_consume_queue as rocksdb_fmt
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.rocksdb_consume_queue import ENTRY_FAMILY, OFFSET_FAMILY
from reput.kernels.layouts.table import EntryPieces, Prefixes
from support import tables
from support.tables import Queues, queues, take_apart

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES = (ENTRY_FAMILY, OFFSET_FAMILY)
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
OWN = {"rocksdb.creating.session.identity", "rocksdb.creating.host.identity"}
"""Properties that no two tables share, and the machine's name, which is not written."""


def write(path: Path, given_queues: Queues, *, compress: bool = True, most: int = 1 << 30) -> Path:
    """Write a table, in several calls where `most` entries go into one."""
    table = TableFile(str(path), Prefixes.of(given_queues.prefixes), compress=compress)
    for group in grouped(given_queues.pieces(), most):
        table.add(group)
    table.finish()
    return path


def ingested(folder: Path, *paths: Path) -> DatabaseOwner:
    """A new database that has taken tables in."""
    database = DatabaseOwner(folder, FAMILIES, folder.with_suffix(".log"), fs.owner_of(folder.parent))
    database.ingest(ENTRY_FAMILY, [str(path) for path in paths])
    return database


@FEW
@given(queues(), st.sampled_from([1 << 30, 700]))
def test_bytes_are_those_of_rocksdb(tmp_path: Path, given_queues: Queues, most: int) -> None:
    """Blocks, index and properties are byte for byte those of RocksDB's writer, with and without compression."""
    for compress in (False, True):
        tables.write_by_rocksdb(tmp_path / "theirs.sst", given_queues.pairs(), compress=compress)
        theirs = take_apart((tmp_path / "theirs.sst").read_bytes())
        ours = take_apart(write(tmp_path / "ours.sst", given_queues, compress=compress, most=most).read_bytes())
        # Which of several equal encodings an LZ4 compressor finds is its own affair.
        own = OWN | ({"rocksdb.data.size", "rocksdb.tail.start.offset"} if compress else set())

        assert ours.plain_data() == theirs.plain_data()
        assert [key for key, _ in ours.index] == [key for key, _ in theirs.index]
        assert compress or (ours.data, ours.index) == (theirs.data, theirs.index)
        assert ours.metaindex == theirs.metaindex
        assert (ours.checksum, ours.version) == (theirs.checksum, theirs.version)
        assert {name: value for name, value in ours.properties.items() if name not in own} == {
            name: value for name, value in theirs.properties.items() if name not in own
        }


@FEW
@given(queues(), st.booleans(), st.data())
def test_rocksdb_reads_them(
    tmp_path_factory: pytest.TempPathFactory, given_queues: Queues, compress: bool, data: st.DataObject
) -> None:
    """Taken into a database, a table gives every key by walk, by look-up and by seeking, and none that it has not."""
    folder = tmp_path_factory.mktemp("ingested")
    pairs = given_queues.pairs()
    path = write(folder / "ours.sst", given_queues, compress=compress)
    with ingested(folder / "db", path) as database:
        family = database.families[ENTRY_FAMILY]
        chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=20))
        sought = data.draw(st.lists(st.binary(max_size=30) | st.sampled_from(pairs).map(lambda p: p[0][:-1])))

        assert list(family.walk()) == pairs
        assert [family.get(key) for key, _ in chosen] == [value for _, value in chosen]
        for key in sought:
            assert family.get(key) is None
            following = [pair for pair in pairs if pair[0] >= key]
            assert family.some(key, 3) == following[:3]
            before = len(pairs) - len(following)
            assert list(family.walk_back(pairs[0][0], key)) == pairs[:before][::-1]
    with DatabaseReader(folder / "db", FAMILIES) as reader:
        assert list(reader.families[ENTRY_FAMILY].walk()) == pairs


def steady(topic: bytes, count: int, first: int = 0) -> Queues:
    """One queue with values that cannot be compressed."""
    values = np.random.default_rng(1).integers(0, 256, (count, rocksdb_fmt.VALUE_SIZE), dtype=np.uint8)
    return Queues([QueueKey(topic, 0)], [first], [values], [count])


def test_several_tables_and_more_behind(tmp_path: Path) -> None:
    """Tables taken in together are kept apart, compacted with what is written later, and read after a reopening."""
    made = [steady(topic, 5000) for topic in (b"a", b"b", b"c")]
    paths = [write(tmp_path / f"{number}.sst", one) for number, one in enumerate(made)]
    pairs = [pair for one in made for pair in one.pairs()]
    with ingested(tmp_path / "db", *paths) as database:
        batch = database.batch()
        batch.put(ENTRY_FAMILY, pairs[7][0], b"new")
        batch.delete(ENTRY_FAMILY, pairs[8][0])
        database.write(batch)
        expected = [*pairs[:7], (pairs[7][0], b"new"), *pairs[9:]]
        assert list(database.families[ENTRY_FAMILY].walk()) == expected
        database.compact(ENTRY_FAMILY)
        assert list(database.families[ENTRY_FAMILY].walk()) == expected
    with DatabaseReader(tmp_path / "db", FAMILIES) as reader:
        assert list(reader.families[ENTRY_FAMILY].walk()) == expected


@pytest.mark.parametrize("place", [100, 20_000, 200_000])
def test_damage_is_found(place: int, tmp_path: Path) -> None:
    """RocksDB checks the checksums: a byte that has changed is damage, found when it is taken in or read."""
    path = write(tmp_path / "ours.sst", steady(b"a", 20_000))
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStoreError, match="checksum"), ingested(tmp_path / "db", path) as database:
        list(database.families[ENTRY_FAMILY].walk())


def test_two_tables_have_two_names(tmp_path: Path) -> None:
    """Each table has a session of its own: blocks are cached by it."""
    sessions = {
        take_apart(write(tmp_path / f"{n}.sst", steady(b"a", 3)).read_bytes()).properties[
            "rocksdb.creating.session.identity"
        ]
        for n in range(3)
    }
    assert len(sessions) == 3


def test_grouped() -> None:
    """A group ends with the piece that reaches the next multiple of the entries."""
    entries = np.array([3, 3, 9, 1, 1], dtype=np.int64)
    pieces = EntryPieces(np.arange(5), np.zeros(5, dtype=np.int64), entries, np.zeros(5, dtype=np.int64))

    assert [group.row.tolist() for group in grouped(pieces, 4)] == [[0, 1], [2], [3], [4]]
    assert [group.row.tolist() for group in grouped(pieces, 100)] == [[0, 1, 2, 3, 4]]


def test_compressed_only_where_it_saves(tmp_path: Path) -> None:
    """A block that LZ4 makes hardly smaller is stored as it is."""
    same = Queues([QueueKey(b"a", 0)], [0], [np.zeros((3000, rocksdb_fmt.VALUE_SIZE), dtype=np.uint8)], [0])
    assert set(take_apart(write(tmp_path / "1.sst", same).read_bytes()).kinds) == {fmt.LZ4}
    kinds = take_apart(write(tmp_path / "2.sst", steady(b"a", 3)).read_bytes()).kinds
    assert kinds == [fmt.NOT_COMPRESSED]
