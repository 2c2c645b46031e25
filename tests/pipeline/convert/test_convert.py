"""convert makes the queues ones of another kind and back, whole or not at all; diff reports every difference."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.errors import ConfigError, DamagedStoreError, UnsupportedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.batch_consume_queue import decode_batch_entry
from reput.formats.queue.consume_queue import Entry, QueueKey
from reput.formats.queue.rocksdb_consume_queue import OffsetValue
from reput.pipeline.build.rocksdb import queues as rocksdb_queues
from reput.store.owner import swap
from support import databases, golden, stores
from support.checked import assert_sound
from support.killed import Killed

if TYPE_CHECKING:
    from pathlib import Path


def convert(store: Path, to: str) -> None:
    """Convert in this process, with the golden settings."""
    report = reput.convert(store, to=to, spark=False, config=stores.GOLDEN)  # type: ignore[arg-type]
    assert "verify" in report.seconds
    assert_sound(store, stores.GOLDEN)


@pytest.mark.golden
def test_there_and_back(tmp_path: Path) -> None:
    """Files to both, to RocksDB, to files: the same bytes as RocketMQ's at the end, and equal all the way."""
    store = golden.unpack("basic", tmp_path)
    before = list(golden.queue_files(store))
    other = golden.unpack("basic", tmp_path / "other")
    convert(store, "both")
    assert list(golden.queue_files(store)) == before
    assert list(reput.diff(store)) == []
    databases.assert_same_queues(store)
    convert(store, "rocksdb")
    assert list(golden.queue_files(store)) == []
    assert list(reput.diff(store, other)) == []
    convert(store, "file")
    assert list(golden.queue_files(store)) == before
    assert not (store / paths.CONSUME_QUEUE / "CURRENT").exists()
    assert list(reput.diff(store, other)) == []


@pytest.mark.golden
@pytest.mark.parametrize("to", ["rocksdb", "both"])
def test_an_open_after_a_conversion_decodes_nothing(to: str, tmp_path: Path) -> None:
    """The IndexFiles that RocketMQ built and a conversion leaves still count: the log is not read again."""
    store = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        found = [one.physical_offset for one in opened.query_message("orders", "k30")]
    index = stores.index_files(store)
    reput.convert(store, to=to, spark=False, config=stores.GOLDEN)  # type: ignore[arg-type]
    with reput.MessageStore.open(store, stores.GOLDEN) as opened:
        assert opened.view.follower.records == 0
        assert [one.physical_offset for one in opened.query_message("orders", "k30")] == found != []
        opened.put_message(reput.Message("orders", b"x", keys="k30"))
        opened.reput(spark=False)
        assert len(opened.query_message("orders", "k30")) == len(found) + 1
    assert stores.index_files(store)[:-1] == index[:-1]
    assert_sound(store, stores.GOLDEN)
    # Where they are lost they are made again.
    shutil.rmtree(store / paths.INDEX)
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        assert len(opened.query_message("orders", "k30")) == len(found) + 1


@pytest.mark.golden
def test_golden_kinds_are_equal() -> None:
    """Queues of RocketMQ's double write are equal in both kinds; another store's queues are not."""
    assert list(reput.diff(golden.shared("double"))) == []
    assert list(reput.diff(golden.shared("double"), golden.shared("rocksdb"))) != []


@pytest.mark.golden
def test_every_difference_is_told(tmp_path: Path) -> None:
    """Entries, ends and whole queues, each with what both sides have."""
    store = golden.unpack("double", tmp_path)
    queue, alone = QueueKey(b"orders", 0), QueueKey(b"alone", 3)
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        for offset in (7, 8, 700):
            batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(queue, offset), fmt.encode_value(Entry(1, 2, 3), 4))
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(alone, fmt.MAX), fmt.encode_offset_value(OffsetValue(5, 1)))
        batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(alone, 0), fmt.encode_value(Entry(5, 2, 3), 4))
        batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(alone, 1), fmt.encode_value(Entry(5, 2, 3), 4))
        database.write(batch)
    found = [(one.topic, one.queue_id, one.what, one.begin, one.end) for one in reput.diff(store)]
    assert found == [
        ("alone", 3, "max", 0, 2),
        ("orders", 0, "entries", 7, 9),
        ("orders", 0, "entries", 700, 701),
    ]
    first = list(reput.diff(store))[1]
    assert first.right == Entry(1, 2, 3)
    assert first.left is not None
    assert first.left.size > 2


def test_nothing_to_compare(tmp_path: Path) -> None:
    """One kind alone, or no queues, is an error that says what to do."""
    with pytest.raises(ConfigError, match="reput check"):
        reput.diff(golden.shared("basic"))
    store = golden.unpack("crash", tmp_path)
    fs.remove_tree(store / paths.CONSUME_QUEUE)
    with pytest.raises(ConfigError, match="no queues"):
        reput.diff(store)
    with pytest.raises(ConfigError, match="choose"):
        reput.convert(store, to="odd", spark=False)  # type: ignore[arg-type]


@pytest.mark.golden
def test_an_error_leaves_the_old_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference in the verification, or an error of the system, leaves the old queues live and nothing else."""
    store = golden.unpack("basic", tmp_path)
    before = stores.digest(store, inodes=True)

    def wrong(*_: object) -> list[str]:
        return ["orders/0: 1 entries missing"]

    with monkeypatch.context() as patched:
        patched.setattr(rocksdb_queues.RocksdbBuilder, "verify", wrong)
        with pytest.raises(DamagedStoreError, match="read back"):
            reput.convert(store, to="rocksdb", spark=False, config=stores.GOLDEN)
    assert stores.digest(store, inodes=True) == before
    assert stores.leftovers(store) == []


@pytest.mark.golden
@pytest.mark.parametrize("source", ["log", "queues"])
@pytest.mark.parametrize("step", range(6))
def test_killed_in_the_swap(step: int, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that dies at any rename is the old kind or, after the next opener, the new one, never a mix."""
    store = golden.unpack("basic", tmp_path)
    before = list(golden.queue_files(store))

    renames = 0
    real = fs.rename

    def rename(source: Path, target: Path) -> None:
        nonlocal renames
        if renames == step:
            raise Killed
        renames += 1
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(fs, "rename", rename)
        patched.setattr(swap, "_undo", lambda *_: None)
        with contextlib.suppress(Killed):
            reput.convert(store, to="rocksdb", source=source, spark=False, config=stores.GOLDEN)  # type: ignore[arg-type]
    with reput.MessageStore.open(store, stores.GOLDEN, create=True) as opened:
        assert len(opened.queues()) == len(golden.facts("basic").queues)
        kind = opened.view.queues_table.durable.name
    assert kind == "rocksdb" or list(golden.queue_files(store)) == before
    assert_sound(store, stores.GOLDEN)


@pytest.mark.golden
def test_ext_is_no_difference(tmp_path: Path) -> None:
    """The place of a unit of ext is no difference, between stores nor between kinds: its tags code counts."""
    theirs, store = golden.shared("ext"), golden.unpack("ext", tmp_path)
    for kind in ("both", "rocksdb"):
        convert(store, kind)
        assert list(reput.diff(theirs, store, config=stores.GOLDEN)) == []
        assert kind == "rocksdb" or list(reput.diff(store, config=stores.GOLDEN)) == []


@pytest.mark.golden
def test_a_target_without_batches_was_called_the_kind_of_the_store(tmp_path: Path) -> None:
    """Of a store with queue files and batches the error says that the target cannot hold batches."""
    store = golden.unpack("batch", tmp_path)
    with pytest.raises(UnsupportedStoreError, match="rocksdb queues cannot hold batches") as caught:
        reput.convert(store, to="rocksdb", spark=False)
    assert "the store has" not in str(caught.value)


@pytest.mark.golden
def test_queues_of_batches_differ(tmp_path: Path) -> None:
    """Queues of batches are compared between two stores, too: ends, entries, and whole queues."""
    left, right = golden.unpack("batch", tmp_path / "one"), golden.unpack("batch", tmp_path / "other")
    assert list(reput.diff(left, right)) == []
    folder = left / paths.BATCH_CONSUME_QUEUE / "batches"
    shutil.rmtree(folder / "1")
    path = folder / "0" / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    data[2 * 46 + 11] ^= 1
    path.write_bytes(data)
    (wrong, *gone) = reput.diff(left, right)
    entry = decode_batch_entry(data, 2 * 46)
    assert (wrong.topic, wrong.queue_id, wrong.what, wrong.left) == ("batches", 0, "entries", entry)
    assert wrong.right == entry._replace(size=entry.size ^ 1)
    assert (wrong.begin, wrong.end) == (entry.base_offset, entry.next_offset)
    assert [(one.queue_id, one.what, one.begin) for one in gone] == [(1, "max", 0)]
    done = CliRunner().invoke(cli, ["diff", str(left), str(right)], standalone_mode=False)
    assert (done.return_value, len(done.stdout.splitlines())) == (1, 2)
    shutil.rmtree(left / paths.CONSUME_QUEUE)
    assert {one.topic for one in reput.diff(left, right)} >= {"batches", "orders"}
