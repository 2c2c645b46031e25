"""A store that is killed at any call to the system, while it opens, catches up or closes, loses no message."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import reput
from reput.config import StoreConfig
from reput.formats import paths
from support import faults, stores
from support.checked import assert_sound
from support.opened import bodies, put
from support.search import cases

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
SMALL = replace(CONFIG, mapped_file_size_commit_log=1 << 11)
"""The case in which a cut removes files of the log, too."""


def work(path: Path, function: str, at: int, torn: bool, acknowledged: int) -> None:
    """Put, catch up, put again and close; die instead of the `at`th call of a function of the file seam."""
    faults.spoil(function, at, "torn" if torn else "kill")
    store = reput.MessageStore.open(path, CONFIG, create=True)
    for number in range(40):
        result = store.put_message(reput.Message("ab"[number % 2], b"%d" % number, keys="k", tags="t"))
        assert result.status is reput.PutStatus.PUT_OK
        os.write(acknowledged, b"%d\n" % number)
        if number in (15, 30):
            store.reput(spark=False)
    store.close()
    os._exit(0)


def run(path: Path, function: str, at: int, torn: bool) -> tuple[int, list[int]]:
    """The exit code of such a process, and the messages whose put had returned."""
    reading, writing = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=work, args=(path, function, at, torn, writing))
    process.start()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        acknowledged = [int(line) for line in pipe]
    process.join()
    assert process.exitcode in (0, faults.KILLED_STATUS)
    return process.exitcode, acknowledged


@pytest.mark.parametrize(
    ("function", "torn"),
    [("rename", False), ("pwrite", False), ("pwrite", True), ("sync_tree", False), ("remove_tree", False)],
)
def test_killed_at_any_call(function: str, torn: bool, tmp_path: Path) -> None:
    """Every message whose put returned is there once, in order; the indexes come out sound.

    A bounded run tries one write in n, a long one each.
    """
    stride = {"pwrite": 17}.get(function, 1)
    for at in range(1, 2000, cases(stride, 1)):
        path = tmp_path / f"{at}"
        code, acknowledged = run(path, function, at, torn)
        with reput.MessageStore.open(path, CONFIG, create=True) as store:
            for topic in range(2):
                wanted = [b"%d" % number for number in acknowledged if number % 2 == topic]
                found = [message.body for message in store.get_message("ab"[topic], 0, 0, 100)]
                found += [message.body for message in store.get_message("ab"[topic], 0, len(found), 100)]
                found += [message.body for message in store.get_message("ab"[topic], 0, len(found), 100)]
                assert found[: len(wanted)] == wanted
                assert len(found) - len(wanted) <= 1
            assert len(store.query_message("a", "k", 100)) == store.max_offset("a", 0)
        assert_sound(path, CONFIG)
        if code == 0:
            assert at > 1
            return
    pytest.fail("the last call was never reached")


@pytest.fixture(scope="module")
def torn_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store after a loss of power: queues with 40 entries, a log with 15 good records, and files after it."""
    folder = tmp_path_factory.mktemp("torn")
    with reput.MessageStore.open(folder / "alive", SMALL, create=True) as store:
        placed = put(store, 10, keys="k")
        store.reput(spark=False)
        stores.copy(folder / "alive", folder / "s")
        placed += put(store, 30, keys="k")
        store.reput(spark=False)
        for name in (paths.CONSUME_QUEUE, paths.COMMIT_LOG):
            stores.copy(folder / "alive" / name, folder / "s" / name, dirs_exist_ok=True)
    for log in sorted((folder / "s" / paths.COMMIT_LOG).iterdir()):
        data, start = bytearray(log.read_bytes()), int(log.name)
        for place in placed[15:]:
            if start <= place < start + len(data):
                data[place - start : place - start + 8] = b"\xff" * 8
        log.write_bytes(data)
    return folder / "s"


def open_torn(path: Path, function: str, at: int, torn: bool) -> None:
    """Open a torn store; die instead of the `at`th call of a function of the file seam."""
    faults.spoil(function, at, "torn" if torn else "kill")
    reput.MessageStore.open(path, SMALL, create=True).close()
    os._exit(0)


@pytest.mark.parametrize(
    ("function", "torn"),
    [("pwrite", False), ("pwrite", True), ("write_at", False), ("sync_path", False), ("remove_file", False)],
)
def test_killed_at_any_call_that_cuts(function: str, torn: bool, torn_store: Path, tmp_path: Path) -> None:
    """Wherever an opener of a torn store dies, the next one cuts what is left; the indexes come out sound."""
    for at in range(1, 2000):
        path = stores.copy(torn_store, tmp_path / f"{at}")
        process = multiprocessing.get_context("fork").Process(target=open_torn, args=(path, function, at, torn))
        process.start()
        process.join()
        assert process.exitcode in (0, faults.KILLED_STATUS)
        with reput.MessageStore.open(path, SMALL, create=True) as store:
            assert bodies(store) == [b"%d" % number for number in (*range(10), *range(5))]
            assert put(store, 1)
        assert_sound(path, SMALL)
        shutil.rmtree(path)
        if process.exitcode == 0:
            assert at > 2
            return
    pytest.fail("the last call was never reached")
