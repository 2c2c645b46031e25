"""Stores with a DLedger log are refused by name, whatever is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.errors import UnsupportedStoreError
from support import golden, stores
from support.checked import assert_sound

PURPOSES: dict[str, Callable[[Path, StoreConfig], Any]] = {
    "info": lambda store, config: reput.info(store, config=config),
    "check": lambda store, config: reput.check(store, spark=False, config=config),
    "scan": lambda store, config: reput.scan(store, config=config).read_all(),
    "export": lambda store, config: reput.export(store, store.parent / "exported", spark=False, config=config),
    "read": lambda store, config: reput.MessageStore.open(store, config, read_only=True).close(),
    "write": lambda store, config: reput.MessageStore.open(store, config).close(),
    "follow": lambda store, config: reput.follow(store, spark=False, config=config, until_caught_up=True),
    "rebuild": lambda store, config: reput.rebuild(store, spark=False, config=config),
    "convert": lambda store, config: reput.convert(store, to="rocksdb", spark=False, config=config),
}
COMMANDS = (
    ("info",), ("check",), ("dump", "log"), ("dump", "queue"), ("dump", "index"), ("get", "-t", "orders"),
    ("query", "-t", "orders", "--key", "k"), ("progress",), ("pending", "timers"), ("lite",), ("diff",), ("rebuild",),
)  # fmt: skip
TURNED_ON = StoreConfig(enable_dledger_commit_log=True)


@pytest.fixture
def changed_over(tmp_path: Path) -> Path:
    """Return a store of a cluster that changed over to DLedger: its old log, and a file of the new one."""
    store = golden.unpack("basic", tmp_path)
    data = store / "dledger-n0" / "data"
    data.mkdir(parents=True)
    (data / ("0" * 20)).write_bytes(bytes(4096))
    return store


@pytest.mark.golden
@pytest.mark.parametrize("purpose", PURPOSES)
def test_the_setting_is_refused_for_every_purpose(purpose: str, tmp_path: Path) -> None:
    """EnableDLegerCommitLog=true is refused for every purpose, also where the files do not show it."""
    store = golden.unpack("basic", tmp_path)
    before = stores.digest(store)
    with pytest.raises(
        UnsupportedStoreError, match=r"enableDLegerCommitLog=true .*a DLedger log, which reput does not"
    ):
        PURPOSES[purpose](store, TURNED_ON)
    assert stores.digest(store) == before


@pytest.mark.golden
@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_store_that_changed_over_was_called_sound(purpose: str, changed_over: Path) -> None:
    """A DLedger log beside an older log is refused for every purpose: the newest messages are there."""
    before = stores.digest(changed_over)
    with pytest.raises(UnsupportedStoreError, match="dledger-n0/data: has files of a DLedger log"):
        PURPOSES[purpose](changed_over, StoreConfig())
    assert stores.digest(changed_over) == before


@pytest.mark.golden
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_the_setting(command: tuple[str, ...], tmp_path: Path) -> None:
    """Each command that reads a store asks the setting."""
    store = golden.unpack("basic", tmp_path)
    named = 2 if command[0] in ("dump", "pending") else 1
    arguments = [*command[:named], str(store), *command[named:], "--set", "enableDLegerCommitLog=true"]
    with pytest.raises(UnsupportedStoreError, match="a DLedger log, which reput does not read"):
        CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)


@pytest.mark.golden
def test_a_broker_without_dledger_leaves_the_folder_alone(changed_over: Path) -> None:
    """With enableDLegerCommitLog=false the folder is out of use, and the log is the store's own."""
    assert_sound(changed_over, StoreConfig(enable_dledger_commit_log=False))


@pytest.mark.golden
def test_an_empty_dledger_folder_beside_a_log_is_no_dledger_log(tmp_path: Path) -> None:
    """A folder of DLedger without files has no message, so the store is its commitlog."""
    store = golden.unpack("basic", tmp_path)
    (store / "dledger-n0" / "data").mkdir(parents=True)
    assert_sound(store)
