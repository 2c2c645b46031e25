"""An open store on a full disk, without rights, or with a follower that fails: statuses, typed errors, nothing lost."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import AccessError, NoSpaceError
from reput.files import fs
from reput.log.append import append_file
from support.checked import assert_sound
from support.users import as_another_user

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
OK, FULL = reput.PutStatus.PUT_OK, reput.PutStatus.DISK_FULL


def refuse(patch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let a function of the file seam fail as the system would make it."""

    def spoiled(*_arguments: Any, **_named: Any) -> Any:
        with fs.errors_named("somewhere", name):
            raise OSError(number, os.strerror(number))

    patch.setattr(fs, name, spoiled)


def bodies(store: reput.MessageStore) -> list[bytes]:
    """All messages of the one queue."""
    found: list[bytes] = []
    while pull := store.get_message("t", 0, len(found), 100):
        found += [message.body for message in pull]
    return found


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put on a full disk is a status, what was put stays readable, and with room again the store goes on."""
    monkeypatch.setattr(append_file, "RESERVE_STEP", 4096)
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put = 0
        with monkeypatch.context() as full:
            refuse(full, "reserve", errno.ENOSPC)
            while (result := store.put_message(reput.Message("t", b"%d" % put, keys="k"))).status is OK:
                put += 1
            assert result.status is FULL
            assert "Make room" in result.reason
            assert store.put_messages([reput.Message("t", b"x")] * 2).status is FULL
            assert bodies(store) == [b"%d" % number for number in range(put)]
        assert store.put_message(reput.Message("t", b"%d" % put, keys="k")).queue_offset == put
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("function", ["pwrite", "open_sized"])
def test_full_disk_for_the_indexes(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without space for indexes is reported by `reput`; messages stay readable and a later call completes it."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        for number in range(50):
            assert store.put_message(reput.Message("t", b"%d" % number, keys="k")).status is OK
        with monkeypatch.context() as full:
            refuse(full, function, errno.ENOSPC)
            with pytest.raises(NoSpaceError):
                store.reput(spark=False)
            assert bodies(store) == [b"%d" % number for number in range(50)]
        assert store.behind_bytes > 0
        store.reput(spark=False)
        assert store.behind_bytes == 0
    assert_sound(path, CONFIG)


def test_no_rights(open_folder: Path) -> None:
    """A user who may only read cannot open a store to write, and can read it."""
    path = open_folder / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        store.put_message(reput.Message("t", b"0"))

    def opened_to_write() -> str:
        try:
            reput.MessageStore.open(path, CONFIG, create=True)
        except AccessError as error:
            return str(error)
        return "opened"

    def read() -> str:
        with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
            return repr(bodies(store))

    assert str(path) in as_another_user(opened_to_write)
    assert as_another_user(read) == "[b'0']"


@pytest.mark.spark
def test_catch_up_on_spark(spark: SparkContext, tmp_path: Path) -> None:
    """`store.reput(spark)` brings the indexes up to the log as the loop does, time and again."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        for _ in range(3):
            for number in range(60):
                store.put_message(reput.Message("t", b"%d" % number, keys="k", tags="a"))
            done = store.reput(spark)
            assert (done.messages, store.behind_bytes) == (60, 0)
        assert len(bodies(store)) == 180
    assert_sound(path, CONFIG)


def test_a_follower_that_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that the disk refuses ends with that error; the store goes on, and closing it catches up."""
    path = tmp_path / "store"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    for number in range(20):
        store.put_message(reput.Message("t", b"%d" % number, keys="k"))
    with monkeypatch.context() as full:
        refuse(full, "pwrite", errno.ENOSPC)
        with pytest.raises(NoSpaceError):
            reput.follow(path, spark=False, config=CONFIG).wait(20)
    assert store.put_message(reput.Message("t", b"20")).queue_offset == 20
    store.close()
    assert_sound(path, CONFIG)
