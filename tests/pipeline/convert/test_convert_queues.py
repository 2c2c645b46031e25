"""convert --source queues: the other kind's entries become what the log would have given, as far as they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.errors import ConfigError, DamagedLogError, DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import Entry, QueueKey
from reput.log.read.files import list_log_files
from reput.pipeline.convert import queues as convert_queues
from reput.pipeline.convert import source as convert_source
from reput.queue.file_kind import FileKind
from support import databases, golden, stores
from support.checked import assert_sound
from support.search import takes_long

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.pipeline.build.rebuild_report import RebuildReport

pytestmark = pytest.mark.golden


def convert(store: Path, to: str, source: str = "queues") -> RebuildReport:
    """Convert in this process, with the golden settings."""
    return reput.convert(store, to=to, source=source, spark=False, config=stores.GOLDEN)  # type: ignore[arg-type]


FEW, MANY = (1 << 20, 20_000), (200, 8)


@pytest.fixture
def tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues in one task, and cut over many."""
    entries, queues = request.param
    monkeypatch.setattr(convert_queues, "_ENTRIES_A_TASK", entries)
    monkeypatch.setattr(convert_queues, "_QUEUES_A_TASK", queues)
    monkeypatch.setattr(convert_source, "_AT_ONCE", 50)


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        *(pytest.param(name, MANY, id=f"{name}-many tasks") for name in ("basic", "ext", "rocksdb", "double")),
        pytest.param("basic", FEW, id="basic-few tasks"),
        *(pytest.param(name, FEW, id=f"{name}-few tasks", marks=takes_long) for name in ("ext", "rocksdb", "double")),
    ],
    indirect=["tasks"],
)
def test_as_from_the_log(name: str, tmp_path: Path) -> None:
    """Every conversion gives the bytes, or keys and values, that a conversion from the log gives."""
    store, other = golden.unpack(name, tmp_path), golden.unpack(name, tmp_path / "other")
    for to in ("rocksdb", "both", "file"):
        if to == "rocksdb" and not list(golden.queue_files(store)):
            continue
        report = convert(store, to)
        convert(other, to, "log")
        assert report.queues == len(golden.facts(name).queues)
        assert list(golden.queue_files(store)) == list(golden.queue_files(other))
        if to != "file":
            assert databases.queues_content(store) == databases.queues_content(other)
        assert_sound(store, stores.GOLDEN)


@pytest.mark.parametrize("to", ["rocksdb", "both"])
def test_an_old_part_of_the_log_is_damaged(to: str, tmp_path: Path) -> None:
    """Entries of a part of the log that cannot be decoded are kept, and their number is reported."""
    store = golden.unpack("basic", tmp_path)
    before = databases.entries(FileKind(store / paths.CONSUME_QUEUE, golden.QUEUE_FILE_SIZE))
    hurt = golden.records(store)[100:120]
    golden.write_at(store, hurt[0].offset, bytes(hurt[-1].end - hurt[0].offset))
    with pytest.raises(DamagedLogError):
        convert(store, to, "log")
    report = convert(store, to)
    lost = sum(record.is_queued for record in hurt)
    assert lost > 3
    assert any(warning.startswith(f"{lost} entries of the file queues") for warning in report.warnings)
    assert databases.entries(databases.rocksdb(store)) == before
    times = [
        int.from_bytes(value[-8:])
        for key, value in databases.content(store)["default"].items()
        if fmt.decode_entry_key(key)[0] == QueueKey(b"orders", 0)  # type: ignore[index]
    ]
    assert times == sorted(times)
    assert 0 not in times


@pytest.mark.parametrize("name", ["basic", "rocksdb"])
def test_what_has_expired_is_left_out(name: str, tmp_path: Path) -> None:
    """Entries begin with the first message that the log still has; queues without one keep their numbers."""
    store, other = golden.unpack(name, tmp_path), golden.unpack(name, tmp_path / "other")
    for one in (store, other):
        for file in list_log_files(one / paths.COMMIT_LOG).files[:2]:
            fs.remove_file(file.path)
    to = "rocksdb" if name == "basic" else "file"
    report = convert(store, to)
    log_report = convert(other, to, "log")
    # Each line names the folder that it is about.
    assert report.retained_queues == [line.replace(str(other), str(store)) for line in log_report.retained_queues]
    assert list(golden.queue_files(store)) == list(golden.queue_files(other))
    if to == "rocksdb":
        assert databases.content(store) == databases.content(other)
    assert_sound(store, stores.GOLDEN)


def test_what_is_behind_stays_behind(tmp_path: Path) -> None:
    """Queues that are complete up to some place only are so afterwards too, and the next opener takes in the rest."""
    store = golden.unpack("rocksdb", tmp_path)
    wanted = databases.entries(databases.rocksdb(store))
    log_file = list_log_files(store / paths.COMMIT_LOG).files[1]
    databases.rocksdb(store).cut(log_file.start, fs.owner_of(store))
    report = convert(store, "file")
    assert report.log_max_offset <= log_file.start
    kind = FileKind(store / paths.CONSUME_QUEUE, golden.QUEUE_FILE_SIZE)
    assert databases.entries(kind) != wanted
    with reput.MessageStore.open(store, stores.GOLDEN, create=True):
        pass
    assert databases.entries(kind) == wanted
    assert_sound(store, stores.GOLDEN)


def test_a_frontier_never_says_more_than_the_source(tmp_path: Path) -> None:
    """A database that was cut below the frontier: the frontier goes back with the new queues."""
    store = golden.unpack("basic", tmp_path)
    convert(store, "both", "log")
    convert(store, "rocksdb", "log")
    wanted = databases.entries(databases.rocksdb(store))
    log_file = list_log_files(store / paths.COMMIT_LOG).files[1]
    databases.rocksdb(store).cut(log_file.start, fs.owner_of(store))
    convert(store, "file")
    with reput.MessageStore.open(store, stores.GOLDEN, create=True):
        pass
    assert databases.entries(FileKind(store / paths.CONSUME_QUEUE, golden.QUEUE_FILE_SIZE)) == wanted
    assert_sound(store, stores.GOLDEN)


def test_impossible_entries_are_refused(tmp_path: Path) -> None:
    """An entry that the log cannot have is an error that names it, and the old queues stay as they are."""
    store = golden.unpack("rocksdb", tmp_path)
    queue = QueueKey(b"orders", 0)
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(queue, 7), fmt.encode_value(Entry(1 << 60, 200, 0), 4))
        database.write(batch)
    before = databases.content(store)
    with pytest.raises(DamagedStoreError, match=r"orders/0 queue offset 7.*--source log"):
        convert(store, "file")
    assert databases.content(store) == before
    assert stores.leftovers(store) == []


def test_a_difference_leaves_the_old_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staged queues are read back and compared with the source: one other byte, and nothing goes live."""
    store = golden.unpack("basic", tmp_path)
    before = stores.digest(store, inodes=True)
    real = convert_queues.build_queues

    def spoil(*arguments: object) -> object:
        retained = real(*arguments)  # type: ignore[arg-type]
        (folder,) = (store / "reput").glob("staging-*")
        with databases.RocksdbKind(folder / paths.CONSUME_QUEUE, folder / "logs").open_to_write(
            fs.owner_of(store)
        ) as database:
            batch = database.batch()
            key = fmt.entry_key(QueueKey(b"orders", 0), 3)
            batch.put(fmt.ENTRY_FAMILY, key, fmt.encode_value(Entry(1, 200, 0), 4))
            database.write(batch)
        return retained

    monkeypatch.setattr(convert_queues, "build_queues", spoil)
    with pytest.raises(DamagedStoreError, match=r"orders/0 \(rocksdb\): another entry at queue offset 3"):
        convert(store, "rocksdb")
    assert stores.digest(store, inodes=True) == before
    assert stores.leftovers(store) == []


@pytest.mark.spark
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """Spark's tasks give what the loop gives, there and back."""
    store = golden.unpack("basic", tmp_path)
    before = list(golden.queue_files(store))
    for to in ("rocksdb", "file"):
        report = reput.convert(store, to=to, source="queues", spark=spark, config=stores.GOLDEN)  # type: ignore[arg-type]
        assert report.queues == len(golden.facts("basic").queues)
    assert list(golden.queue_files(store)) == before
    assert_sound(store, stores.GOLDEN)


def bad_calls() -> Iterator[tuple[str, dict[str, object], str]]:
    """Conversions that cannot be, and what is said."""
    yield "basic", {"to": "file"}, "file queues alone"
    yield "rocksdb", {"to": "rocksdb"}, "rocksdb queues alone"
    yield "basic", {"to": "rocksdb", "source": "thin air"}, "choose log or queues"
    yield "basic", {"to": "rocksdb", "salvage": True}, "not read with --source queues"


@pytest.mark.parametrize(("name", "call", "said"), list(bad_calls()))
def test_what_cannot_be(name: str, call: dict[str, object], said: str, tmp_path: Path) -> None:
    """Nothing to convert from, or contradicting wishes, are errors that say what to do."""
    store = golden.unpack(name, tmp_path)
    with pytest.raises(ConfigError, match=said):
        reput.convert(store, **{"source": "queues", "spark": False, "config": stores.GOLDEN, **call})  # type: ignore[arg-type]


def test_behind_a_crash_the_log_is_asked_for(tmp_path: Path) -> None:
    """Files after a crash that nothing vouches for are no source."""
    store = golden.unpack("crash", tmp_path)
    with pytest.raises(ConfigError, match="--source log"):
        convert(store, "rocksdb")


def test_the_name_of_a_queue_file_filled_the_memory_with_tasks(tmp_path: Path) -> None:
    """No task is planned for what a file would hold that is missing between others, and nothing is changed."""
    store = golden.unpack("basic", tmp_path)
    first = next(path for path in sorted((store / paths.CONSUME_QUEUE).rglob("*")) if path.is_file())
    size = first.stat().st_size
    far = first.with_name(paths.offset_name((1 << 62) // size * size))
    far.write_bytes(first.read_bytes())
    with pytest.raises(DamagedStoreError, match=f"{far.name}: no file holds the queue's bytes from {size} to"):
        convert(store, "rocksdb")
    assert not (store / "consumequeue" / "CURRENT").exists()
