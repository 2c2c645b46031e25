"""After a failed sync nobody believes a later one, and the next owner of the store writes the bytes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import FlushError, ReputError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.queue import cut, file_kind
from reput.store.disk.frontier import read_frontier
from reput.store.owner.owner import own_store
from support.determined import determined
from support.power.disk import NOTHING, Disk, write_tree
from support.power.recorder import Recorder
from support.power.scenarios import ASYNC, message
from support.power.verdict import content

if TYPE_CHECKING:
    from pathlib import Path

    from support.power.disk import Tree


def kept(recorder: Recorder) -> Tree:
    """The files of a disk that keeps what was synced, and nothing else."""
    disk = Disk(recorder.before)
    for entry in recorder.journal:
        disk.apply(entry)
    return disk.state(NOTHING)


def bodies_after_a_power_cut(recorder: Recorder, folder: Path) -> list[bytes]:
    """Return what a store holds whose disk has kept what was synced, and nothing else."""
    write_tree(kept(recorder), folder)
    with reput.MessageStore.open(folder / "store", ASYNC) as store:
        return content(store)


def store_whose_flush_fails(recorder: Recorder) -> reput.MessageStore:
    """Put messages of which the last ones cannot be synced."""
    store = reput.MessageStore.open(recorder.folder / "store", ASYNC, create=True)
    for number in range(6):
        store.put_message(message(2 * number))
    recorder.fail_next_sync()
    with pytest.raises(FlushError):
        store.flush()
    return store


def test_the_next_owner_writes_the_bytes_again(tmp_path: Path) -> None:
    """A message that a writer could not sync is on the disk once the next one has flushed."""
    (tmp_path / "disk").mkdir()
    with determined(), Recorder(tmp_path / "disk") as recorder:
        store = store_whose_flush_fails(recorder)
        with pytest.raises(FlushError):
            store.close(reput=False)
        with reput.MessageStore.open(tmp_path / "disk" / "store", ASYNC) as again:
            again.flush()
    assert len(bodies_after_a_power_cut(recorder, tmp_path / "after")) == 6


def test_a_follower_calls_nothing_durable_that_its_writer_could_not_sync(tmp_path: Path) -> None:
    """Beside a writer whose sync has failed the durable frontier stays, though the follower's own sync succeeds."""
    (tmp_path / "disk").mkdir()
    with determined(), Recorder(tmp_path / "disk") as recorder:
        store = store_whose_flush_fails(recorder)
        follower = Follow(tmp_path / "disk" / "store", LoopEngine(), ASYNC)
        while follower.step():
            pass
        assert follower.progress.frontier == store.view.confirmed()
        follower.close()
        assert read_frontier(store.layout) is None
        with pytest.raises(FlushError):
            store.close(reput=False)
    assert bodies_after_a_power_cut(recorder, tmp_path / "after") == []


@pytest.mark.parametrize("reported_once", [True, False])
def test_after_a_failed_sync_of_a_follower_nobody_calls_the_log_durable(reported_once: bool, tmp_path: Path) -> None:
    """After a follower's sync has failed, neither a later one of its own nor one of the writer makes anything durable.

    A simulation found it: the follower's next sync succeeded, and the frontier named messages that a power cut took.
    """
    (tmp_path / "disk").mkdir()
    path = tmp_path / "disk" / "store"
    with determined(), Recorder(tmp_path / "disk") as recorder:
        store = reput.MessageStore.open(path, ASYNC, create=True)
        for number in range(6):
            store.put_message(message(2 * number))
        follower = Follow(path, LoopEngine(), ASYNC)
        while follower.step():
            pass
        recorder.fail_next_sync(reported_once=reported_once)
        with pytest.raises(ReputError):
            follower.make_durable()
        follower.close()
        assert read_frontier(store.layout) is None
        for call in (store.flush, lambda: store.put_message(message(12)), lambda: store.close(reput=False)):
            with pytest.raises(FlushError, match="an earlier sync has failed" if reported_once else "cannot sync"):
                call()
        with reput.MessageStore.open(path, ASYNC) as again:
            again.flush()
    assert len(bodies_after_a_power_cut(recorder, tmp_path / "after")) == 6


def test_a_catch_up_that_could_not_sync_the_log_stops_its_writer(tmp_path: Path) -> None:
    """A writer whose own catch-up has failed to sync takes no more puts, though its next sync would succeed."""
    (tmp_path / "disk").mkdir()
    with determined(), Recorder(tmp_path / "disk") as recorder, pytest.MonkeyPatch.context() as patch:
        store = reput.MessageStore.open(tmp_path / "disk" / "store", ASYNC, create=True)
        store.put_message(message(0))
        layout, sync = store.layout, fs.sync_tree

        def fail(path: Path) -> None:
            recorder.fail_next_sync(reported_once=True)
            patch.setattr(fs, "sync_tree", sync)
            sync(path)

        patch.setattr(fs, "sync_tree", fail)
        with pytest.raises(ReputError, match="cannot sync"):
            store.reput(spark=False)
        assert read_frontier(layout) is None
        store.put_message(message(2))
        for call in (store.flush, lambda: store.put_message(message(4)), lambda: store.close(reput=False)):
            with pytest.raises(FlushError, match="an earlier sync has failed"):
                call()
        with reput.MessageStore.open(tmp_path / "disk" / "store", ASYNC) as again:
            again.flush()
    assert len(bodies_after_a_power_cut(recorder, tmp_path / "after")) == 2


def test_a_follower_that_could_not_sync_keeps_no_frontier_later(tmp_path: Path) -> None:
    """After a failed sync a follower of finished indexes writes no first frontier, though its next sync succeeds."""
    (tmp_path / "disk").mkdir()
    path = tmp_path / "disk" / "store"
    with reput.MessageStore.open(path, ASYNC, create=True) as store:
        store.put_message(message(0))
    frontier = store.layout.own(own.FRONTIER_NAME)
    frontier.unlink()
    with determined(), Recorder(tmp_path / "disk") as recorder:
        follower = Follow(path, LoopEngine(), ASYNC)
        follower.step()
        recorder.fail_next_sync(reported_once=True)
        with pytest.raises(ReputError, match="cannot sync"):
            follower.tend()
        with pytest.raises(FlushError, match="an earlier sync has failed"):
            follower.close()
    assert not frontier.exists()
    with reput.MessageStore.open(path, ASYNC) as again:
        assert len(content(again)) == 1


def put_unsynced(recorder: Recorder, made: Path) -> Path:
    """Make a store whose log another program has written, and the disk lacks; return its folder."""
    with reput.MessageStore.open(made, ASYNC, create=True) as store:
        for number in range(6):
            store.put_message(message(2 * number))
    path, name = recorder.folder / "store", paths.offset_name(0)
    log = path / paths.COMMIT_LOG
    fs.make_dirs(log)
    for folder in (log, path, recorder.folder):
        fs.sync_path(folder)
    data = (made / paths.COMMIT_LOG / name).read_bytes()
    fs.write_at(str(log / name), len(data), fs.owner_of(path), data, 0)
    return path


def test_bytes_of_another_program_were_called_durable_after_a_failed_sync(tmp_path: Path) -> None:
    """A rebuild fails to sync a log that reput did not write; the next one writes all of it again, and syncs that."""
    (tmp_path / "disk").mkdir()
    with determined(), Recorder(tmp_path / "disk") as recorder:
        path = put_unsynced(recorder, tmp_path / "made")
        recorder.fail_next_sync(reported_once=True)
        with pytest.raises(ReputError, match="sync"):
            reput.rebuild(path, spark=False, config=ASYNC)
        reput.rebuild(path, spark=False, config=ASYNC)
    assert len(bodies_after_a_power_cut(recorder, tmp_path / "after")) == 6


def test_a_server_forgets_no_failed_sync(tmp_path: Path) -> None:
    """A writer that begins to serve clients after a sync has failed makes nothing durable."""
    store = reput.MessageStore.open(tmp_path / "store", ASYNC, create=True)
    store.put_message(message(0))
    writer = store._writer()
    writer._owned.leave_unsynced()
    writer.serve_clients()
    with pytest.raises(FlushError, match="an earlier sync has failed"):
        store.flush()
    with pytest.raises(FlushError):
        store.close(reput=False)


def test_offsets_outlived_the_messages_that_they_rest_on(tmp_path: Path) -> None:
    """After a power cut no group is beyond the end of a queue: its next message would be passed over."""
    (tmp_path / "disk").mkdir()
    with determined(), Recorder(tmp_path / "disk") as recorder:
        store = reput.MessageStore.open(recorder.folder / "store", ASYNC, create=True)
        for number in range(6):
            store.put_message(message(2 * number))
        store.commit_offset("g", "a", 0, 6)
        store.progress.persist()
        assert len(bodies_after_a_power_cut(recorder, tmp_path / "after")) == 6
        store.close()
    with reput.MessageStore.open(tmp_path / "after" / "store", ASYNC) as after:
        assert after.query_offset("g", "a", 0) == after.max_offset("a", 0) == 6


def test_offsets_of_a_second_save_are_durable_though_the_first_one_failed(tmp_path: Path) -> None:
    """A first save that made `config`, and could not sync its name, does not make the next one forget that."""
    (tmp_path / "disk").mkdir()
    with determined(), Recorder(tmp_path / "disk") as recorder:
        store = reput.MessageStore.open(tmp_path / "disk" / "store", ASYNC, create=True)
        store.commit_offset("g", "a", 0, 7)
        recorder.fail_next_sync()
        with pytest.raises(ReputError, match="cannot sync"):
            store.progress.persist()
        store.progress.persist()
        assert f"store/{paths.CONFIG}/consumerOffset.json" in kept(recorder)
        store.close()


def test_the_next_owner_makes_durable_what_was_removed_from_its_folder(tmp_path: Path) -> None:
    """A file of reput that an owner removed, without a sync, does not come back after the next one has begun."""
    (tmp_path / "disk").mkdir()
    path = tmp_path / "disk" / "store"
    with reput.MessageStore.open(path, ASYNC, create=True) as store:
        store.put_message(message(0))
    given = store.layout.own(own.GIVEN_OFFSETS_NAME)
    with determined(), Recorder(tmp_path / "disk") as recorder:
        fs.remove_file(given)
        name = f"store/{paths.REPUT}/{given.name}"
        assert name in kept(recorder)
        with own_store(store.layout):
            assert name not in kept(recorder)


def test_what_a_recovery_removes_is_gone_before_the_store_looks_closed(tmp_path: Path) -> None:
    """A power cut after the close of a store that was recovered brings back no file that the recovery removed."""
    (tmp_path / "disk").mkdir()
    path = tmp_path / "disk" / "store"
    with reput.MessageStore.open(path, ASYNC, create=True) as store:
        for number in range(6):
            store.put_message(message(number))
    empty = path / paths.CONSUME_QUEUE / "a" / "0" / paths.offset_name(100)
    empty.touch()
    (path / paths.ABORT).touch()
    with determined(), Recorder(tmp_path / "disk") as recorder, pytest.MonkeyPatch.context() as patch:
        # A process that was killed after it removed the file has not synced that.
        patch.setattr(cut, "mend_empty", lambda files, *_: [fs.remove_file(one.path) for one in files if not one.size])
        patch.setattr(file_kind, "mend_empty", cut.mend_empty)
        with reput.MessageStore.open(path, ASYNC):
            pass
    disk = Disk(recorder.before)
    for entry in recorder.journal:
        disk.apply(entry)
        for choice in range(40):
            tree = disk.state(choice)
            assert f"store/{paths.ABORT}" in tree or str(empty.relative_to(tmp_path / "disk")) not in tree
