"""`store_info` of sound, damaged, half-built and strange stores."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import NotAStoreError
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import PRE_BLANK, Entry, encode_entry
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from reput.queue.batch_kind import BatchKind
from reput.queue.file_kind import FileKind
from reput.queue.files import list_queues
from reput.queue.reader import queue_span, read_entries
from reput.store.disk.layout import find_store
from reput.store.info.info import store_info
from reput.store.info.values import CLEAN, DAMAGED, TORN, UNKNOWN, StoreInfo
from reput.store.owner.owner import own_store
from support import golden
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def tree(store: Path) -> dict[str, str]:
    """Every name below a store, with its bytes' digest and the time it was changed."""
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(store.rglob("*"))
    }


def spans(info: StoreInfo) -> dict[tuple[str, int], tuple[int, int]]:
    """Min and max offset of each queue."""
    return {
        (topic.topic, queue.queue_id): (queue.min_offset, queue.max_offset)
        for topic in info.topics
        for queue in topic.queues
    }


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "crash", "ext", "double", "rocksdb"])
def test_offsets_are_rocketmqs(name: str) -> None:
    """The log's and each queue's min and max offset are what RocketMQ answered."""
    answers = list(golden.answers(name))
    info = store_info(golden.shared(name))
    assert [info.log.min_offset, info.log.max_offset] == answers[0]["log"]
    assert spans(info) == {
        (answer["queue"][0], answer["queue"][1]): (answer["min"], answer["max"])
        for answer in answers
        if "queue" in answer
    }
    assert (info.log.max_is_exact, info.log.tail, info.damage) == (True, CLEAN, [])


@pytest.mark.golden
def test_expired_queues_start_where_rocketmq_says(tmp_path: Path) -> None:
    """Pre-blank entries, and entries whose records the log has no more, are before a queue's min offset."""
    store = golden.unpack("basic", tmp_path)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    for answers, indexes in (("expired", store), ("expired-noindexes", golden.unpack("expired-rebuilt", tmp_path))):
        for answer in golden.answers(answers):
            if "queue" not in answer:
                continue
            topic, queue_id = answer["queue"]
            folder = next(
                queue
                for queue in list_queues(indexes / paths.CONSUME_QUEUE)
                if (queue.topic, queue.queue_id) == (topic, queue_id)
            )
            span = queue_span(folder, golden.LOG_FILE_SIZE)
            # RocketMQ counts a first file of which no record is left, until it deletes it.
            is_dead = answers == "expired" and answer["min"] + golden.QUEUE_FILE_ENTRIES <= span.min_offset
            first = span.min_offset if is_dead else answer["min"]
            assert (span.min_offset, span.max_offset) == (first, answer["max"]), (answers, topic, queue_id)


@pytest.mark.golden
def test_times_sizes_and_items() -> None:
    """Times are those of the first and last record, items those of the headers, sizes those of the files."""
    store = golden.shared("basic")
    info = store_info(store)
    records = [found.decode() for found in LogWalk(list_log_files(store / paths.COMMIT_LOG), 0)]
    assert info.log.first_store_timestamp == records[0].store_timestamp
    assert info.log.last_store_timestamp == records[-1].store_timestamp
    assert info.log.bytes == sum(len(data) for _, data in golden.log_files(store))
    assert info.queue_bytes == sum(len(data) for _, _, _, data in golden.queue_files(store))
    assert [file.items for file in info.index_files] == [
        struct.unpack(">i", data[36:40])[0] - 1 for _, data in golden.index_files(store)
    ]
    assert info.queue_entries == sum(queue[1] - queue[0] for queue in spans(info).values())
    assert info.checkpoint is not None
    assert any(info.checkpoint.values())
    assert not info.out_of_date


@pytest.mark.golden
@pytest.mark.parametrize("name", golden.STORES)
def test_nothing_is_changed(name: str, tmp_path: Path) -> None:
    """Looking makes, changes and removes nothing."""
    store = golden.unpack(name, tmp_path)
    before = tree(store)
    reput.info(store)
    assert tree(store) == before


@pytest.mark.golden
@pytest.mark.golden
def test_a_damaged_database_of_queues_hid_the_rest(tmp_path: Path) -> None:
    """A database of queues that cannot be read is damage; log, index and metadata are described as before."""
    store = golden.unpack("config-v1", tmp_path)
    before = store_info(store)
    for table in (store / paths.CONSUME_QUEUE).glob("*.sst"):
        os.truncate(table, table.stat().st_size // 2)
    found = store_info(store)
    (damage,) = found.damage
    assert damage.startswith(f"{store / paths.CONSUME_QUEUE}: ")
    assert found.log.max_offset == before.log.max_offset
    assert (found.index_files, found.metadata) == (before.index_files, before.metadata)
    assert found.out_of_date == []


def test_queues_of_batches_are_told() -> None:
    """Their topics have a type, and their entries are the messages inside."""
    info = store_info(golden.shared("batch"))
    types = {topic.topic: topic.type for topic in info.topics}
    assert types["batches"] == "BatchCQ"
    assert types["orders"] == "SimpleCQ"
    wanted = {tuple(line["queue"]): line["max"] for line in golden.answers("batch") if "queue" in line}
    assert {(t.topic, q.queue_id): q.max_offset for t in info.topics for q in t.queues} == wanted
    assert info.unsupported == info.damage == info.out_of_date == []
    assert info.log.max_offset == next(iter(golden.answers("batch")))["log"][1]


@pytest.mark.golden
def test_missing_indexes_are_said(tmp_path: Path) -> None:
    """Without consumequeue and index one line says so and what builds both; the log's end is found without them."""
    store = golden.unpack("crash", tmp_path)
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    shutil.rmtree(store / paths.INDEX)
    info = store_info(store)
    assert info.log.max_offset == next(iter(golden.answers("crash")))["log"][1]
    assert info.abort
    assert [text.split(":")[0] for text in info.out_of_date] == ["consumequeue and index"]


@pytest.mark.golden
def test_queues_and_index_behind_the_log(tmp_path: Path) -> None:
    """Queues that lack their last entries, and an index without its last file, are reported as out of date."""
    store = golden.unpack("basic", tmp_path)
    *_, later = golden.records(store)[:-60]
    lacking = 0
    for queue in list_queues(store / paths.CONSUME_QUEUE):
        path = queue.files[-1].path
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 20):
            if int.from_bytes(data[at : at + 8], "big") > later.offset:
                data[at : at + 20] = bytes(20)
                lacking += 1
        path.write_bytes(data)
    max((store / paths.INDEX).iterdir()).unlink()
    info = store_info(store)
    assert lacking
    assert any(text.startswith("consumequeue") and f" {lacking} messages" in text for text in info.out_of_date)
    assert any(text.startswith("index: ends") for text in info.out_of_date)
    assert info.behind == info.out_of_date  # its old name


@pytest.mark.golden
def test_a_torn_tail_is_behind_and_no_damage(tmp_path: Path) -> None:
    """A half-written last record is reported with its place and size; entries that name it are no damage either."""
    store = golden.unpack("crash", tmp_path)
    *_, last = LogWalk(list_log_files(store / paths.COMMIT_LOG), 0)
    path = store / paths.COMMIT_LOG / paths.offset_name(last.offset // golden.LOG_FILE_SIZE * golden.LOG_FILE_SIZE)
    data = bytearray(path.read_bytes())
    at, half = last.offset % golden.LOG_FILE_SIZE, len(last.data) // 2
    data[at + half : at + len(last.data)] = bytes(len(last.data) - half)
    path.write_bytes(data)
    info = store_info(store)
    assert (info.log.tail, info.log.max_offset) == (TORN, last.offset)
    assert 0 < info.log.tail_bytes <= half
    assert not info.damage
    assert any("torn tail" in text and f"log offset {last.offset}" in text for text in info.out_of_date)


@pytest.mark.golden
def test_a_short_last_file_was_said_to_be_cut_and_not_to_be_loaded(tmp_path: Path) -> None:
    """Nobody opens a log with a short file, so nobody cuts its torn tail off, or removes entries after it."""
    store = golden.unpack("basic", tmp_path)
    last = max((store / paths.COMMIT_LOG).iterdir())
    os.truncate(last, 767540)
    info = store_info(store)
    assert any("RocketMQ would not load this log" in one for one in info.damage)
    assert any("torn tail, 481 bytes" in one for one in info.out_of_date)
    assert any("1 queue names a record after the log's end" in one for one in info.out_of_date)
    assert not any("when it opens the store" in one for one in info.out_of_date)


def test_damage_near_the_end_is_told(tmp_path: Path) -> None:
    """Bytes that are no record, before good records, are damage with file, place and remedy."""
    log = LogBuilder(1 << 16)
    log.message("orders")
    at = log.garbage(b"no record at all")
    after = log.message("orders")
    info = store_info(log.write(tmp_path))
    assert (info.log.tail, info.log.max_offset, info.log.max_is_exact) == (DAMAGED, at, False)
    assert any(f"log offset {at}" in text and str(after.offset) in text for text in info.damage)


def test_an_empty_store(tmp_path: Path) -> None:
    """A commitlog folder without files, or with one all-zero file, is an empty store and no damage."""
    (tmp_path / paths.COMMIT_LOG).mkdir()
    info = store_info(tmp_path)
    assert (info.log.files, info.log.max_offset, info.damage) == (0, 0, [])
    (tmp_path / paths.COMMIT_LOG / paths.offset_name(0)).write_bytes(bytes(4096))
    info = store_info(tmp_path)
    assert (info.log.files, info.log.max_offset, info.log.last_store_timestamp, info.damage) == (1, 0, None, [])


def test_files_of_odd_sizes_are_damage(tmp_path: Path) -> None:
    """Odd log, queue, index and checkpoint files are each reported by name; an empty last one is only a note."""
    log = LogBuilder(4096)
    for _ in range(60):
        log.message("orders")
    store = log.write(tmp_path, preallocated=True)
    folder = store / paths.CONSUME_QUEUE / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / paths.offset_name(0)).write_bytes(bytes(6001))
    (folder / paths.offset_name(6000)).write_bytes(b"")
    (store / paths.INDEX).mkdir()
    (store / paths.INDEX / "20261121023731573").write_bytes(b"short")
    (store / paths.CHECKPOINT).write_bytes(b"short")
    os.truncate(store / paths.COMMIT_LOG / paths.offset_name(4096), 4000)
    (store / paths.COMMIT_LOG / paths.offset_name(1 << 20)).write_bytes(b"")
    info = store_info(store)
    for name in (f"{paths.COMMIT_LOG}/{paths.offset_name(4096)}", "orders/0/", "20261121023731573", "checkpoint"):
        assert any(name in text for text in info.damage), name
    assert sum("empty last file" in text for text in info.notes) == 2


def test_a_long_walk_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A max offset whose end is too far to walk to is a lower bound, and reported as one."""
    monkeypatch.setattr("reput.store.info.end._WALK_SECONDS", 0.0)
    log = LogBuilder(1 << 20)
    for _ in range(2000):
        log.message("orders")
    info = store_info(log.write(tmp_path))
    assert (info.log.max_is_exact, info.log.tail) == (False, UNKNOWN)
    assert 0 < info.log.max_offset < log.end


def test_a_far_end_is_jumped_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a long last file without indexes the end is found from its last written page, torn or not."""
    log = LogBuilder(8 << 20)
    for _ in range(20):
        log.message("orders", body=b"x" * 200_000)
    for _ in range(1000):
        log.message("orders")
    monkeypatch.setattr("reput.store.info.end._JUMP_BYTES", 10_000)
    monkeypatch.setattr("reput.store.info.end._WALK_SECONDS", 0.0)
    store = log.write(tmp_path, preallocated=True)
    info = store_info(store)
    assert (info.log.max_offset, info.log.max_is_exact, info.log.tail) == (log.end, True, CLEAN)
    half = log.message("orders").data[:60]
    at = log.garbage(half) - len(log.placed[-1].data)
    path = log.write(tmp_path / "torn", preallocated=True) / paths.COMMIT_LOG / paths.offset_name(0)
    data = path.read_bytes()
    path.write_bytes(data[:at] + half.ljust(len(data) - at, b"\0"))
    info = store_info(tmp_path / "torn")
    assert (info.log.max_offset, info.log.tail) == (at, TORN)


@pytest.mark.golden
@pytest.mark.parametrize("zeros", [False, True])
def test_a_log_that_is_gone_is_damage(zeros: bool, tmp_path: Path) -> None:
    """No log file, or none with a record, beside queues with entries is damage: its disk is perhaps not mounted."""
    store = golden.unpack("basic", tmp_path)
    for path in (store / paths.COMMIT_LOG).iterdir():
        path.unlink()
    if zeros:
        (store / paths.COMMIT_LOG / paths.offset_name(0)).write_bytes(bytes(1 << 20))
    (damage,) = store_info(store).damage
    assert "queues with entries. Is its disk mounted" in damage


def test_a_job_at_work_is_told(tmp_path: Path) -> None:
    """While reput holds the store, that is said, and neither a running broker nor what a killed job left."""
    log = LogBuilder(4096)
    log.message("orders")
    store = log.write(tmp_path)
    with own_store(find_store(store, reput.StoreConfig())) as owned:
        (store / paths.REPUT / own.staging_name(owned.epoch)).mkdir()
        info = store_info(store)
    assert (info.own.at_work, info.own.leftovers, info.broker_running) == (True, [], False)
    info = store_info(store)
    assert (info.own.at_work, info.own.leftovers) == (False, [own.staging_name(owned.epoch)])


def test_own_state_is_told(tmp_path: Path) -> None:
    """Frontier, epoch, a swap to finish and leftovers of killed jobs are reported; an unreadable frontier is damage."""
    log = LogBuilder(4096)
    log.message("orders")
    store = log.write(tmp_path)
    folder = store / paths.REPUT
    (folder / own.staging_name(7)).mkdir(parents=True)
    (folder / own.INTENT_NAME).write_bytes(own.encode_intent(own.Intent(7, ("index",))))
    page = own.WATERMARKS.struct.pack(own.WATERMARKS_MAGIC, 1, 2, 7, *[0] * (len(own.WATERMARKS.fields) - 4))
    (folder / own.WATERMARKS_NAME).write_bytes(page.ljust(own.WATERMARKS_FILE_SIZE, b"\0"))
    frontier = own.Frontier(
        "0" * 32, 7, queue_offset=100, queue_fingerprint=own.Fingerprint(0, 100, 1, 2), index_offset=90
    )
    (folder / own.FRONTIER_NAME).write_bytes(own.encode_frontier(frontier))
    info = store_info(store)
    assert (info.own.epoch, info.own.pending_swap, info.own.leftovers) == (7, True, ["staging-7"])
    assert info.own.frontier is not None
    assert info.own.frontier["queue_offset"] == 100
    (folder / own.FRONTIER_NAME).write_bytes(b"{")
    assert any(own.FRONTIER_NAME in text for text in store_info(store).damage)


def test_a_live_broker_is_seen_and_left_alone(tmp_path: Path) -> None:
    """A process that holds RocketMQ's lock is reported; the lock stays with it."""
    log = LogBuilder(4096)
    log.message("orders")
    store = log.write(tmp_path)
    lock = store / paths.LOCK
    lock.write_bytes(b"lock")
    assert store_info(store).broker_running is False
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 0); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert store_info(store).broker_running is True
        with lock.open("r+b") as other, pytest.raises(OSError):
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        holder.communicate(b"\n")


@pytest.mark.parametrize("indexes", [(), (paths.INDEX,), (paths.CONSUME_QUEUE, paths.INDEX)])
@pytest.mark.parametrize("kind", ["missing", "file", "link"])
def test_a_store_without_its_log_was_said_to_be_none(kind: str, indexes: tuple[str, ...], tmp_path: Path) -> None:
    """The error names what is in the place of the log; beside indexes it asks where the log is."""
    for name in indexes:
        (tmp_path / name).mkdir()
    log = tmp_path / paths.COMMIT_LOG
    if kind == "file":
        log.touch()
    elif kind == "link":
        log.symlink_to("/nowhere")
    what = {"missing": "no such folder", "file": "not a folder", "link": "a link to /nowhere, which does not exist"}
    with pytest.raises(NotAStoreError) as refused:
        store_info(tmp_path)
    if indexes:
        there = " and ".join(f"{name}/" for name in indexes)
        text = f"{log}: {what[kind]}, though {tmp_path} has {there}. Is its disk mounted, "
    else:
        text = f"{log}: {what[kind]}, so {tmp_path} is no RocketMQ store"
    assert str(refused.value).startswith(text)
    assert ("--set storePathCommitLog=FOLDER" in str(refused.value)) == bool(indexes)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """A path without a log is refused with the path to give instead; a link to nothing is called one."""
    (tmp_path / paths.COMMIT_LOG).mkdir()
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "nothing", tmp_path / paths.COMMIT_LOG, tmp_path / "file"):
        with pytest.raises(NotAStoreError, match=r"storePathRootDir|give the one above"):
            store_info(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAStoreError, match=r"is no RocketMQ store\. Give a store's root \(storePathRootDir"):
        store_info(tmp_path / "empty")
    (tmp_path / "empty" / "one" / paths.COMMIT_LOG).mkdir(parents=True)
    with pytest.raises(NotAStoreError, match=r"is no RocketMQ store\. There is a store in .*empty/one"):
        store_info(tmp_path / "empty")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(NotAStoreError, match=r"link: a link to .*gone, which does not exist\. Give"):
        store_info(tmp_path / "link")
    with pytest.raises(NotAStoreError, match="none of these folders is there"):
        store_info(tmp_path, reput.StoreConfig(store_path_commit_log="/a,/b"))


@pytest.mark.parametrize("entries", [0, 1, 203, 204, 205, 299, 300, 5000, 299_999, 300_000])
@pytest.mark.parametrize("sparse", [True, False])
def test_ends_are_found_by_halves(entries: int, sparse: bool, tmp_path: Path) -> None:
    """A queue's end is found at any place in its file, with holes after it or with written zeros."""
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    data = b"".join(encode_entry(Entry(number * 100, 100, number)) for number in range(entries))
    with (folder / paths.offset_name(0)).open("wb") as file:
        file.write(data if sparse else data.ljust(6_000_000, b"\0"))
        file.truncate(6_000_000)
    (folder / paths.offset_name(6_000_000)).write_bytes(bytes(6_000_000) if not sparse else b"")
    (queue,) = list_queues(tmp_path)
    span = queue_span(queue)
    assert (span.min_offset, span.max_offset) == (0, entries)
    assert span.last == (Entry((entries - 1) * 100, 100, entries - 1) if entries else None)
    kept = queue_span(queue, entries * 50)
    assert kept.min_offset == -(-entries // 2)


@pytest.mark.parametrize(("sizes", "wanted"), [((5991,), "has whole entries"), ((6000, 5980), "has 6000, in entries")])
def test_odd_queue_files_are_told_with_what_is_odd(sizes: tuple[int, ...], wanted: str, tmp_path: Path) -> None:
    """A file of another length than the first, and one that no whole entries fill, are damage that says which."""
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    for number, size in enumerate(sizes):
        (folder / paths.offset_name(6000 * number)).write_bytes(bytes(size))
    (queue,) = FileKind(tmp_path, 6000).queues()
    (said,) = queue.oddities().damage
    assert f"{sizes[-1]} bytes from byte {6000 * (len(sizes) - 1)} of the queue, where a queue file {wanted}" in said


@pytest.mark.golden
@pytest.mark.parametrize("length", [3001, 3000, 0])
@pytest.mark.parametrize("queue", ["orders/0", "clicks/0"], ids=["of several files", "of one file"])
def test_a_cut_queue_file_alone_was_not_named(queue: str, length: int, tmp_path: Path) -> None:
    """The first file of a queue that is cut is the damage, not the intact files after it; other queues show a length.

    An empty last file is no damage.
    """
    store = golden.unpack("basic", tmp_path)
    path = store / paths.CONSUME_QUEUE / queue / paths.offset_name(0)
    assert path.stat().st_size == golden.QUEUE_FILE_SIZE
    is_alone = len(list(path.parent.iterdir())) == 1
    os.truncate(path, length)
    info = store_info(store)
    assert [text.split(":")[0] for text in info.damage] == ([str(path)] if length or not is_alone else [])


def test_a_cut_file_of_batches_alone_is_named(tmp_path: Path) -> None:
    """The first file of a queue of batches that is cut is the damage, not the intact ones after it."""
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    for start, size in ((0, 460), (920, 920), (1840, 920)):
        (folder / paths.offset_name(start)).write_bytes(bytes(size))
    (queue,) = BatchKind(tmp_path).queues()
    (said,) = queue.oddities().damage
    assert f"{folder / paths.offset_name(0)}: 460 bytes from byte 0 of the queue, where a file has 920" in said


@pytest.mark.golden
@pytest.mark.parametrize("number", [0, 1])
def test_a_cut_index_file_was_not_named(number: int, tmp_path: Path) -> None:
    """An IndexFile that its sizes do not fill is damage with a whole header, too; intact ones are not named."""
    store = golden.unpack("basic", tmp_path)
    cut = sorted((store / paths.INDEX).iterdir())[number]
    os.truncate(cut, cut.stat().st_size // 2)
    (said,) = store_info(store).damage
    assert said.startswith(f"{cut}: {cut.stat().st_size} bytes, and {golden.INDEX_SLOTS} slots")


def test_pre_blanks_are_passed_over(tmp_path: Path) -> None:
    """Entries that only fill the place count for the end and not for the begin, nor as the last that names a record."""
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    data = PRE_BLANK * 400 + encode_entry(Entry(77, 100, 1))
    (folder / paths.offset_name(6000)).write_bytes(data.ljust(20_000, b"\0"))
    (queue,) = list_queues(tmp_path)
    span = queue_span(queue)
    assert (span.min_offset, span.max_offset, span.last) == (700, 701, Entry(77, 100, 1))
    assert [number for number, entry in read_entries(queue, 300, 701) if not entry.is_pre_blank] == [700]
    data += PRE_BLANK * 30
    (folder / paths.offset_name(6000)).write_bytes(data.ljust(20_000, b"\0"))
    assert queue_span(queue)[1:] == (731, Entry(77, 100, 1), range(300, 731))


def test_ten_thousand_queues_cost_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reads that a queue costs do not grow with it: no more than a dozen of at most a page."""
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / paths.offset_name(0)).write_bytes(encode_entry(Entry(0, 100, 1)) * 200_000 + bytes(2_000_000))
    (queue,) = list_queues(tmp_path)
    from reput.files import fs

    reads: list[int] = []
    real = fs.read_bytes

    def counted(path: Path, limit: int, offset: int = 0) -> bytes | None:
        reads.append(limit)
        return real(path, limit, offset)

    monkeypatch.setattr(fs, "read_bytes", counted)
    assert queue_span(queue).max_offset == 200_000
    assert len(reads) <= 18
    assert max(reads) <= 4096
