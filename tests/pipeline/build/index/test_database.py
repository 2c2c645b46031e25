"""The index database that a rebuild makes, and that an embedded store extends."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.cli.main import run
from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.database import DatabaseReader
from reput.files.database_owner import DatabaseOwner
from reput.formats import paths
from reput.formats.index import index_database as fmt
from reput.formats.own import files as own
from reput.pipeline.build.rebuild.dry_run import dry_rebuild
from reput.pipeline.build.rebuild.options import RebuildOptions
from reput.pipeline.split import index_keys
from reput.store.owner import swap
from support import golden
from support.checked import assert_sound
from support.killed import Killed
from support.opened import assert_keys_found
from tests.formats.index.test_index_entry_keys import given_by_log

if TYPE_CHECKING:
    from pyspark import SparkContext

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
    monkeypatch.setattr(index_keys, "RUN_KEYS", 300)
    monkeypatch.setattr(index_keys, "_RANGE_KEYS", 512)
    monkeypatch.setattr(index_keys, "_SAMPLED", 8)
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


@pytest.mark.spark
@pytest.mark.golden
def test_spark_makes_compares_and_extends_the_same_database(spark: SparkContext, tmp_path: Path) -> None:
    """Tasks on Spark leave, write and compare the same entries as tasks in this process, and extend the database."""
    store = golden.unpack(ALONE, tmp_path)
    wanted = families(store)
    change(store, drop=[key for key in wanted[fmt.FAMILY] if key not in fmt.MARKS][::2])
    findings = reput.check(store, spark=spark, split_mb=0.25).findings
    assert {one.rule for one in findings} == {"index-key-missing"}
    reput.rebuild(store, only="index", spark=spark, split_mb=0.25)
    assert families(store) == wanted
    assert reput.check(store, spark=spark, split_mb=0.25).sound
    with reput.MessageStore.open(store) as opened:
        opened.put_message(reput.Message("orders", b"new", keys="new", unique_key="7F01"), queue_id=0)
        opened.reput(spark)
    assert families(store)[fmt.FAMILY] == given_by_log(store)


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


Damage = Callable[[Path], object]
DAMAGES: dict[str, Damage] = {
    "manifest": lambda folder: next(folder.glob("MANIFEST-*")).write_bytes(b"garbage" * 100),
    "no manifest": lambda folder: next(folder.glob("MANIFEST-*")).unlink(),
    "a byte of the manifest": lambda folder: flip(next(folder.glob("MANIFEST-*")), 40),
    "current": lambda folder: (folder / "CURRENT").write_bytes(b"garbage"),
    "no current": lambda folder: (folder / "CURRENT").unlink(),
    "no tables": lambda folder: [table.unlink() for table in folder.glob("*.sst")],
    "tables": lambda folder: [table.write_bytes(b"garbage" * 100) for table in folder.glob("*.sst")],
}


def flip(path: Path, at: int) -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def remedy_of(store: Path) -> str:
    """The reput command that `check` prints for a damaged index database."""
    (finding,) = (one for one in reput.check(store, spark=False).findings if one.rule == "index-database-damaged")
    (command,) = re.findall(r"`reput (.*?)`", finding.detail)
    return str(command)


@pytest.mark.golden
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [BOTH, ALONE, "json"])
def test_a_damaged_database_is_named_and_its_remedy_works(
    name: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check and info name a damaged database; the command that check prints mends the store, and keeps the damaged one.

    Every broker has a database. One that never had a table and lacks what names its tables is a new one for RocksDB.
    """
    store = golden.unpack(name, tmp_path)
    wanted = families(store)
    DAMAGES[damage](store / paths.INDEX_DATABASE)
    damaged = {file.name: file.read_bytes() for file in (store / paths.INDEX_DATABASE).iterdir()}
    if name == "json" and damage in {"no current", "no tables", "tables"}:
        assert reput.check(store, spark=False).sound
        return
    assert run(["info", str(store)]) == 1
    info = capsys.readouterr().out
    assert "in RocksDB, damaged" in info
    assert "no IndexFiles" not in info
    command, *words = remedy_of(store).split()
    assert run([command, str(store), *words, "--no-spark"]) == 0
    (kept,) = store.glob(f"{own.DAMAGED_INDEX_DATABASE}*")
    # The command is the remedy, and names the database once.
    (said,) = [line for line in capsys.readouterr().err.splitlines() if str(kept) in line]
    assert "makes the database anew" not in said
    assert "copy the folder again" not in said
    assert said.count(f"{store / paths.INDEX_DATABASE}: ") == 1
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == damaged
    assert_sound(store)
    # What the database of a store with IndexFiles held is not known: it holds nothing, unless a setting asks for it.
    assert families(store) == (wanted if name == ALONE else {family: {} for family in wanted})
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert_keys_found(opened, name)


@pytest.mark.golden
def test_a_damaged_database_that_a_setting_asks_for_is_built_whole(tmp_path: Path) -> None:
    """With indexRocksDBEnable a damaged database beside IndexFiles is built for all messages."""
    store = golden.unpack(BOTH, tmp_path)
    wanted = families(store)
    DAMAGES["manifest"](store / paths.INDEX_DATABASE)
    on = StoreConfig(index_rocksdb_enable=True)
    reput.rebuild(store, only="index", config=on, spark=False)
    assert families(store) == wanted
    assert_sound(store, on)


def test_a_failed_rebuild_leaves_the_old_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error before the swap leaves the old database live, and nothing in staging."""
    store = golden.unpack(ALONE, tmp_path)
    before = {file: file.read_bytes() for file in (store / paths.INDEX_DATABASE).iterdir()}
    monkeypatch.setattr(DatabaseOwner, "count", lambda _: 1)
    with pytest.raises(DamagedStoreError, match="the new database has 1 entries"):
        reput.rebuild(store, only="index", spark=False)
    assert {file: file.read_bytes() for file in (store / paths.INDEX_DATABASE).iterdir()} == before
    assert not [*(store / paths.REPUT).glob("staging-*")]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_kill_in_the_swap_of_the_index_database(
    damaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner finishes a swap that was killed while the database went live: the intent may name it."""
    store = golden.unpack(ALONE, tmp_path)
    wanted = families(store)
    if damaged:
        DAMAGES["manifest"](store / paths.INDEX_DATABASE)
    else:
        change(store, drop=[key for key in wanted[fmt.FAMILY] if key not in fmt.MARKS][::2])

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(swap, "_swap_part", killed)
        patch.setattr(swap, "_undo", lambda *_: None)
        with pytest.raises(Killed):
            reput.rebuild(store, only="index", spark=False)
    reput.MessageStore.open(store).close()
    assert families(store) == wanted
    assert len([*store.glob(f"{own.DAMAGED_INDEX_DATABASE}*")]) == damaged
    assert_sound(store)


def test_an_embedded_store_extends_the_database(tmp_path: Path) -> None:
    """Messages with a unique key are found at once, after a reopen, and in the database that a rebuild makes."""
    store = golden.unpack(ALONE, tmp_path)
    with reput.MessageStore.open(store) as opened:
        for number in range(3):
            keys = (f"new-{number}", "all")
            message = reput.Message("orders", b"new", tags="fresh", keys=keys, unique_key=f"7F00{number}")
            opened.put_message(message, queue_id=0)
            opened.reput(spark=False)
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


@pytest.mark.golden
@pytest.mark.parametrize("indexed", [0, 0.5])
def test_a_database_that_ends_before_the_other_indexes_is_extended_from_its_own_end(
    indexed: float, tmp_path: Path
) -> None:
    """A job that follows the log first adds what IndexFiles have and the database lacks, from its marks on."""
    store = golden.unpack(BOTH, tmp_path)
    keys = sorted((key for key in families(store)[fmt.FAMILY] if key not in fmt.MARKS), key=fmt.offset_of)
    end = fmt.offset_of(keys[int(len(keys) * indexed)])
    late = [key for key in keys if fmt.offset_of(key) > end or not indexed]
    change(store, drop=[*late, *(() if indexed else fmt.MARKS)])
    if indexed:
        change(store, put={fmt.LAST_OFFSET: fmt.encode_mark(end)})
    with reput.MessageStore.open(store, StoreConfig(index_rocksdb_enable=True)) as opened:
        opened.put_message(reput.Message("orders", b"new", keys="new", unique_key="7F01"), queue_id=0)
        opened.reput(spark=False)
    assert families(store)[fmt.FAMILY] == given_by_log(store)
    assert_sound(store)


def test_index_files_that_are_turned_off_are_not_believed_too_far(tmp_path: Path) -> None:
    """IndexFiles that are left as they are do not hide later messages from a reader of IndexFiles."""
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
