"""Several exports into one folder, and several attempts of one range."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from connect.test_export import LOOP, exported
from reput.connect import export as exports
from reput.connect.export_range import export_range, own_folder
from reput.errors import ConfigError, StoreLockedError
from reput.files import fs
from support import stores
from support.opened import CONFIG
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def test_two_exports_into_one_folder_lost_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one runs another one is refused, and changes nothing."""
    log = LogBuilder()
    for _ in range(20):
        log.message("t")
    store, out = stores.with_log(tmp_path, log), tmp_path / "out"
    real, refused = export_range, []

    def with_another(*given: Any) -> Any:
        done = real(*given)
        with pytest.raises(StoreLockedError, match="another export into this folder is at work") as found:
            reput.export(store, out, **LOOP)
        refused.append(found)
        return done

    monkeypatch.setattr(exports, "export_range", with_another)
    assert reput.export(store, out, **LOOP).messages == 20
    assert len(exported(out)) == 20
    assert len(refused) == 1


def test_an_export_that_waited_for_another_one_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has exported newer messages: this one goes on there, unless its own columns are others."""
    store, out, real = tmp_path / "store", tmp_path / "out", exports.export_lock

    def put(count: int) -> None:
        with reput.MessageStore.open(store, CONFIG, create=True) as opened:
            for _ in range(count):
                opened.put_message(reput.Message("t", b"body"))

    def after_another(path: Path) -> Any:
        monkeypatch.setattr(exports, "export_lock", real)
        put(3)
        reput.export(store, out, **LOOP)
        return real(path)

    put(5)
    assert reput.export(store, out, **LOOP).messages == 5
    monkeypatch.setattr(exports, "export_lock", after_another)
    assert reput.export(store, out, **LOOP).messages == 0
    assert len(exported(out)) == 8
    shutil.rmtree(own_folder(out))
    shutil.rmtree(out)
    monkeypatch.setattr(exports, "export_lock", after_another)
    with pytest.raises(ConfigError, match="columns"):
        reput.export(store, out, columns=["body"], **LOOP)


def test_two_attempts_of_a_range_shared_a_half_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that is killed while another one ends leaves the file of that one whole."""
    real, path = fs.pwrite, tmp_path / "f.parquet"

    def half(descriptor: int, data: bytes, offset: int) -> None:
        monkeypatch.setattr(fs, "pwrite", real)
        real(descriptor, data[:300], offset)
        fs.write_whole(path, bytes(1000), is_hidden=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(fs, "pwrite", half)
    with pytest.raises(KeyboardInterrupt):
        fs.write_whole(path, bytes(1000), is_hidden=True)
    assert path.stat().st_size == 1000
