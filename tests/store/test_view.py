"""The view of an open store: threads that bring it up to date at the same time leave no gap."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import reput
from reput.files import fs
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.store.disk.frontier import Frontiers
from reput.store.read import view as view_module
from support.checked import assert_sound
from support.opened import CONFIG, bodies, put

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


def test_a_reader_of_a_store_without_indexes_takes_the_first_ones_as_they_are(tmp_path: Path) -> None:
    """A reader that came before the first queue file reads files of any size: only the writer has the settings."""
    path = tmp_path / "s"
    with (
        reput.MessageStore.open(path, CONFIG, create=True) as writer,
        reput.MessageStore.open(path, read_only=True) as reader,
    ):
        for number in range(2):
            for body in WANTED:
                writer.put_message(reput.Message("t", body, keys="k"))
            assert bodies(reader) == WANTED * (number + 1)
            writer.reput(spark=False)
            for _ in range(2):
                assert bodies(reader) == WANTED * (number + 1)
                assert len(reader.query_message("t", "k", 1000)) == COUNT * (number + 1)
        assert writer.lag().bytes == 0 == reader.lag().bytes
    assert_sound(path, CONFIG)


def test_files_that_come_while_another_thread_reads_their_names_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that has read the names of the log's files before a new one came does not take it away from others."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 1)
        log, list_dir = store.view.log, fs.list_dir
        has_listed, goes_on = threading.Event(), threading.Event()

        def slow(folder: Path) -> list[fs.DirEntry]:
            found = list_dir(folder)
            if threading.current_thread() is not threading.main_thread() and folder == log.folder:
                has_listed.set()
                goes_on.wait(0.2)
            return found

        monkeypatch.setattr(fs, "list_dir", slow)
        late = threading.Thread(target=log.refresh)
        late.start()
        assert has_listed.wait(10)
        put(store, 2000)
        log.refresh()
        goes_on.set()
        late.join()
        assert log.end_offset > CONFIG.mapped_file_size_commit_log
        assert len(log.starts) == len(list(log.folder.iterdir()))


def test_a_reader_opens_a_new_store_again_once(tmp_path: Path) -> None:
    """A reader opens the store again for its first indexes, also before they are durable, and then no more."""
    path = tmp_path / "s"
    with (
        reput.MessageStore.open(path, CONFIG, create=True) as writer,
        reput.MessageStore.open(path, read_only=True) as reader,
    ):
        put(writer, COUNT)
        assert bodies(reader) == WANTED
        before = reader.view
        follower = Follow(path, LoopEngine(), CONFIG)
        while follower.step():
            pass
        assert bodies(reader) == WANTED
        after = reader.view
        assert before is not after
        assert bodies(reader) == WANTED
        assert reader.view is after
        follower.close()
    assert_sound(path, CONFIG)
