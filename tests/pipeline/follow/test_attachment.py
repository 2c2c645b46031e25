"""The hold of a follower on a store that a program is just opening or closing."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import StoreLockedError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.follow import follow
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.layout import find_store
from reput.store.owner.owner import own_store
from support.checked import assert_sound
from support.opened import CONFIG, put

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

OPENING_S = 0.3


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with some messages that nobody has indexed."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as opened:
        put(opened, 5)
    return path


def test_a_follower_begins_beside_a_program_that_opens(store: Path) -> None:
    """A follower waits for a program that opens or closes the store: a service may start both at once."""
    opening, done = threading.Event(), threading.Event()

    def open_slowly() -> None:
        with own_store(find_store(store, CONFIG), holder=own.HOLDER_WRITER):
            opening.set()
            done.wait(OPENING_S)

    program = threading.Thread(target=open_slowly)
    program.start()
    assert opening.wait(10)
    follower = Follow(store, LoopEngine(), CONFIG)
    while follower.step():
        pass
    follower.close()
    program.join()
    assert_sound(store, CONFIG)


def test_a_follower_does_not_wait_for_ever(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes too long to open the store is named; a job, too, at once."""
    monkeypatch.setattr(follow, "_OPENING_WAIT_S", 0.05)
    for holder in (own.HOLDER_WRITER, own.HOLDER_JOB):
        layout = find_store(store, CONFIG)
        with own_store(layout, holder=holder), pytest.raises(StoreLockedError, match="at work on this store"):
            Follow(store, LoopEngine(), CONFIG)


def test_a_follower_begins_beside_a_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that comes while the writer deletes log files begins with those that are left."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as writer:
        put(writer, 2000, keys="k")
        writer.reput(spark=False)
        first, *_ = files = sorted((path / paths.COMMIT_LOG).iterdir())
        mapped = fs.mapped

        def meanwhile(file: Path, *arguments: int) -> AbstractContextManager[NDArray[np.uint8]]:
            if first.exists():
                for old in files[:-1]:
                    os.utime(old, (0, 0))
                writer.delete_expired(manual=True)
            return mapped(file, *arguments)

        monkeypatch.setattr(fs, "mapped", meanwhile)
        Follow(path, LoopEngine(), CONFIG).close()
        assert not first.exists()
