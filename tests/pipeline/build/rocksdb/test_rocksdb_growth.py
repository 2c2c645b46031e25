"""RocksDB queues grow with the log: as a rebuild makes them, beside readers, through kills, and with double write."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.errors import StoreLockedError
from reput.files import fs
from reput.files.database import DatabaseReader
from reput.formats import paths
from reput.formats.log.record import TRANSACTION_PREPARED
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.queue.rocksdb_entries import EntryTable
from reput.queue.rocksdb_kind import open_reader
from support import databases, dying, growing, kinds, stores
from support.checked import assert_sound
from support.opened import forget_known_good
from support.out_of_order import CASES
from support.records import LogBuilder
from support.switches import config_of

if TYPE_CHECKING:
    pass

ROCKSDB = config_of("rocksdb", kinds.CONFIG)
BOTH = config_of("double", kinds.CONFIG)
CONFIGS = {"rocksdb": ROCKSDB, "double": BOTH}


@pytest.mark.parametrize("long_ranges", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_as_a_rebuild(name: str, long_ranges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put, caught up in steps by batches or by tables, closed: every key and value is a rebuild's."""
    if long_ranges:
        growing.rocksdb_by_tables(monkeypatch)
        growing.many_splits(monkeypatch, 30_000)
    path, config = tmp_path / "store", CONFIGS[name]
    with kinds.open_store(path, config) as store:
        for seed in range(3):
            kinds.put_kinds(store, 150, seed)
            store.reput(spark=False)
            assert store.view.queues_table.tail.entries == 0
    assert not (path / paths.ABORT).exists()
    stores.assert_as_rebuilt(path, tmp_path / "copy", config)
    if name == "double":
        databases.assert_same_queues(path)
    assert_sound(path, config)


@pytest.mark.parametrize("long_ranges", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_crooked_queues(name: str, long_ranges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a log with repeats, restarts and gaps is cut, RocksDB takes it in as files do."""
    if long_ranges:
        growing.rocksdb_by_tables(monkeypatch)
    config = config_of("double", stores.SMALL)
    offsets = CASES[name].offsets
    for cut in sorted({1, len(offsets) // 2, len(offsets) - 1}):
        log, folder = LogBuilder(4096), tmp_path / str(cut)
        for offset in offsets[:cut]:
            log.message(queue_offset=offset)
            log.message("noise")
        store = stores.with_log(folder, log)
        with reput.MessageStore.open(store, config, create=True) as opened:
            opened.reput(spark=False)
        for offset in offsets[cut:]:
            log.message(queue_offset=offset)
            log.message("noise")
        stores.with_log(folder, log)
        with reput.MessageStore.open(store, config, create=True) as opened:
            opened.reput(spark=False)
        databases.assert_same_queues(store)


def test_a_reader_beside(tmp_path: Path) -> None:
    """A read-only opener sees what was put, indexed or not, and what a rebuild has swapped in."""
    path = tmp_path / "store"
    with (
        kinds.open_store(path, ROCKSDB) as store,
        reput.MessageStore.open(path, ROCKSDB, read_only=True) as reader,
    ):
        for number in range(40):
            store.put_message(reput.Message("orders", b"%d" % number), number % 2)
            if number % 10 == 5:
                store.reput(spark=False)
            assert reader.max_offset("orders", number % 2) == number // 2 + 1
        found = reader.get_message("orders", 1, 3, 40)
        assert [message.body for message in found] == [b"%d" % number for number in range(7, 40, 2)]
        assert reader.queues() == store.queues()


def test_a_tail_goes_on_from_the_restart_point(tmp_path: Path) -> None:
    """Without reput's frontier, closed or crashed, reading goes on where the database ends."""
    path = tmp_path / "store"
    store = kinds.open_store(path, ROCKSDB)
    kinds.put_kinds(store, 100, 1)
    store.reput(spark=False)
    kinds.put_kinds(store, 50, 2)
    spans = store.queues()
    store.close(reput=False)
    with open_reader(path / paths.CONSUME_QUEUE) as reader:
        restart = EntryTable(reader.families).restart_offset()
    for crashed in (False, True):
        shutil.rmtree(path / paths.REPUT, ignore_errors=True)
        (path / paths.ABORT).unlink(missing_ok=True)
        if crashed:
            (path / paths.ABORT).touch()
        with reput.MessageStore.open(path, ROCKSDB, read_only=True) as opened:
            assert opened.view.frontiers.queue_offset == restart
            assert opened.queues() == spans


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 3])
def test_killed_while_it_writes(at: int, when: str, tmp_path: Path) -> None:
    """A writer that dies before or after a batch leaves a store that opens whole."""
    path = tmp_path / "store"
    dying.run(path, at, when)
    with kinds.open_store(path, BOTH) as store:
        kinds.put_kinds(store, 20, 9)
        assert sum(queue.max_offset for queue in store.queues()) > 0
        store.reput(spark=False)
    databases.assert_same_queues(path)
    stores.assert_as_rebuilt(path, tmp_path / "copy", BOTH)
    assert_sound(path, BOTH)


def test_a_torn_tail_is_cut_from_the_database(tmp_path: Path) -> None:
    """Entries of records that a crash has torn go, with their numbers; what is put next takes those."""
    path = tmp_path / "store"
    with kinds.open_store(path, ROCKSDB) as store:
        for number in range(30):
            store.put_message(reput.Message("orders", b"x" * 100 + b"%d" % number), 0)
        store.reput(spark=False)
        last = store.get_message("orders", 0, 28, 2)
        torn = [message.physical_offset for message in last]
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    data[torn[0] + 20 :] = bytes(len(data) - torn[0] - 20)
    log.write_bytes(data)
    forget_known_good(path)
    (path / paths.ABORT).touch()
    with kinds.open_store(path, ROCKSDB) as store:
        assert store.max_offset("orders", 0) == 28
        assert store.put_message(reput.Message("orders", b"new"), 0).queue_offset == 28
        store.reput(spark=False)
    entries = databases.content(path)[fmt.ENTRY_FAMILY]
    assert len(entries) == 29
    assert_sound(path, ROCKSDB)


def test_expired_entries_go(tmp_path: Path) -> None:
    """Entries whose log files are deleted go from the database; queues keep their numbers."""
    path = tmp_path / "store"
    config = replace(ROCKSDB, mapped_file_size_commit_log=1 << 14)
    with kinds.open_store(path, config) as store:
        for number in range(200):
            store.put_message(reput.Message("ab"[number % 2], b"x" * 400), 0)
        store.reput(spark=False)
        for start in list(store.view.log.starts)[:3]:
            fs.remove_file(path / paths.COMMIT_LOG / paths.offset_name(start))
        store.view.log.refresh()
        kind, *_ = store.view.kinds
        assert "2 queues" in kind.delete_expired(store.view.log.min_offset)[0]
        store.view.load(store.view.frontiers)
        first = store.min_offset("a", 0)
        assert first > 10
        assert store.max_offset("a", 0) == 100
        assert kind.delete_expired(store.view.log.min_offset) == []
        assert next(iter(store.get_message("a", 0, first, 1))).queue_offset == first
    assert min(fmt.decode_entry_key(key)[1] for key in databases.content(path)[fmt.ENTRY_FAMILY]) >= first - 1  # type: ignore[index]
    assert_sound(path, config)


def test_a_queue_is_deleted(tmp_path: Path) -> None:
    """A queue's entries and numbers go by its range; its neighbours stay."""
    path = tmp_path / "store"
    with kinds.open_store(path, ROCKSDB) as store:
        for queue_id in (0, 1, 2, 256, 257):
            store.put_message(reput.Message("orders", b"x"), queue_id)
        store.reput(spark=False)
    databases.rocksdb(path).delete(b"orders", 256, fs.owner_of(path), path / "aside")
    found = databases.entries(databases.rocksdb(path))
    assert [key.queue_id for key in found] == [0, 1, 2, 257]


def test_a_range_without_entries(tmp_path: Path) -> None:
    """Messages that get no entry, such as prepared ones, move the restart point on all the same."""
    path = tmp_path / "store"
    with kinds.open_store(path, ROCKSDB) as store:
        for _ in range(2):
            store.put_message(reput.Message("orders", b"x", sys_flag=TRANSACTION_PREPARED), 0)
            store.reput(spark=False)
        end = store.view.confirmed()
        assert store.queues() == []
        store.put_message(reput.Message("orders", b"y"), 0)
        store.reput(spark=False)
        assert store.max_offset("orders", 0) == 1
    with open_reader(path / paths.CONSUME_QUEUE) as reader:
        assert (EntryTable(reader.families).restart_offset() or 0) > end
    reput.rebuild(path, spark=False, config=ROCKSDB)
    assert_sound(path, ROCKSDB)


def test_one_owner(tmp_path: Path) -> None:
    """A second one to write is refused by name; readers are not."""
    path = tmp_path / "store"
    with kinds.open_store(path, ROCKSDB) as store:
        store.put_message(reput.Message("orders", b"x"), 0)
        store.reput(spark=False)
        kind = databases.rocksdb(path)
        with kind.open_to_write(fs.owner_of(path)):
            with pytest.raises(StoreLockedError, match="consumequeue"):
                kind.open_to_write(fs.owner_of(path))
            store.put_message(reput.Message("orders", b"y"), 0)
            with pytest.raises(StoreLockedError):
                store.reput(spark=False)
            assert store.max_offset("orders", 0) == 2
            assert kind.delete_expired(1 << 40) == []


HOLDER = """
import sys
from pathlib import Path
from reput.files import fs
from support import databases
store = Path(sys.argv[1])
with databases.rocksdb(store).open_to_write(fs.owner_of(store)):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_broker_that_loads_the_store_is_not_overtaken(tmp_path: Path) -> None:
    """RocketMQ has the database open before it takes the store's lock: nothing is put, rebuilt or converted."""
    path = tmp_path / "store"
    with kinds.open_store(path, ROCKSDB) as store:
        store.put_message(reput.Message("orders", b"x"), 0)
    before = databases.content(path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for action in (
            lambda: kinds.open_store(path, ROCKSDB),
            lambda: reput.rebuild(path, spark=False, config=ROCKSDB),
            lambda: reput.convert(path, to="file", spark=False),
            lambda: reput.convert(path, to="file", spark=False, source="queues"),
        ):
            with pytest.raises(StoreLockedError, match=r"consumequeue: another process has these rocksdb queues open"):
                action()
        with reput.MessageStore.open(path, ROCKSDB, read_only=True) as reader:
            assert reader.max_offset("orders", 0) == 1
        holder.communicate()
    assert databases.content(path) == before
    assert_sound(path, ROCKSDB)
    with kinds.open_store(path, ROCKSDB) as store:
        assert store.put_message(reput.Message("orders", b"y"), 0).queue_offset == 1


@pytest.mark.parametrize("name", CONFIGS)
def test_follow(name: str, tmp_path: Path) -> None:
    """A follower takes in what a writer beside it puts, into every kind."""
    path, config = tmp_path / "store", CONFIGS[name]
    with kinds.open_store(path, config) as store:
        kinds.put_kinds(store, 50, 1)
        with reput.follow(path, spark=False, config=config) as follower:
            kinds.put_kinds(store, 50, 2)
            follower.wait(0.5)
            kinds.put_kinds(store, 50, 3)
            for _ in range(100):
                if store.lag().bytes == 0:
                    break
                follower.wait(0.1)
        assert store.lag().bytes == 0
        spans = store.queues()
    assert_sound(path, config)
    with reput.MessageStore.open(path, config, read_only=True) as opened:
        assert opened.queues() == spans
    stores.assert_as_rebuilt(path, tmp_path / "copy", config)


def test_a_reader_misses_nothing_of_an_owner_that_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the frontier a reader that is open has every entry, whether its owner writes tables, flushes or closes."""
    growing.rocksdb_by_tables(monkeypatch)
    for number in range(8):
        path = tmp_path / str(number)
        with kinds.open_store(path, ROCKSDB) as store:
            with reput.follow(path, spark=False, config=ROCKSDB) as follower:
                for count in range(60):
                    store.put_message(reput.Message("orders", b"%d" % count), 0)
                    if count % 20 == 0:
                        follower.wait(0.02)
            assert store.max_offset("orders", 0) == 60
            assert [message.body for message in store.get_message("orders", 0, 0, 60)] == [
                b"%d" % count for count in range(60)
            ]


class Stale:
    """A secondary that never sees what its owner writes."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def try_catch_up_with_primary(self) -> None:
        """Stay as it is."""


def test_a_stale_reader_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that does not reach the frontier when it follows its owner is opened again and has all."""
    path, opened = tmp_path / "store", DatabaseReader._opened
    monkeypatch.setattr(DatabaseReader, "_opened", lambda self, families: Stale(opened(self, families)))
    with kinds.open_store(path, ROCKSDB) as store:
        for number in range(3):
            store.put_message(reput.Message("orders", b"%d" % number), 0)
            store.reput(spark=False)
        assert store.max_offset("orders", 0) == 3
        assert [message.body for message in store.get_message("orders", 0, 0, 9)] == [b"0", b"1", b"2"]
