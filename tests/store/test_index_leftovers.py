"""The part of IndexFiles that a crash leaves without records, or half written: it goes at the next opening or close."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import reput
from reput.errors import ReputError
from reput.files import fs
from reput.formats import paths
from reput.formats.index.index_file import HEADER_SIZE, SLOT_SIZE, decode_header, encode_header
from reput.index.files import list_index_files, read_slots
from support import stores
from support.checked import assert_sound
from support.opened import CONFIG, put


def test_slots_that_a_crash_left_ahead_of_the_items_are_taken_back(tmp_path: Path) -> None:
    """A crash keeps the slot of an item that it lost: opening and closing takes the slot back, and the key is found."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 5, keys="k")
    (file,) = (path / paths.INDEX).iterdir()
    slots = read_slots(file, 16)
    (used,) = np.flatnonzero(slots)
    before = file.read_bytes()
    with file.open("r+b") as data:
        data.seek(HEADER_SIZE + int(used) * SLOT_SIZE)
        data.write((6).to_bytes(SLOT_SIZE, "big"))
    (path / paths.ABORT).write_bytes(b"1")
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.reput(spark=False).messages == 0
        assert len(store.query_message("t", "k", 100)) == 5
    assert file.read_bytes() == before
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("reputs", [True, False])
def test_items_of_lost_records_are_removed_if_nothing_follows(tmp_path: Path, reputs: bool) -> None:
    """A power cut keeps an item, and loses its record: the item goes also if no message comes before the close."""
    path, before = tmp_path / "s", tmp_path / "before"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 5, keys="k")
    stores.copy(path, before)
    with reput.MessageStore.open(path, CONFIG) as store:
        (lost,) = put(store, 1, keys="k")
    shutil.rmtree(path / paths.REPUT)
    shutil.copytree(before / paths.REPUT, path / paths.REPUT)
    shutil.copy(before / paths.CHECKPOINT, path / paths.CHECKPOINT)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    log.write_bytes(log.read_bytes()[:lost].ljust(log.stat().st_size, b"\0"))
    (path / paths.ABORT).write_bytes(b"1")
    with reput.MessageStore.open(path, CONFIG) as store:
        assert not reputs or store.reput(spark=False).messages == 0
    assert [one.header for one in list_index_files(path / paths.INDEX)] == [
        one.header for one in list_index_files(before / paths.INDEX)
    ]
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("reputs", [True, False])
def test_leftovers_keep_abort_until_a_catch_up_removes_them(tmp_path: Path, reputs: bool) -> None:
    """A close without a catch-up after a crash leaves `abort`, so that RocketMQ recovers; with one it goes."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 5, keys="k")
    (path / paths.ABORT).write_bytes(b"1")
    store = reput.MessageStore.open(path, CONFIG)
    store.close(reput=reputs)
    assert (path / paths.ABORT).exists() is not reputs
    assert_sound(path, CONFIG)


def _tear_header(file: Path, field: str, value: int) -> None:
    """Give one field of an IndexFile's header another value, as a power cut amid it does."""
    data = bytearray(file.read_bytes())
    data[:HEADER_SIZE] = encode_header(decode_header(bytes(data[:HEADER_SIZE]))._replace(**{field: value}))
    file.write_bytes(data)


def test_a_torn_header_of_an_index_file_is_mended(tmp_path: Path) -> None:
    """A power cut keeps the time of a lost item in the header, and nothing else of it: the header gets its own back."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 5, keys="k")
    (file,) = (path / paths.INDEX).iterdir()
    before = file.read_bytes()
    _tear_header(file, "end_timestamp", decode_header(before[:HEADER_SIZE]).end_timestamp + 1)
    (path / paths.ABORT).write_bytes(b"1")
    with reput.MessageStore.open(path, CONFIG):
        pass
    assert file.read_bytes() == before
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("is_blank", [True, False])
def test_a_header_that_a_power_cut_has_taken_leaves_no_item(tmp_path: Path, is_blank: bool) -> None:
    """Items and slots without their header count for nothing, also if no item follows."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 5)
    file = path / paths.INDEX / "20231114000000000"
    with reput.MessageStore.open(tmp_path / "keyed", CONFIG, create=True) as store:
        put(store, 2, keys="k")
    (keyed,) = (tmp_path / "keyed" / paths.INDEX).iterdir()
    file.write_bytes(bytes(HEADER_SIZE) + keyed.read_bytes()[HEADER_SIZE:])
    if not is_blank:
        _tear_header(file, "begin_timestamp", 1)
    (path / paths.ABORT).write_bytes(b"1")
    with reput.MessageStore.open(path, CONFIG):
        pass
    assert_sound(path, CONFIG)


def test_slots_that_cannot_be_synced_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that refuses the slots of an IndexFile stops the opening with an error that names the file."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 5, keys="k")
    (file,) = (path / paths.INDEX).iterdir()
    with file.open("r+b") as data:
        data.seek(HEADER_SIZE)
        data.write((6).to_bytes(SLOT_SIZE, "big"))
    (path / paths.ABORT).write_bytes(b"1")

    sync, inode = fs.sync, file.stat().st_ino

    def refuse(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(fs, "sync", refuse)
        with pytest.raises(ReputError, match=re.escape(f"{file}: cannot sync")):
            reput.MessageStore.open(path, CONFIG)
    with reput.MessageStore.open(path, CONFIG):
        pass
    assert_sound(path, CONFIG)
