"""check: the index database against the log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.index import index_database as fmt
from reput.formats.index.index_database import IndexKey
from support import golden
from support.checked import assert_sound
from tests.pipeline.build.index.test_database import ALONE, BOTH, change, families

if TYPE_CHECKING:
    from pathlib import Path

    from reput.pipeline.check.report import CheckReport, Finding


def checked(store: Path, config: StoreConfig | None = None) -> CheckReport:
    """Check a store in small splits."""
    return reput.check(store, spark=False, config=config, split_mb=0.25)


def found(store: Path, config: StoreConfig | None = None) -> list[tuple[str, str, int]]:
    """Rule, severity and count of each finding."""
    return [(one.rule, one.severity, one.count) for one in checked(store, config).findings]


def in_log_order(store: Path) -> list[bytes]:
    """The keys of all entries of a database, by the place of their record in the log."""
    keys = [key for key in families(store)[fmt.FAMILY] if key not in fmt.MARKS]
    return sorted(keys, key=fmt.offset_of)


@pytest.mark.golden
@pytest.mark.parametrize("name", [BOTH, ALONE, "json"])
def test_what_a_broker_leaves_is_sound(name: str) -> None:
    """A broker's store is sound with the index in files, in RocksDB, and in both; every entry is counted."""
    store = golden.shared(name)
    report = checked(store)
    assert not report.findings
    assert report.index_entries == (len(in_log_order(store)) if name != "json" else 0)
    assert bool(report.index_files) == (name != ALONE)


@pytest.mark.golden
def test_holes(tmp_path: Path) -> None:
    """Keys that are missing or have another time are damage, and a rebuild makes the store sound again."""
    store = golden.unpack(ALONE, tmp_path)
    keys = in_log_order(store)
    middle = len(keys) // 2
    change(store, drop=keys[middle : middle + 5], put={keys[middle + 20]: fmt.encode_value(1)})
    assert found(store) == [("index-key-missing", "damage", 6), ("index-key-wrong", "damage", 1)]
    finding, _ = checked(store).findings
    assert f"log offset {fmt.offset_of(keys[middle])}" in finding.detail
    assert "reput rebuild --only index" in finding.detail
    reput.rebuild(store, only="index", spark=False)
    assert_sound(store)


@pytest.mark.golden
def test_an_index_that_was_turned_on_later(tmp_path: Path) -> None:
    """Keys that are missing before the first one are a note if IndexFiles answer, and damage if the database does."""
    store = golden.unpack(BOTH, tmp_path)
    keys = in_log_order(store)
    begin = fmt.offset_of(keys[len(keys) // 2])
    early = [key for key in keys if fmt.offset_of(key) < begin]
    change(store, drop=early)
    assert found(store) == [("index-database-begins-late", "note", len(early))]
    answering = StoreConfig(index_file_read_enable=False)
    assert found(store, answering) == [("index-database-begins-late", "damage", len(early))]


@pytest.mark.golden
def test_wrong_entries(tmp_path: Path) -> None:
    """Garbage and entries that no record gives are damage; those of expired records are nothing."""
    store = golden.unpack(ALONE, tmp_path)
    key = fmt.decode_entry_key(in_log_order(store)[0])
    assert key is not None
    wrong = fmt.entry_key(key._replace(text=b"never@sent"))
    change(store, put={wrong: fmt.encode_value(key.hour_ms), b"garbage": b"", b"": b"x"})
    assert found(store) == [("index-key-wrong", "damage", 3)]


@pytest.mark.golden
def test_entries_of_lost_records(tmp_path: Path) -> None:
    """Entries of records above the log's end are what a crash leaves, and damage in a store that was closed."""
    store = golden.unpack(ALONE, tmp_path)
    end = next(line["log"][1] for line in golden.answers(ALONE) if "log" in line)
    lost = fmt.entry_key(IndexKey(fmt.HOUR_MS, b"orders", fmt.UNIQUE, b"u", end + 100))
    change(store, put={lost: fmt.encode_value(fmt.HOUR_MS)})
    assert found(store) == [("index-key-past-end", "damage", 1)]
    (store / paths.ABORT).touch()
    assert ("index-key-past-end", "leftover", 1) in found(store)


@pytest.mark.golden
def test_an_index_that_ends_too_early(tmp_path: Path) -> None:
    """Keys above the marks are not there yet: a crash leaves that, and the next to open the store adds them."""
    store = golden.unpack(ALONE, tmp_path)
    keys = in_log_order(store)
    end = fmt.offset_of(keys[-30])
    late = [key for key in keys if fmt.offset_of(key) > end]
    change(store, drop=late, put={fmt.LAST_OFFSET: fmt.encode_mark(end)})
    assert found(store) == [("index-database-out-of-date", "damage", len(late))]
    reput.MessageStore.open(store).close()
    assert_sound(store)


def test_a_damaged_database_is_one_finding(tmp_path: Path) -> None:
    """The queues are checked all the same, and the finding names what helps."""
    store = golden.unpack(ALONE, tmp_path)
    (manifest,) = (store / paths.INDEX_DATABASE).glob("MANIFEST-*")
    manifest.write_bytes(b"garbage" * 100)
    findings: list[Finding] = checked(store).findings
    assert [one.rule for one in findings] == ["index-database-damaged"]
    assert "reput rebuild --only index" in findings[0].detail


@pytest.mark.golden
def test_a_database_that_a_killed_broker_had_not_written_was_damage(tmp_path: Path) -> None:
    """A missing database is a remain of the crash if the broker was killed, and damage if it was closed."""
    store = golden.unpack(ALONE, tmp_path)
    shutil.rmtree(store / paths.INDEX_DATABASE)
    asked = StoreConfig(index_rocksdb_enable=True, index_file_write_enable=False, index_file_read_enable=False)
    assert found(store, asked) == [("index-database-folder-missing", "damage", 1)]
    (store / paths.ABORT).touch()
    assert found(store, asked) == [("index-database-out-of-date", "leftover", 1)]
    reput.rebuild(store, only="index", spark=False, config=asked)
    assert_sound(store, asked)
