"""The view of an open store: threads that bring it up to date at the same time leave no gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.frontier import Frontiers
from reput.store.read import view as view_module
from support.checked import assert_sound
from support.opened import CONFIG, bodies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COUNT = 100
WANTED = [str(number).encode() for number in range(COUNT)]


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[tuple[reput.MessageStore, Callable[[], Frontiers]]]:
    """A store that is open to write, half of it indexed and known to its view; a call indexes the rest, unseen."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        follower = Follow(path, LoopEngine(), CONFIG)

        def index_rest() -> Frontiers:
            while follower.step():
                pass
            return Frontiers.at(follower.progress.frontier)

        for number in range(COUNT):
            if number == COUNT // 2:
                store.view.advance(index_rest())
            store.put_message(reput.Message("t", WANTED[number]))
        assert bodies(store) == WANTED
        yield store, index_rest
        follower.close()
    assert_sound(path, CONFIG)


def test_a_load_beside_an_advance_leaves_no_gap(
    followed: tuple[reput.MessageStore, Callable[[], Frontiers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that is loaded with what one thread knew, after another one advanced it, has every message."""
    store, index_rest = followed
    left_out = view_module.left_out

    def meanwhile(*arguments: object) -> object:
        monkeypatch.undo()
        store.view.advance(index_rest())
        return left_out(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(view_module, "left_out", meanwhile)
    store.view.load()
    assert bodies(store) == WANTED
    store.view.load(Frontiers.at(0))
    assert bodies(store) == WANTED


def test_an_advance_that_comes_late_leaves_no_gap(
    followed: tuple[reput.MessageStore, Callable[[], Frontiers]],
) -> None:
    """A view that one thread advances less far than another one before has every message."""
    store, index_rest = followed
    early = store.view.frontiers
    store.view.advance(index_rest())
    store.view.advance(early)
    # Queues that nobody has asked for since are read up to the frontier.
    store.view.load()
    assert store.view.frontiers > early
    assert bodies(store) == WANTED
