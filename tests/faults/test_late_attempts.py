"""A task's attempt that resumes late, when others have gone on, changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import StaleEpochError
from reput.pipeline import grow
from reput.pipeline.follow import Follow
from support import stores
from support.checked import assert_sound
from support.late import LateAttempts

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 13, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=50
)


def put(store: reput.MessageStore, count: int) -> None:
    """Messages of two queues with keys that differ."""
    for number in range(count):
        message = reput.Message("ab"[number % 2], b"%d" % number, keys=f"k{number}", tags="t")
        assert store.put_message(message).status is reput.PutStatus.PUT_OK


@pytest.mark.parametrize("ranges", ["short", "long"])
def test_a_late_attempt_of_an_earlier_step(ranges: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pauses at the fence in one step is refused in any later one, so the live IndexFile loses no item."""
    if ranges == "long":
        monkeypatch.setattr(grow, "ONE_SPLIT_BYTES", 100)
        monkeypatch.setattr(grow, "_PARALLEL_SPLIT_BYTES", 250)
        monkeypatch.setattr(grow, "_RANGE_BYTES", 1000)
    path, engine = tmp_path / "store", LateAttempts(monkeypatch)
    names = set()
    with reput.MessageStore.open(path, CONFIG) as store:
        follower = Follow(path, engine, CONFIG)
        for _ in range(4):
            put(store, 11)
            late = engine.attempts
            engine.attempts = []
            assert follower.step()
            follower.make_durable()
            before = stores.indexes(path)
            engine.attempts, new = late, engine.attempts
            for name, error in engine.release():
                assert isinstance(error, StaleEpochError), name
                names.add(name)
            assert stores.indexes(path) == before
            engine.attempts = new
        while follower.step():
            pass
        follower.close()
        for name, error in engine.release():
            assert isinstance(error, StaleEpochError), name
    assert names == ({"_grow_task"} if ranges == "short" else {"decode_and_sink", "range_task"})
    assert_sound(path, CONFIG)
