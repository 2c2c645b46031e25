"""A power cut at any call, with any part of what was not synced on the disk: what was durable is there, once, in order.

`make power-cuts` tries as many states as it is asked for, and repeats the state of a failure.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

import reput
from reput.errors import DamagedStoreError, NotAStoreError, ReputError
from reput.files import fs
from reput.files.watermarks import Watermarks
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.store.recover import recovery
from support import stores
from support.checked import assert_sound
from support.determined import determined
from support.opened import bodies, put
from support.power import scenarios, sweep
from support.power.disk import EVERYTHING, NOTHING, Disk, Folder, read_tree, write_tree
from support.power.journal import Known, Link, Rename, Resize, Sync, Write
from support.power.misread import Misread, misreading
from support.power.recorder import Recorder
from support.power.scenarios import SCENARIOS, SYNC
from support.search import cases

SLOW = {"to rocksdb", "to file"}
"""Scenarios whose states take several times as long: each opens a database."""
STATES, STATES_OF_SLOW, FAULTY_STATES, MISREAD_STATES = 101, 16, 10, 6
REBUILD_EACH = cases(20, 1)
"""One state in this many is compared with a rebuild: in `make nightly` each is."""


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_power_cut_at_every_call(name: str, tmp_path: Path) -> None:
    """Opened again, the store has all that it called durable, can be written, and its indexes equal a rebuild's."""
    swept = sweep.sweep(name, tmp_path, most=STATES_OF_SLOW if name in SLOW else STATES, rebuild_each=REBUILD_EACH)
    assert swept.calls > 10
    assert swept.distinct >= 15


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_power_cut_after_a_fault_of_the_disk(name: str, tmp_path: Path) -> None:
    """A sync has failed once, and the next one says nothing of it, or the disk was full: the store keeps the same."""
    swept = sweep.sweep_faults(name, tmp_path, most=4 if name in SLOW else FAULTY_STATES)
    assert swept.distinct >= 2


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_wrong_sector_is_read_at_recovery(name: str, tmp_path: Path) -> None:
    """Recovery that reads a wrong sector takes nothing away that was known to be durable, or the store says so."""
    assert sweep.sweep_misreads(name, tmp_path, most=cases(MISREAD_STATES, 200)).distinct


def test_a_recovery_that_believes_a_wrong_sector_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that cuts what was known to be good loses messages silently: the sweep can fail."""
    monkeypatch.setattr(recovery, "why_damaged", lambda *_: "")
    with pytest.raises(AssertionError, match="MISREAD="):
        sweep.sweep_misreads("recovery", tmp_path, most=300)


def test_a_page_that_was_written_keeps_a_wrong_sector(tmp_path: Path) -> None:
    """After a misread a page is right again unless the program wrote it: then the wrong sector is on the disk."""
    path, right = tmp_path / "file", bytes(range(256)) * 32
    path.write_bytes(right)
    one = Misread("file", 512, b"x" * 512)
    with misreading(tmp_path, one):
        assert path.read_bytes()[512:1024] == one.data
    assert path.read_bytes() == right
    with misreading(tmp_path, one), path.open("r+b") as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" + right[3:512] + one.data + right[1024:]


@pytest.mark.parametrize("most", [1, 9, 10, 23, 50, 99])
def test_some_states_are_of_every_call(most: int) -> None:
    """Of a part of the states each call has one before any call has a second one by chance."""
    states = [sweep.State(call, choice) for call in range(10) for choice in range(5)]
    some = sweep.some_of(states, most, random.Random(most))
    assert some == sorted(set(some))
    assert len(some) == min(most, len(states))
    assert len({one.call for one in some}) == min(most, 10)


def test_a_run_is_repeated_call_by_call(tmp_path: Path) -> None:
    """Two runs of a scenario make the same changes, so a call and a choice name a state."""
    first, second = (sweep.record("put", tmp_path / name) for name in "ab")
    assert first.before == second.before
    assert [str(one) for one in first.journal] == [str(one) for one in second.journal]


def test_the_journal_says_all_that_happened(tmp_path: Path) -> None:
    """The recorder misses no change: a disk that keeps everything has the files that are there."""
    for number, name in enumerate(("reput", "delete topic", "rebuild")):
        recorded = sweep.record(name, tmp_path / f"{number}")
        disk = Disk(recorded.before)
        for entry in recorded.journal:
            disk.apply(entry)
        assert disk.state(EVERYTHING) == read_tree(tmp_path / f"{number}" / "disk")


def test_a_lost_sync_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that calls a message durable without a sync breaks its promise: the sweep can fail."""
    monkeypatch.setattr(fs, "sync_data", int)
    with pytest.raises(AssertionError, match="power cut after call"):
        sweep.sweep("put", tmp_path, most=1000)


def test_the_first_save_of_offsets_outlives_a_power_cut(tmp_path: Path) -> None:
    """Offsets that are saved into a store without `config` are there after a power cut; a simulation found it."""
    disk = tmp_path / "disk"
    with reput.MessageStore.open(disk / "s", SYNC, create=True):
        pass
    (disk / "s" / "config").rmdir()
    recorder = Recorder(disk)
    with recorder, reput.MessageStore.open(disk / "s", SYNC) as store:
        store.commit_offset("g", "t", 0, 5)
        store.progress.persist()
        saved = len(recorder.journal)
    kept = Disk(recorder.before)
    for entry in recorder.journal[:saved]:
        kept.apply(entry)
    assert "s/config/consumerOffset.json" in kept.state(NOTHING)


def test_a_store_whose_maker_was_killed_was_no_store_after_a_power_cut(tmp_path: Path) -> None:
    """The maker is killed before the name of the log's folder is durable: the next program sees to that first.

    A power cut left a folder with other files, and none for the log, in which no new store may be made.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    with determined(), Recorder(disk) as recorder:
        fs.make_dirs(disk / "s")
        fs.sync_path(disk)
        fs.make_dirs(disk / "s" / paths.COMMIT_LOG)
        with reput.MessageStore.open(disk / "s", SYNC) as store:
            put(store, 1)
    kept = Disk(recorder.before)
    for number, entry in enumerate(recorder.journal[:20]):
        kept.apply(entry)
        for choice in range(6):
            write_tree(kept.state(choice), after := tmp_path / f"{number}-{choice}")
            with reput.MessageStore.open(after / "s", SYNC, create=True) as store:
                assert len(bodies(store)) <= 1


def test_a_store_of_other_bytes_is_checked_again(tmp_path: Path) -> None:
    """The sweep checks a store of the same bytes once, and one that differs in a byte again."""
    store, config = tmp_path / "s", SYNC
    with reput.MessageStore.open(store, config, create=True) as opened:
        put(opened, 3, keys="k")
    with pytest.MonkeyPatch.context() as patch:
        asked: list[Path] = []
        true = reput.check
        patch.setattr(reput, "check", lambda path, **given: asked.append(path) or true(path, **given))
        assert_sound(store, config)
        assert_sound(store, config)
        assert asked == [store]
    entries = store / paths.CONSUME_QUEUE / "t" / "0" / f"{0:020}"
    data = bytearray(entries.read_bytes())
    data[11] ^= 1
    entries.write_bytes(data)
    with pytest.raises(AssertionError, match="queue"):
        assert_sound(store, config)


def disk_of(*entries: object) -> Disk:
    """A disk with a file `old` of two sectors, after these entries."""
    disk = Disk({"folder": Folder(), "old": bytes(1024)})
    for entry in entries:
        disk.apply(entry)  # type: ignore[arg-type]
    return disk


def every_state(disk: Disk) -> set[str]:
    """Texts of many states."""
    return {repr(sorted(disk.state(choice).items())) for choice in range(400)}


def test_unsynced_sectors_vanish_one_by_one() -> None:
    """Of a write over two sectors the disk keeps either, both, none, or a part of one."""
    number = disk_of().number_of("old")
    disk = disk_of(Write(number, 0, b"x" * 1024))
    found = [disk.state(choice)["old"] for choice in range(400)]
    for wanted in (bytes(1024), b"x" * 1024, b"x" * 512 + bytes(512), bytes(512) + b"x" * 512):
        assert wanted in found
    assert any(0 < data[:512].count(b"x") < 512 for data in found if isinstance(data, bytes))
    disk.apply(Sync(number))
    assert disk.is_settled
    assert {disk.state(choice)["old"] for choice in range(20)} == {b"x" * 1024}


def test_names_vanish_until_their_folder_is_synced() -> None:
    """A synced file is gone as long as its folder is not synced; a rename keeps one of both names."""
    disk = disk_of(Link(1, "new", 9, "file"), Write(9, 0, b"data"), Sync(9))
    assert disk.state(NOTHING) == {"folder": Folder(), "old": bytes(1024)}
    assert disk.state(EVERYTHING)["folder/new"] == b"data"
    disk.apply(Sync(1))
    disk.apply(Rename(1, "new", 0, "moved", 9))
    assert len(every_state(disk)) == 2
    for choice in range(20):
        assert len({"folder/new", "moved"} & set(disk.state(choice))) == 1


def test_a_sync_that_failed_does_not_come_back() -> None:
    """A failed sync may lose its bytes although the next sync succeeds, except in pages written again."""
    number = disk_of().number_of("old")
    disk = disk_of(Resize(number, 8192), Sync(number), Write(number, 0, b"a"), Write(number, 4096, b"b"))
    disk.apply(Sync(number, failed=True))
    disk.apply(Write(number, 1, b"c"))
    disk.apply(Sync(number))
    found = {
        (data[:2], data[4096:4097]) for choice in range(40) if isinstance(data := disk.state(choice)["old"], bytes)
    }
    assert found == {(b"ac", b"b"), (b"ac", b"\0")}


# --- faults that the sweep has found ------------------------------------------------------------------


def test_new_store_does_not_vanish(tmp_path: Path) -> None:
    """The name of a new store's folder, and of those made for it, is durable before a message is."""
    recorder = Recorder(tmp_path)
    with recorder, reput.MessageStore.open(tmp_path / "above" / "s", SYNC, create=True) as store:
        assert store.put_message(reput.Message("t", b"0")).status is reput.PutStatus.PUT_OK
        disk = Disk(recorder.before)
        for entry in recorder.journal:
            disk.apply(entry)
    assert f"above/s/{paths.COMMIT_LOG}" in disk.state(NOTHING)


def test_new_store_is_empty_or_a_store(tmp_path: Path) -> None:
    """After a power cut while a store is made its folder is empty, or a store: it can be made again."""
    recorded = sweep.record("put", tmp_path)
    disk = Disk(recorded.before)
    for entry in recorded.journal:
        disk.apply(entry)
        for choice in range(8):
            tree = disk.state(choice)
            assert f"store/{paths.COMMIT_LOG}" in tree or not any(path.startswith("store/") for path in tree)
        if isinstance(entry, Known):
            return


def test_torn_first_record_without_checkpoint(tmp_path: Path) -> None:
    """A new store whose first record is torn has no checkpoint yet: nothing was durable, so it is opened and cut."""
    with reput.MessageStore.open(tmp_path / "s", SYNC, create=True) as store:
        end = store.put_message(reput.Message("t", b"body" * 10)).end_offset
        log = tmp_path / "s" / paths.COMMIT_LOG / paths.offset_name(0)
        store.close(reput=False)
    for path in ("checkpoint", "reput/watermarks", "reput/given-offsets"):
        (tmp_path / "s" / path).unlink()
    data = bytearray(log.read_bytes())
    data[20:end] = bytes(end - 20)
    log.write_bytes(data)
    with reput.MessageStore.open(tmp_path / "s", SYNC) as store:
        assert bodies(store) == []
        assert put(store, 1)
    assert_sound(tmp_path / "s", SYNC)


def test_index_file_without_length_before_one_with_it(tmp_path: Path) -> None:
    """Of two IndexFiles made in one catch-up the first may lose its length: both go, and are built again."""
    config = scenarios.ASYNC
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 4, keys="k")
    index = tmp_path / "s" / paths.INDEX
    full = next(index.iterdir())
    with reput.MessageStore.open(tmp_path / "s", config) as store:
        put(store, 10, keys="k")
        store.close(reput=False)
    (index / "20990101000000000").write_bytes(b"")
    (index / "20990101000000001").write_bytes(bytes(full.stat().st_size))
    with reput.MessageStore.open(tmp_path / "s", config) as store:
        store.reput(spark=False)
        assert len(store.query_message("t", "k", 100)) == 14
    assert_sound(tmp_path / "s", config)


def test_deleted_log_files_leave_no_hole(tmp_path: Path) -> None:
    """A power cut brings back the last ones of the expired log files only: the first ones go durably first."""
    recorded = sweep.record("delete", tmp_path)
    disk = Disk(recorded.before)
    names = sorted(path for path in recorded.before if path.startswith(f"store/{paths.COMMIT_LOG}/"))
    for entry in recorded.journal:
        disk.apply(entry)
        for choice in range(40):
            tree = disk.state(choice)
            left = [name in tree for name in names]
            assert left == sorted(left)
    assert not all(left)


def test_torn_magic_of_new_watermarks(tmp_path: Path) -> None:
    """Watermarks of which the power cut has kept the first bytes are made anew; other files are refused."""
    path = tmp_path / "watermarks"
    path.write_bytes(b"reput".ljust(4096, b"\0"))
    marks = Watermarks(path)
    assert marks["magic"] == own.WATERMARKS_MAGIC
    assert int(marks.store_id, 16)
    marks.close()
    path.write_bytes(b"ruput".ljust(4096, b"\0"))
    with pytest.raises(DamagedStoreError, match="not a watermarks file"):
        Watermarks(path)


def test_ledger_of_a_sink_does_not_vanish(tmp_path: Path) -> None:
    """Once a batch of a stream is in the log, a power cut leaves the ledger that says so: the batch comes once."""
    recorded = sweep.record("sink", tmp_path)
    disk = Disk(recorded.before)
    for entry in recorded.journal:
        disk.apply(entry)
        if entry == Known("durable", 6):
            break
    assert "store/reput/sinks/stream/ledger" in disk.state(NOTHING)
    assert "store/reput/sinks/stream/staged" in disk.state(NOTHING)


def test_catch_up_after_one_whose_frontier_was_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync of the frontier's name fails: the next catch-up goes on there, and removes no IndexFile below it."""
    config = scenarios.ASYNC
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 9, keys="k")
        with monkeypatch.context() as patch:
            true_sync = fs.sync_path

            def failing(path: Path | str) -> None:
                if Path(path).name == paths.REPUT and (tmp_path / "s" / paths.REPUT / own.FRONTIER_NAME).exists():
                    raise ReputError(f"{path}: cannot sync")
                true_sync(path)

            patch.setattr(fs, "sync_path", failing)
            with pytest.raises(ReputError, match="cannot sync"):
                store.reput(spark=False)
        before = sorted((tmp_path / "s" / paths.INDEX).iterdir())
        put(store, 2, keys="k")
        store.reput(spark=False)
        assert sorted((tmp_path / "s" / paths.INDEX).iterdir())[: len(before)] == before
        assert len(store.query_message("t", "k", 100)) == 11
    assert_sound(tmp_path / "s", config)


def test_failed_sync_of_watermarks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that refuses to sync the watermarks is an error with the file's name, not a bare one of the system."""
    recorder = Recorder(tmp_path, failing_sync=1)
    with recorder:
        marks = Watermarks(tmp_path / "watermarks")
        with pytest.raises(ReputError, match="watermarks: cannot sync"):
            marks.sync()
        marks.close()


def test_a_log_that_was_lost_whole_before_its_first_flush(tmp_path: Path) -> None:
    """Entries of a log of which nothing was durable go with it; once a record was, the empty log is refused."""
    for flushes in (False, True):
        path = tmp_path / f"{flushes}"
        with reput.MessageStore.open(path, scenarios.ASYNC, create=True) as store:
            put(store, 3, keys="k")
            if flushes:
                store.flush()
            with closing(Follow(path, LoopEngine(), scenarios.ASYNC)) as follower:
                follower.step()
                cut = stores.copy(path, tmp_path / f"cut {flushes}")
        for file in (cut / paths.COMMIT_LOG).iterdir():
            file.write_bytes(b"")
        (cut / paths.REPUT / own.FRONTIER_NAME).unlink(missing_ok=True)
        if flushes:
            with pytest.raises(NotAStoreError, match="no record, though there are"):
                reput.MessageStore.open(cut, scenarios.ASYNC)
            continue
        with reput.MessageStore.open(cut, scenarios.ASYNC) as store:
            assert bodies(store) == []
            put(store, 2, keys="k")
            assert len(store.query_message("t", "k", 100)) == 2
        assert_sound(cut, scenarios.ASYNC)


def test_items_of_records_that_a_power_cut_took(tmp_path: Path) -> None:
    """Items above the log's end are taken back, also if no later record has a key that would replace them."""
    config = scenarios.ASYNC
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        put(store, 2, keys="k")
    cut = stores.copy(tmp_path / "s", tmp_path / "cut")
    with reput.MessageStore.open(tmp_path / "s", config) as store:
        put(store, 2, keys="k")
    shutil.rmtree(cut / paths.INDEX)
    stores.copy(tmp_path / "s" / paths.INDEX, cut / paths.INDEX)
    with reput.MessageStore.open(cut, config) as store:
        put(store, 1)
        assert len(store.query_message("t", "k", 100)) == 2
    assert_sound(cut, config)


@pytest.mark.parametrize("name", ["delete topic", "recovery of a deletion"])
def test_a_queue_whose_deletion_was_not_synced_is_there_whole_or_gone(name: str, tmp_path: Path) -> None:
    """The next owner removes no file of a queue that was moved aside while a power cut can still undo the move.

    `make power-cuts` found it: after a failed sync of the queues' folder a part of a deleted queue was back.
    """
    queue = f"store/{paths.CONSUME_QUEUE}/b/0/"
    seen = set()
    for fault in sweep.record(name, tmp_path / "run").faults:
        if fault.kind == "failing_sync":
            recorded = sweep.record(name, tmp_path / f"{fault.at}", fault)
            trees = (tree for _, tree, _ in sweep.states(recorded, 8, seed=7))
            seen.update(sum(path.startswith(queue) for path in tree) for tree in trees)
    assert seen == {0, 2}


def test_expired_files_go_in_order_after_a_failed_sync(tmp_path: Path) -> None:
    """A deletion that another one goes on with brings back no file whose successor is gone, of the log or a queue."""

    def delete_twice(path: Path) -> None:
        for _ in range(2):
            with contextlib.suppress(ReputError):
                scenarios.delete(path, lambda *_: None)

    prepare = SCENARIOS["delete"].prepare
    assert prepare is not None
    for at in range(1, 16):
        disk = tmp_path / f"{at}" / "disk"
        disk.mkdir(parents=True)
        with determined():
            prepare(disk / "store", lambda *_: None)
            with Recorder(disk, failing_sync=at) as recorder:
                delete_twice(disk / "store")
        recorded = sweep.Recorded(recorder.before, [], recorder.journal, recorder.syncs, recorder.takes)
        for one, tree, _ in sweep.states(recorded, 8, seed=7):
            for folder, size in (("store/commitlog", 4096), (f"store/{paths.CONSUME_QUEUE}/a/0", 100)):
                starts = sorted(int(Path(path).name) for path in tree if path.startswith(f"{folder}/"))
                assert starts == list(range(starts[0], starts[-1] + 1, size)), (at, one, folder, starts)
