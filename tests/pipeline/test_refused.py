"""Kinds of store that cannot be built yet are refused by name, and not a byte of them changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import UnsupportedStoreError
from reput.formats import paths
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: tuple[dict[str, Any], ...] = ({}, {"salvage": True}, {"only": "index"}, {"only": "queue"})


def assert_refused(store: Path, name: str, config: StoreConfig | None = None) -> None:
    """Every way of asking is refused with `name` in the text, and changes nothing."""
    before = stores.digest(store, inodes=True)
    for options in OPTIONS:
        with pytest.raises(UnsupportedStoreError, match=name) as caught:
            reput.rebuild(store, spark=False, config=config, **options)
        assert caught.value.exit_code == 2
        assert stores.digest(store, inodes=True) == before
        assert stores.leftovers(store) == []


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "kind"),
    [("batch", "batch ConsumeQueue"), ("rocksdb", "RocksDB"), ("double", "RocksDB")],
)
def test_golden(name: str, kind: str, tmp_path: Path) -> None:
    """The golden stores with other kinds of queues."""
    assert_refused(golden.unpack(name, tmp_path), kind)


@pytest.mark.golden
def test_inner_batches_are_seen_in_the_log(tmp_path: Path) -> None:
    """Without its folders a store with inner batches is known by its log, place and all."""
    store = golden.unpack("batch", tmp_path)
    for name in (paths.CONSUME_QUEUE, paths.BATCH_CONSUME_QUEUE):
        (store / name).rename(tmp_path / name)
    assert_refused(store, r"log offset \d+\): an inner batch", stores.GOLDEN)


@pytest.mark.parametrize("split_mb", [128, 0.0002])
def test_lmq_message(split_mb: float, tmp_path: Path) -> None:
    """A message with the properties of light message queues is refused, wherever it stands."""
    log = LogBuilder(4096)
    for _ in range(10):
        log.message()
    pair = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "0,0"}
    found = log.message(more=pair)
    log.message()
    store = stores.with_log(tmp_path, log)
    before = stores.digest(store)
    with pytest.raises(UnsupportedStoreError, match=f"log offset {found.offset}.*LMQ"):
        stores.rebuild(store, split_mb=split_mb)
    assert stores.digest(store) == before


def test_lmq_folder(tmp_path: Path) -> None:
    """A light message queue's folder is refused, though the log has no such message any more."""
    log = LogBuilder(4096)
    log.message()
    store = stores.with_log(tmp_path, log)
    (store / paths.CONSUME_QUEUE / "%LMQ%a" / "0").mkdir(parents=True)
    assert_refused(store, "LMQ")


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"store_path_commit_log": "a,b"}, "multi-path"),
        ({"enable_dledger_commit_log": True}, "DLedger"),
        ({"store_type": "defaultRocksDB"}, "RocksDB"),
        ({"rocksdb_cq_double_write_enable": True}, "RocksDB"),
    ],
)
def test_settings(setting: dict[str, Any], name: str, tmp_path: Path) -> None:
    """What the configuration says is believed, though the files do not show it."""
    log = LogBuilder(4096)
    log.message()
    assert_refused(stores.with_log(tmp_path, log), name, replace(stores.SMALL, **setting))


def test_dledger_folder(tmp_path: Path) -> None:
    """A store whose log is DLedger's is told from a folder that is no store."""
    store = tmp_path / "store"
    (store / "dledger-n0" / "data").mkdir(parents=True)
    assert_refused(store, "DLedger")


def test_dledger_files(tmp_path: Path) -> None:
    """DLedger entries in commitlog files are told from damage."""
    store = tmp_path / "store"
    (store / paths.COMMIT_LOG).mkdir(parents=True)
    data = (1).to_bytes(4, "big") + (300).to_bytes(4, "big") + bytes(4088)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).write_bytes(data)
    assert_refused(store, "DLedger")
