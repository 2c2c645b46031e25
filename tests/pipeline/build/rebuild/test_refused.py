"""Kinds of store that cannot be built yet are refused by name, and not a byte of them changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import UnsupportedStoreError
from reput.formats import paths
from support import stores
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


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"enable_dledger_commit_log": True}, "DLedger"),
    ],
)
def test_settings(setting: dict[str, Any], name: str, tmp_path: Path) -> None:
    """A configuration is believed, though the files do not show it."""
    log = LogBuilder(4096)
    log.message()
    assert_refused(stores.with_log(tmp_path, log), name, replace(stores.SMALL, **setting))


@pytest.mark.parametrize("with_log_folder", [False, True])
def test_dledger_folder(tmp_path: Path, with_log_folder: bool) -> None:
    """A store whose log is DLedger's is refused by that name: it is no new store, and its folder is one of a store."""
    store = tmp_path / "store"
    (store / "dledger-n0" / "data").mkdir(parents=True)
    if with_log_folder:
        (store / paths.COMMIT_LOG).mkdir()
    assert_refused(store, "DLedger")


def test_dledger_files(tmp_path: Path) -> None:
    """DLedger entries in commitlog files are reported as such, and not as damage."""
    store = tmp_path / "store"
    (store / paths.COMMIT_LOG).mkdir(parents=True)
    data = (1).to_bytes(4, "big") + (300).to_bytes(4, "big") + bytes(4088)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).write_bytes(data)
    assert_refused(store, "DLedger")
