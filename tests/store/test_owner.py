"""The one process that changes a store: it is named, it stops when it is replaced, and a follower makes way."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import StaleEpochError, StoreLockedError
from reput.files import fs, locks
from reput.files.watermarks import Watermarks
from reput.formats import paths
from reput.formats.own import files as own
from reput.queue.file_kind import FileKind
from reput.store.disk import queue_refusals
from reput.store.disk.layout import find_store
from reput.store.disk.queue_refusals import refuse_held_kinds
from reput.store.owner import owner, swap
from reput.store.owner.holders import Holder, Who, follower_lock
from reput.store.owner.indexer import CatchUp
from reput.store.owner.owner import is_wanted, own_store, refuse_owned, take_over
from reput.store.owner.strays import list_strays, strays_text
from reput.store.owner.unsynced import write_again
from support import stores
from support.checked import assert_sound
from support.opened import CONFIG, put

if TYPE_CHECKING:
    from reput.store.disk.layout import StoreLayout


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    """A small store that nobody holds."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 5, keys="k")
    return find_store(tmp_path / "s", StoreConfig())


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_an_owner_and_a_follower_that_began_at_the_same_moment_had_one_epoch(
    layout: StoreLayout, monkeypatch: pytest.MonkeyPatch, stages: int
) -> None:
    """No stage of the follower has the number of one of the owner: its tasks would write into the owner's files."""
    path, real = layout.own(own.WATERMARKS_NAME), Watermarks.__setitem__
    has_read, may_write = threading.Event(), threading.Event()

    def slow_at_first(marks: Watermarks, name: str, value: int) -> None:
        if name == "epoch" and not has_read.is_set():
            has_read.set()
            may_write.wait(10)
        real(marks, name, value)

    monkeypatch.setattr(Watermarks, "__setitem__", slow_at_first)
    with contextlib.closing(Watermarks(path)) as one, contextlib.closing(Watermarks(path)) as other:
        ours = owner.Ownership(layout, one["epoch"] + 1, one, [])
        beside = owner.Ownership(layout, other["epoch"] + 1, other, [], is_beside=True)
        thread = threading.Thread(target=ours.next_stage)
        thread.start()
        assert has_read.wait(10)
        for _ in range(stages):
            beside.next_stage()
        may_write.set()
        thread.join(10)
        ours.verify()
        for change in (beside.verify, beside.next_stage):
            with pytest.raises(StaleEpochError):
                change()


def test_a_follower_began_beside_a_writer_that_had_gone(layout: StoreLayout) -> None:
    """A job that has owned the store since the look is not fenced off: what the follower has seen does not count."""
    with contextlib.closing(Watermarks(layout.own(own.WATERMARKS_NAME))) as marks:
        beside = owner.Ownership(layout, marks["epoch"] + 1, marks, [], is_beside=True)
        with own_store(layout) as job:
            with pytest.raises(StaleEpochError):
                beside.next_stage()
            job.verify()
        beside = owner.Ownership(layout, marks["epoch"] + 1, marks, [], is_beside=True)
        assert beside.next_stage() == marks["epoch"]


def test_a_replaced_owner_stops(layout: StoreLayout) -> None:
    """An owner whose epoch another job has raised begins no stage and publishes nothing."""
    with own_store(layout) as owned:
        owned.watermarks["epoch"] += 1
        with pytest.raises(StaleEpochError, match=r"has replaced .*; this job stops"):
            owned.next_stage()
        with pytest.raises(StaleEpochError, match="has replaced"), owned.publishing():
            pytest.fail("it published")
    assert_sound(layout.root, CONFIG)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Holder(Who.NOBODY), "another reput process"),
        (Holder(Who.BROKER, 7), "another reput process"),
        (Holder(Who.FOLLOWER), "a reput follower"),
        (Holder(Who.FOLLOWER, 7), "a reput follower, process 7,"),
    ],
)
def test_a_holder_is_named(found: Holder, text: str, layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal names the holder, also one that has released the store by the time it is looked for."""
    monkeypatch.setattr(owner, "holder_of", lambda _: found)
    with locks.owner_lock(layout.own(own.LOCK_NAME)), pytest.raises(StoreLockedError, match=text):
        refuse_owned(layout)


@pytest.mark.parametrize("has_follower", [False, True])
def test_a_writer_does_not_wait_for_a_job(layout: StoreLayout, has_follower: bool) -> None:
    """A store that a job owns is refused at once, and so is one that another writer has, with a follower or without."""
    with own_store(layout) as owned:
        if not has_follower:
            with pytest.raises(StoreLockedError), take_over(layout):
                pytest.fail("it took the store over")
            return
        owned.watermarks["writer"] = 7
        with follower_lock(layout, ""), pytest.raises(StoreLockedError), take_over(layout):
            pytest.fail("it took the store over")


def test_a_follower_makes_way_for_a_writer(layout: StoreLayout) -> None:
    """A follower that catches up is asked to release the store; the writer has it then, and wants it no longer."""
    follows, wanted = threading.Event(), threading.Event()

    def follow() -> None:
        with follower_lock(layout, ""):
            with own_store(layout, holder=own.HOLDER_FOLLOWER) as owned:
                follows.set()
                for _ in range(1000):
                    if is_wanted(owned.watermarks):
                        wanted.set()
                        break
                    threading.Event().wait(0.01)
            done.wait(30)

    done = threading.Event()
    follower = threading.Thread(target=follow)
    follower.start()
    assert follows.wait(10)
    with take_over(layout) as owned:
        assert wanted.is_set()
        assert not is_wanted(owned.watermarks)
    done.set()
    follower.join()
    assert_sound(layout.root, CONFIG)


def test_a_swap_makes_the_folders_that_its_parts_need(layout: StoreLayout) -> None:
    """A swap that was killed is finished though the folder above a part is gone: it is made again."""
    with own_store(layout) as owned:
        epoch = owned.epoch
    part = f"{paths.CONSUME_QUEUE}/t"
    staged = layout.staging(epoch) / part
    staged.parent.mkdir(parents=True)
    (layout.consume_queue / "t").rename(staged)
    for left in layout.consume_queue.iterdir():
        left.rmdir()
    layout.consume_queue.rmdir()
    layout.own(own.INTENT_NAME).write_bytes(own.encode_intent(own.Intent(epoch, (part,))))
    assert swap.finish_swap(layout, lambda: None)
    assert not swap.finish_swap(layout, lambda: None)
    assert_sound(layout.root, CONFIG)


def test_indexes_on_another_disk_were_called_durable(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync of the store reaches folders of indexes that a link or a mount has on another file system."""
    synced: list[Path] = []
    monkeypatch.setattr(fs, "sync_tree", lambda path: synced.append(Path(path)))
    monkeypatch.setattr(fs, "device_of", lambda path: int(Path(path) in {layout.index, layout.consume_queue}))
    with own_store(layout) as owned:
        owned.sync()
    assert set(synced) == {layout.commit_log, layout.root, layout.index, layout.consume_queue}


def test_bytes_of_a_log_without_folder_need_no_sync(layout: StoreLayout) -> None:
    """A store whose log is gone has no bytes that a failed sync could have dropped."""
    shutil.rmtree(layout.commit_log)
    write_again(layout, 0, 100, fs.owner_of(layout.root))
    assert not layout.commit_log.exists()


def test_the_old_name_of_queues_out_of_order_answers_the_same() -> None:
    """Programs that read `crooked_queues` get the queues out of order for one more version."""
    assert CatchUp(frontiers=None, out_of_order_queues=["t/0"]).crooked_queues == ["t/0"]  # type: ignore[arg-type]


def test_files_that_are_not_of_rocketmq_stay(layout: StoreLayout) -> None:
    """A rebuild keeps files of others in the folders that it replaces, and they are listed with their effect."""
    folder = layout.consume_queue / "t"
    (folder / "notes.txt").write_text("mine")
    (layout.commit_log / "empty").touch()
    (layout.commit_log / "copy.bak").write_text("more")
    stores.rebuild(layout.root, CONFIG)
    assert (folder / "notes.txt").read_text() == "mine"
    assert sorted(list_strays(layout)) == [
        f"{paths.COMMIT_LOG}/copy.bak (RocketMQ does not load the log as long as it is there)",
        f"{paths.COMMIT_LOG}/empty",
        f"{paths.CONSUME_QUEUE}/t/notes.txt",
    ]


def test_many_strays_are_counted() -> None:
    """The text names the first files that are not RocketMQ's, and the number of the others."""
    assert strays_text(["a", "b"]) == "files that are not RocketMQ's: a, b"
    assert strays_text(list("abcdefg")) == "files that are not RocketMQ's: a, b, c, d, e and 2 more"


@pytest.mark.parametrize("asks", [2, 3, 1000])
def test_a_job_swapped_queues_that_a_follower_had_still_open(
    layout: StoreLayout, monkeypatch: pytest.MonkeyPatch, asks: int
) -> None:
    """It waits until they are closed: RocksDB writes to the names of its files then. One that stays open is refused."""
    monkeypatch.setattr(queue_refusals, "_FOLLOWER_CLOSES_S", 0.2 if asks == 1000 else 30.0)
    kind, asked = FileKind(layout.consume_queue, 6_000_000), iter(range(1, asks + 1))
    monkeypatch.setattr(FileKind, "is_held", lambda _: next(asked) < asks)
    with follower_lock(layout, "stop it"):
        refuse_held_kinds(layout, [kind], replaces=False)
        assert next(asked) == 1
        if asks < 1000:
            refuse_held_kinds(layout, [kind], replaces=True)
        else:
            with pytest.raises(StoreLockedError, match="has these file queues open to write"):
                refuse_held_kinds(layout, [kind], replaces=True)
