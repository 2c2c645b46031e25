"""A store that is killed at any call to the system, while it opens, catches up or closes, loses nothing that was put."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.files import fs
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
KILLED = 77


def work(path: Path, function: str, at: int, torn: bool, acknowledged: int) -> None:
    """Put, catch up, put again and close; die instead of the `at`th call of a function of the file seam."""
    true = getattr(fs, function)
    calls = 0

    def spoiled(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            if torn:
                descriptor, data, offset = arguments
                true(descriptor, data[: len(data) // 2], offset)
            os._exit(KILLED)
        return true(*arguments, **named)

    setattr(fs, function, spoiled)
    store = reput.MessageStore.open(path, CONFIG)
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
        told = [int(line) for line in pipe]
    process.join()
    assert process.exitcode in (0, KILLED)
    return process.exitcode, told


@pytest.mark.parametrize(
    ("function", "torn"),
    [("rename", False), ("pwrite", False), ("pwrite", True), ("sync_tree", False), ("remove_tree", False)],
)
def test_killed_at_any_call(function: str, torn: bool, tmp_path: Path) -> None:
    """Every message whose put returned is there once, in order; the indexes come out sound."""
    step = {"pwrite": 7}.get(function, 1)
    for at in range(1, 2000, step):
        path = tmp_path / f"{at}"
        code, told = run(path, function, at, torn)
        with reput.MessageStore.open(path, CONFIG) as store:
            for topic in range(2):
                wanted = [b"%d" % number for number in told if number % 2 == topic]
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
