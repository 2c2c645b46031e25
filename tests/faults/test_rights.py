"""The rights of what reput makes: no more than the umask or the store's folder gives, and one user's in TMPDIR."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

import reput
from reput.files import scratch
from reput.files.scratch import ScratchFolder
from support import golden, stores
from support.opened import CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=[0o077, 0o027, 0o022], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    """A umask for the process."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def open_to_others(folder: Path, mask: int) -> list[str]:
    """The files and folders that have a right that the mask takes."""
    found = (folder, *folder.rglob("*"))
    return [f"{path}: {stat.S_IMODE(path.lstat().st_mode):o}" for path in found if path.lstat().st_mode & mask & 0o777]


def test_a_new_store(tmp_path: Path, mask: int) -> None:
    """Nothing in a store that reput makes has a right that the umask takes."""
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        for number in range(30):
            store.put_message(reput.Message("orders", b"body", keys=f"k{number}"))
        store.commit_offset("g", "orders", 0, 3)
        store.reput(spark=False)
    assert open_to_others(tmp_path / "store", mask) == []
    reput.rebuild(tmp_path / "store", spark=False, config=CONFIG)
    reput.convert(tmp_path / "store", to="rocksdb", spark=False, config=CONFIG)
    assert open_to_others(tmp_path / "store", mask) == []


def test_a_store_that_is_closed_to_others_stays_so(tmp_path: Path) -> None:
    """In a store of mode 0700 every new file and folder is closed to others, whatever the umask is."""
    store = golden.unpack("basic", tmp_path)
    for path in (store, *store.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    before = os.umask(0)
    try:
        reput.rebuild(store, spark=False)
        with reput.MessageStore.open(store, stores.GOLDEN, create=True) as opened:
            opened.put_message(reput.Message("fresh", b"body"))
    finally:
        os.umask(before)
    assert open_to_others(store / "consumequeue", 0o077) == []
    assert open_to_others(store / "index", 0o077) == []
    assert open_to_others(store / "reput", 0o077) == []


def test_temporary_folders_are_one_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder that reput makes in TMPDIR has mode 0700, whatever the umask is."""
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    made: list[int] = []
    begin = ScratchFolder.__init__

    def remember(self: ScratchFolder, prefix: str) -> None:
        begin(self, prefix)
        made.append(stat.S_IMODE(self.path.stat().st_mode))
        assert self.path.parent == tmp_path

    monkeypatch.setattr(ScratchFolder, "__init__", remember)
    before = os.umask(0)
    try:
        store = golden.shared("rocksdb")
        reput.check(store, spark=False)
        with reput.MessageStore.open(store, read_only=True) as opened:
            opened.get_message("orders", 0, 0)
    finally:
        os.umask(before)
    assert set(made) == {0o700}
