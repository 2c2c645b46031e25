"""The index database that a rebuild makes, and that an embedded store extends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.database import DatabaseOwner, DatabaseReader
from reput.formats import index_database as fmt
from reput.formats import own, paths
from reput.pipeline.build.index import database
from reput.pipeline.build.rebuild.dry_run import dry_rebuild
from reput.pipeline.build.rebuild.options import RebuildOptions
from tests.support import golden

BOTH, ALONE = "index-both", "index-rocksdb"
Families = dict[str, dict[bytes, bytes]]


def families(store: Path) -> Families:
    """All keys and values of the database of a store, by column family."""
    with DatabaseReader(store / paths.INDEX_DATABASE, fmt.FAMILIES) as reader:
        return {name: dict(family.walk()) for name, family in reader.families.items()}


def change(store: Path, *, put: dict[bytes, bytes] | None = None, drop: list[bytes] | None = None) -> None:
    """Change the default family of the database of a store."""
    folder = store / paths.INDEX_DATABASE
    with DatabaseOwner(folder, fmt.FAMILIES, store.parent / "logs", fs.owner_of(store)) as writer:
        batch = writer.batch()
        for key, value in (put or {}).items():
            batch.put(fmt.FAMILY, key, value)
        for key in drop or ():
            batch.delete(fmt.FAMILY, key)
        writer.write(batch)


@pytest.mark.golden
@pytest.mark.parametrize("name", [BOTH, ALONE])
def test_a_rebuild_makes_the_brokers_database(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a database without most of its keys, in many small tables, comes the broker's own, key by key."""
    monkeypatch.setattr(database, "_TABLE_ENTRIES", 500)
    store = golden.unpack(name, tmp_path)
    wanted = families(store)
    entries = [key for key in wanted[fmt.FAMILY] if key not in fmt.MARKS]
    change(store, drop=entries[::2], put={b"garbage": b"", entries[1]: b"x"})
    report = reput.rebuild(store, only="index", spark=False, split_mb=0.25)
    assert families(store) == wanted
    assert report.index_entries == len(entries)
    assert fs.exists(store / paths.INDEX) == (name == BOTH)


@pytest.mark.golden
def test_a_rebuild_makes_a_database_that_is_turned_on(tmp_path: Path) -> None:
    """With indexRocksDBEnable a whole rebuild makes the database from nothing, for all messages."""
    store = golden.unpack(BOTH, tmp_path)
    wanted = families(store)
    shutil.rmtree(store / paths.INDEX_DATABASE)
    reput.rebuild(store, config=StoreConfig(index_rocksdb_enable=True), spark=False)
    assert families(store) == wanted


def test_pending_timers_stay(tmp_path: Path) -> None:
    """A rebuild of the index keeps what other parts of the broker have in the database."""
    store = golden.unpack("pending-rocksdb", tmp_path)
    before = families(store)
    assert before["timer"]
    reput.rebuild(store, only="index", config=StoreConfig(index_rocksdb_enable=True), spark=False)
    after = families(store)
    assert after[fmt.FAMILY]
    assert {**after, fmt.FAMILY: {}} == before


def test_a_store_without_the_index_keeps_its_database(tmp_path: Path) -> None:
    """A rebuild leaves a database alone that indexes nothing."""
    store = golden.unpack("json", tmp_path)
    before = sorted(file.name for file in (store / paths.INDEX_DATABASE).iterdir())
    report = reput.rebuild(store, only="index", spark=False)
    assert report.index_files
    assert not report.index_entries
    assert sorted(file.name for file in (store / paths.INDEX_DATABASE).iterdir()) == before


def test_a_damaged_database_is_not_replaced_with_what_may_pend_in_it(tmp_path: Path) -> None:
    """A database whose families cannot be read is refused by name; once it is moved away a rebuild makes a new one."""
    store = golden.unpack(ALONE, tmp_path)
    wanted = families(store)
    (manifest,) = (store / paths.INDEX_DATABASE).glob("MANIFEST-*")
    manifest.write_bytes(b"garbage" * 100)
    with pytest.raises(DamagedStoreError, match=r"rocksdbstore.*Pending timers.*move the folder away"):
        reput.rebuild(store, only="index", spark=False)
    assert manifest.read_bytes() == b"garbage" * 100
    (store / paths.INDEX_DATABASE).rename(tmp_path / "moved")
    config = StoreConfig(index_rocksdb_enable=True, index_file_write_enable=False)
    reput.rebuild(store, only="index", config=config, spark=False)
    assert families(store) == wanted


def test_a_failed_rebuild_leaves_the_old_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error before the swap leaves the old database live, and nothing in staging."""
    store = golden.unpack(ALONE, tmp_path)
    before = {file: file.read_bytes() for file in (store / paths.INDEX_DATABASE).iterdir()}
    monkeypatch.setattr(DatabaseOwner, "count", lambda *_: 1)
    with pytest.raises(DamagedStoreError, match="the new database has 1 entries"):
        reput.rebuild(store, only="index", spark=False)
    assert {file: file.read_bytes() for file in (store / paths.INDEX_DATABASE).iterdir()} == before
    assert not [*(store / paths.REPUT).glob("staging-*")]


def test_an_embedded_store_extends_the_database(tmp_path: Path) -> None:
    """Messages with a unique key are found at once, after a reopen, and in the database that a rebuild makes."""
    store = golden.unpack(ALONE, tmp_path)
    with reput.MessageStore.open(store) as opened:
        for number in range(3):
            keys = (f"new-{number}", "all")
            message = reput.Message("orders", b"new", tags="fresh", keys=keys, unique_key=f"7F00{number}")
            opened.put_message(message, queue_id=0)
            opened.reput()
            assert len(opened.query_message("orders", "all")) == number + 1
            assert len(opened.query_message("orders", "fresh", by_tag=True)) == number + 1
    assert not fs.exists(store / paths.INDEX)
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert [message.keys for message in opened.query_message("orders", "all")] == [
            [f"new-{number}", "all"] for number in range(3)
        ]
        assert len(opened.query_message("orders", "k7"))
    grown = families(store)
    assert fs.exists(store / paths.REPUT / own.FRONTIER_NAME)
    reput.rebuild(store, only="index", spark=False)
    assert families(store) == grown
    assert reput.check(store, spark=False).sound


def test_index_files_that_are_turned_off_are_not_believed_too_far(tmp_path: Path) -> None:
    """If IndexFiles are left as they are, a reader of IndexFiles finds later messages all the same."""
    store = golden.unpack(BOTH, tmp_path)
    off = StoreConfig(index_file_write_enable=False, index_file_read_enable=False)
    with reput.MessageStore.open(store, off) as opened:
        opened.put_message(reput.Message("orders", b"new", keys="new"), queue_id=0)
    for config in (None, off):
        with reput.MessageStore.open(store, config, read_only=True) as opened:
            assert len(opened.query_message("orders", "new")) == 1
            assert len(opened.query_message("orders", "k7"))


@pytest.mark.golden
def test_a_dry_run_counts_the_entries(tmp_path: Path) -> None:
    """A dry run names the database that is replaced, and about as many entries as a rebuild makes."""
    store = golden.unpack(ALONE, tmp_path)
    run = dry_rebuild(store, StoreConfig(), RebuildOptions(only="index"))
    entries = len(families(store)[fmt.FAMILY]) - len(fmt.MARKS)
    assert entries * 0.8 < run.index_entries < entries * 1.3
    assert not run.index_files
    assert [one.folder for one in run.replaced] == [paths.INDEX_DATABASE]
