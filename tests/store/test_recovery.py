"""Opening what a crash has left, and what damage has: the one is cut, the other never."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import reput
from reput.errors import DamagedLogError, NotAStoreError
from reput.formats import paths
from reput.formats.checkpoint import CHECKPOINT_FILE_SIZE, Checkpoint, encode_checkpoint
from reput.formats.index.index_file import decode_header, encode_header
from reput.formats.log.record import MIN_RECORD_SIZE
from reput.formats.own import files as own
from reput.store.disk.checkpoint import read_checkpoint
from support import golden, inner, stores
from support.checked import assert_sound
from support.opened import CONFIG, bodies, put
from support.records import LogBuilder

LATE = (paths.CONSUME_QUEUE, paths.BATCH_CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT)


def killed(tmp_path: Path, *, flushed: int, put_in_all: int = 20) -> tuple[Path, list[int]]:
    """Make a store that is killed after some puts, the first `flushed` of them durable; return their places."""
    config = replace(CONFIG, flush_interval_commit_log=1 << 30)
    with reput.MessageStore.open(tmp_path / "alive", config, create=True) as store:
        placed = put(store, flushed, keys="k")
        store.flush()
        placed += put(store, put_in_all - flushed, keys="k")
        return stores.copy(tmp_path / "alive", tmp_path / "s"), placed


def test_torn_tail_is_cut(tmp_path: Path) -> None:
    """A half-written last record is cut, loudly and zeroed; the store continues after the last good one."""
    path, placed = killed(tmp_path, flushed=10)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    data[placed[-1] + 60 : placed[-1] + 200] = bytes(140)
    log.write_bytes(data)
    store = reput.MessageStore.open(path, CONFIG, create=True)
    assert any(f"cut the log at {placed[-1]}" in note for note in store.notes)
    assert not any(log.read_bytes()[placed[-1] :])
    assert len(bodies(store)) == 19
    assert put(store, 1) == [placed[-1]]
    store.close()
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("lost", ["nothing", "a page"])
@pytest.mark.parametrize("kind", inner.KINDS)
def test_queues_ahead_of_the_log_are_cut(kind: str, lost: str, tmp_path: Path) -> None:
    """Entries of records that a loss of power took are cut, loudly, if only zeros lie after the log, and over holes."""
    path, config = tmp_path / "s", inner.KINDS[kind]
    model, rng = inner.Model(config), random.Random(kind)
    with inner.new_store(tmp_path / "alive", config) as store:
        for _ in range(10):
            model.put(store, rng)
        store.reput(spark=False)
        stores.copy(tmp_path / "alive", path)
        for _ in range(90):
            model.put(store, rng)
        store.reput(spark=False)
        late = [tmp_path / "alive" / name for name in LATE if (tmp_path / "alive" / name).exists()]
        for folder in late:
            stores.copy(folder, path / folder.name, dirs_exist_ok=True)
    if lost == "a page":
        for queue in (queue for name in LATE for queue in (path / name).glob("*/*")):
            for hole in sorted(file for file in queue.iterdir() if file.is_file())[1:2]:
                hole.write_bytes(bytes(hole.stat().st_size))
    with reput.MessageStore.open(path, config, create=True) as store:
        assert any("queues with entries of records above" in note for note in store.notes), store.notes
        put(store, 1, "orders")
        store.reput(spark=False)
    assert_sound(path, config)


def test_a_closed_store_is_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a store that was closed, with all indexed, asks no queue whether it is to be cut."""
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        put(store, 20)
    monkeypatch.setattr("reput.queue.file_kind.FileKind.cut", None)
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        assert len(bodies(store)) == 20


def test_messages_in_the_place_of_a_blank_were_lost(tmp_path: Path) -> None:
    """A broker goes on before a blank that ends the log: its messages are there, and a later one leaves no gap."""

    def log(count: int) -> LogBuilder:
        built = LogBuilder(4096)
        for number in range(count):
            built.message("t", body=b"%d" % number, keys="k")
        return built

    before, after = log(8), log(11)
    before.roll()
    path = stores.with_log(tmp_path, before)
    stores.rebuild(path)
    after.write(path)
    config = replace(stores.SMALL, mapped_file_size_commit_log=4096)
    with reput.MessageStore.open(path, config) as store:
        assert bodies(store) == [b"%d" % number for number in range(11)]
        assert store.put_message(reput.Message("t", bytes(3500))).physical_offset == 4096
    assert_sound(path, config)
    with reput.MessageStore.open(path, config, read_only=True) as store:
        assert len(store.query_message("t", "k")) == 11


@pytest.mark.parametrize("rest", ["good", "bad"])
@pytest.mark.parametrize(("first_bad", "refused"), [(9, True), (10, False), (15, False)])
def test_what_was_flushed_is_never_cut(first_bad: int, refused: bool, rest: str, tmp_path: Path) -> None:
    """A broken header is cut after what was flushed, and never before its end, whatever comes after it."""
    path, placed = killed(tmp_path, flushed=10)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    for place in placed[first_bad:] if rest == "bad" else placed[first_bad : first_bad + 1]:
        data[place : place + 8] = b"\xff" * 8
    log.write_bytes(data)
    if refused:
        before = stores.digest(path, inodes=True)
        with pytest.raises(
            DamagedLogError, match=f"log offset {placed[first_bad]}.*watermarks.*nothing is cut.*--salvage"
        ):
            reput.MessageStore.open(path, CONFIG, create=True)
        assert stores.digest(path, inodes=True) == before
    else:
        with reput.MessageStore.open(path, CONFIG, create=True) as store:
            assert len(bodies(store)) == first_bad


@pytest.mark.parametrize("witness", ["frontier", "watermarks", "checkpoint offset", "checkpoint time"])
def test_each_witness_is_enough(witness: str, clock: list[int], tmp_path: Path) -> None:
    """The frontier, the watermarks, the checkpoint's offset and its time: each alone keeps a bad record from a cut."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        placed = []
        for _ in range(5):
            clock[0] += 1000
            placed += put(store, 1)
    checkpoint = read_checkpoint(store.layout)
    if witness != "frontier":
        store.layout.own(own.FRONTIER_NAME).unlink()
    if witness != "watermarks":
        store.layout.own(own.WATERMARKS_NAME).unlink()
    kept = {
        "checkpoint offset": ("confirm_phy_offset", "logics_physical_offset"),
        "checkpoint time": ("physic_msg_timestamp",),
    }
    fields = {name: getattr(checkpoint, name) for name in kept.get(witness, ())}
    data = encode_checkpoint(Checkpoint(**fields)).ljust(CHECKPOINT_FILE_SIZE, b"\0")
    store.layout.checkpoint.write_bytes(data)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    damaged = bytearray(log.read_bytes())
    damaged[placed[-1] : placed[-1] + 8] = b"\xff" * 8
    log.write_bytes(damaged)
    with pytest.raises(
        DamagedLogError, match=f"log offset {placed[-1]}.*{witness.split(maxsplit=1)[0]}.*nothing is cut"
    ):
        reput.MessageStore.open(path, CONFIG, create=True)


def test_a_clock_that_went_back_in_front_of_a_crash(clock: list[int], tmp_path: Path) -> None:
    """A torn record of a broker whose clock was set back is older than the checkpoint, and is cut all the same."""
    log = LogBuilder()
    times = [10_000, 20_000, 30_000, 12_000, 13_000]
    placed = [log.message(store_timestamp=time) for time in times]
    path = stores.with_log(tmp_path, log)
    data = encode_checkpoint(Checkpoint(physic_msg_timestamp=30_000)).ljust(CHECKPOINT_FILE_SIZE, b"\0")
    (path / paths.CHECKPOINT).write_bytes(data)
    (path / paths.ABORT).touch()
    file = path / paths.COMMIT_LOG / paths.offset_name(0)
    torn = bytearray(file.read_bytes())
    torn[placed[-1].offset : placed[-1].offset + 8] = b"\xff" * 8
    file.write_bytes(torn)
    with reput.MessageStore.open(path, create=True) as store:
        assert any(f"cut the log at {placed[-1].offset}" in note for note in store.notes)


def test_a_record_of_the_checkpoints_time_may_be_lost(clock: list[int], tmp_path: Path) -> None:
    """A record that is put after a catch-up, in its last millisecond, is not durable: a hole in it is cut."""
    config = replace(CONFIG, flush_interval_commit_log=1 << 30)
    assert clock
    with reput.MessageStore.open(tmp_path / "alive", config, create=True) as store:
        put(store, 5)
        store.reput(spark=False)
        placed = put(store, 5)
        path = stores.copy(tmp_path / "alive", tmp_path / "s")
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    data[placed[1] : placed[2]] = bytes(placed[2] - placed[1])
    log.write_bytes(data)
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert any(f"cut the log at {placed[1]}" in note for note in store.notes)
        assert len(bodies(store)) == 6
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("salvage", [False, True])
def test_only_salvage_gives_up_what_was_durable(salvage: bool, tmp_path: Path) -> None:
    """A rebuild of a log whose durable end is bad warns and changes nothing in that; salvage gives the end up."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        placed = put(store, 20, keys="k")
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    data[placed[-1] : placed[-1] + 8] = b"\xff" * 8
    log.write_bytes(data)
    checked = reput.check(path, spark=False, config=CONFIG)
    assert "log-record" in {finding.rule for finding in checked.findings if finding.severity == "damage"}
    report = reput.rebuild(path, spark=False, config=CONFIG, salvage=salvage)
    assert report.torn_tail_offset == placed[-1]
    (warning,) = (text for text in report.warnings if f"log offset {placed[-1]}" in text)
    if not salvage:
        assert "a crash does not leave such an end" in warning
        with pytest.raises(DamagedLogError, match=f"log offset {placed[-1]}.*nothing is cut"):
            reput.MessageStore.open(path, CONFIG, create=True)
        return
    assert "given up" in warning
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert len(bodies(store)) == 19
        # The number of the message that was given up is not given again.
        assert store.put_message(reput.Message("t", b"")).queue_offset == 20
    assert_sound(path, CONFIG)


def test_a_damaged_store_can_be_read(tmp_path: Path) -> None:
    """Opened read-only, a store gives the records before the damage, and says where that is."""
    path, placed = killed(tmp_path, flushed=20)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    data[placed[12]] ^= 1
    log.write_bytes(data)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        assert len(bodies(reader)) == 12
        assert any(f"log offset {placed[12]}" in text and "nothing is cut" in text for text in reader.damage)


def test_a_log_that_lost_its_end_is_told(tmp_path: Path) -> None:
    """A log that lost its end has zeros in place of what was durable: nothing is cut, the notes say what is missing."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        placed = put(store, 20)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    data[placed[15] :] = bytes(len(data) - placed[15])
    log.write_bytes(data)
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert any(f"the log ends at {placed[15]}" in note for note in store.notes)
        assert len(bodies(store)) == 15


def test_a_log_that_another_writer_changed_below_the_frontier(tmp_path: Path) -> None:
    """A broker cuts the log and writes other records of the same size: what it wrote is read, not what was indexed."""
    path, cut = tmp_path / "s", tmp_path / "cut"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 10)
    stores.copy(path, cut)
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 10)
    queues = stores.copy(cut / paths.CONSUME_QUEUE, tmp_path / "queues")
    with reput.MessageStore.open(cut, CONFIG) as store:
        put(store, 10, queue_id=1)
        store.close(reput=False)
    for name, changed in ((paths.COMMIT_LOG, cut / paths.COMMIT_LOG), (paths.CONSUME_QUEUE, queues)):
        shutil.rmtree(path / name)
        stores.copy(changed, path / name)
    with reput.MessageStore.open(path, CONFIG) as store:
        assert [len(bodies(store, queue_id=queue_id)) for queue_id in (0, 1)] == [10, 10]
        assert put(store, 1)
    assert_sound(path, CONFIG)


def test_damage_to_what_was_durable_is_never_cut(tmp_path: Path) -> None:
    """A bad record that the checkpoint calls durable keeps the store from being written, and nothing changes."""
    path = tmp_path / "s"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    placed = put(store, 20)
    store.close(reput=False)
    data = encode_checkpoint(Checkpoint(physic_msg_timestamp=1 << 50)).ljust(CHECKPOINT_FILE_SIZE, b"\0")
    (path / paths.CHECKPOINT).write_bytes(data)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    damaged = bytearray(log.read_bytes())
    damaged[placed[10] + 4] ^= 1
    log.write_bytes(damaged)
    before = stores.digest(path, inodes=True)
    with pytest.raises(DamagedLogError, match=f"log offset {placed[10]}.*nothing is cut"):
        reput.MessageStore.open(path, CONFIG, create=True)
    assert stores.digest(path, inodes=True) == before


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("first_bad", [25, 28, 29])
def test_the_last_records_were_durable_too(clock: list[int], first_bad: int, indexed: bool, tmp_path: Path) -> None:
    """Damaged records at the end of a log that was closed were durable all of them: none is cut."""
    path = tmp_path / "s"
    store = reput.MessageStore.open(path, CONFIG, create=True)
    placed = []
    for _ in range(30):
        clock[0] += 1000
        placed += put(store, 1)
    store.close(reput=indexed)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    for place in placed[first_bad:]:
        data[place + MIN_RECORD_SIZE - 3] ^= 1  # the body
    log.write_bytes(data)
    before = stores.digest(path, inodes=True)
    with pytest.raises(DamagedLogError, match=f"log offset {placed[first_bad]}.*nothing is cut"):
        reput.MessageStore.open(path, CONFIG, create=True)
    assert stores.digest(path, inodes=True) == before


def test_a_clock_that_went_back_makes_no_lost_record_durable(tmp_path: Path) -> None:
    """RocketMQ's clock went back after the checkpoint: a torn record before an older one is cut, as it is no damage."""
    log = LogBuilder(1 << 16, tick_ms=10)
    for _ in range(10):
        log.message("t")
    durable_ms = log.store_timestamp - 10
    log.store_timestamp -= 1000
    torn = log.message("t").offset
    log.message("t")
    path = stores.with_log(tmp_path, log, preallocated=True)
    data = encode_checkpoint(Checkpoint(physic_msg_timestamp=durable_ms)).ljust(CHECKPOINT_FILE_SIZE, b"\0")
    (path / paths.CHECKPOINT).write_bytes(data)
    (path / paths.ABORT).write_bytes(b"1")
    with (path / paths.COMMIT_LOG / paths.offset_name(0)).open("r+b") as file:
        file.seek(torn)
        file.write(bytes(40))
    with reput.MessageStore.open(path, CONFIG) as store:
        assert len(bodies(store)) == 10
        assert put(store, 1) == [torn]
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("checked", [True, False])
def test_crcs_may_be_left_alone(checked: bool, tmp_path: Path) -> None:
    """With checkCRCOnRecover=false a body that has changed is no reason to stop, as in RocketMQ."""
    path, placed = killed(tmp_path, flushed=10)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    data[placed[15] + MIN_RECORD_SIZE - 3] ^= 1
    log.write_bytes(data)
    with reput.MessageStore.open(path, replace(CONFIG, check_crc_on_recover=checked), create=True) as store:
        assert len(bodies(store)) == (15 if checked else 20)


def test_topics_that_need_a_v2_record(tmp_path: Path) -> None:
    """With autoMessageVersionOnTopicLen=false a broker's configuration keeps long topics out."""
    config = replace(CONFIG, auto_message_version_on_topic_len=False)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        refused = store.put_message(reput.Message("t" * 128, b""))
        assert "autoMessageVersionOnTopicLen" in refused.reason
        put(store, 1, topic="t" * 127)


def test_long_topics_of_a_store_that_makes_no_more_of_them(tmp_path: Path) -> None:
    """A store that has such a topic opens without autoMessageVersionOnTopicLen; its messages are read, none is put."""
    path, topic = tmp_path / "s", "t" * 128
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 1, topic=topic)
    with reput.MessageStore.open(path, replace(CONFIG, auto_message_version_on_topic_len=False), create=True) as store:
        assert len(store.get_message(topic, 0, 0)) == 1
        assert "autoMessageVersionOnTopicLen" in store.put_message(reput.Message(topic, b"")).reason
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert store.put_message(reput.Message(topic, b"")).queue_offset == 1


@pytest.mark.parametrize("lost", [[paths.CONSUME_QUEUE], [paths.INDEX], [paths.CONSUME_QUEUE, paths.INDEX]])
@pytest.mark.parametrize("way", ["put", "follow"])
def test_lost_indexes_beside_a_frontier(lost: list[str], way: str, tmp_path: Path) -> None:
    """Indexes that are gone from the disk are built from the log's begin again, and queues keep their numbers."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        placed = put(store, 20, keys="k")
    for name in lost:
        shutil.rmtree(path / name)
    if way == "follow":
        with reput.follow(path, config=CONFIG, spark=False, until_caught_up=True) as follower:
            follower.wait(60)
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert store.put_message(reput.Message("t", b"20", keys="k"), 0).queue_offset == 20
        assert [message.physical_offset for message in store.query_message("t", "k")][:-1] == placed
        assert bodies(store) == [str(number).encode() for number in range(21)]
    assert_sound(path, CONFIG)


def test_an_empty_log_beside_queues_is_refused(tmp_path: Path) -> None:
    """A log without files beside queues with entries (its disk is not mounted) is not written: nothing is cut."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 20)
    shutil.move(path / paths.COMMIT_LOG, tmp_path / "elsewhere")
    (path / paths.COMMIT_LOG).mkdir()
    before = stores.digest(path / paths.CONSUME_QUEUE)
    with pytest.raises(NotAStoreError, match="mounted"):
        reput.MessageStore.open(path, CONFIG, create=True)
    assert stores.digest(path / paths.CONSUME_QUEUE) == before
    (path / paths.COMMIT_LOG).rmdir()
    shutil.move(tmp_path / "elsewhere", path / paths.COMMIT_LOG)
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert len(bodies(store)) == 20


@pytest.mark.golden
def test_index_files_that_a_crash_left_are_named(tmp_path: Path) -> None:
    """IndexFiles of a broker that crashed are removed and built again as in RocketMQ, and the notes name each one."""
    path = golden.unpack("crash", tmp_path)
    before = {file.name for file in (path / paths.INDEX).iterdir()}
    with reput.MessageStore.open(path, create=True) as store:
        store.reput(spark=False)
        gone = before - {file.name for file in (path / paths.INDEX).iterdir()}
        reported = [note for note in store.notes if "removed IndexFiles that a crash left" in note]
        assert gone
        assert all(name in reported[0] for name in gone)
    assert_sound(path)


@pytest.mark.parametrize("lost", [[0], [0, 1], [0, 1, 2]])
def test_queue_files_that_lost_their_length_get_it_again(tmp_path: Path, lost: list[int]) -> None:
    """A power cut takes the log and the length of queue files: RocketMQ would not load a queue with an empty file."""
    path, _ = killed(tmp_path, flushed=0, put_in_all=25)
    with reput.MessageStore.open(path, CONFIG) as store:
        store.reput(spark=False)
        put(store, 1, topic="other")
        store.close(reput=False)
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    log.write_bytes(bytes(log.stat().st_size))
    shutil.rmtree(path / paths.REPUT)
    (path / paths.CHECKPOINT).unlink()
    files = sorted((path / paths.CONSUME_QUEUE / "t" / "0").iterdir())
    assert len(files) == 3
    for number in lost:
        files[number].write_bytes(b"")
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1, topic="other")
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("has_fewer", [False, True])
def test_an_index_file_that_rocketmq_has_removed_is_built_again(tmp_path: Path, has_fewer: bool) -> None:
    """After a crash RocketMQ removes IndexFiles, and a power cut takes the new ones: all keys are found again."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 10, keys="k")
    files = sorted((path / paths.INDEX).iterdir())
    assert len(files) == 2
    if has_fewer:
        header = decode_header(files[1].read_bytes())
        with files[1].open("r+b") as file:
            file.write(encode_header(header._replace(index_count=2)))
    else:
        files[1].unlink()
    (path / paths.ABORT).write_bytes(b"1")
    with reput.MessageStore.open(path, CONFIG) as store:
        assert len(store.query_message("t", "k", 100)) == 10
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("second_file", [False, True])
def test_bytes_that_begin_no_log_file_are_not_cut(tmp_path: Path, second_file: bool) -> None:
    """A file of something else was taken for a torn record, and zeroed when the store was opened."""
    log = LogBuilder(1 << 12)
    while second_file and log.end <= 1 << 12:
        log.message("t", body=bytes(500))
    path = stores.with_log(tmp_path, log)
    name = paths.offset_name(1 << 12 if second_file else 0)
    (path / paths.COMMIT_LOG / name).write_bytes((b"no log" * 700)[: 1 << 12])
    before = stores.digest(path, inodes=True)
    with pytest.raises(DamagedLogError, match=f"{name} at 0 .*no log file begins like this"):
        reput.MessageStore.open(path, create=True)
    assert stores.digest(path, inodes=True) == before
    assert any(finding.rule == "log-record" for finding in reput.check(path, spark=False).findings)


@pytest.mark.parametrize("second_file", [False, True])
@pytest.mark.parametrize("kept", [3, 4, 5, 6, 7])
@pytest.mark.parametrize("has_more", [False, True])
def test_a_first_record_that_is_torn_within_its_magic_number_is_cut(
    tmp_path: Path, second_file: bool, kept: int, has_more: bool
) -> None:
    """A power cut left a file's first record's size and a part of its magic number, and the store refused to open.

    `has_more`: the disk has kept the sectors after it, as a night of power cuts found.
    """
    log = LogBuilder(1 << 12)
    while second_file and log.end <= 1 << 12:
        log.message("t", body=bytes(500))
    begin = 1 << 12 if second_file else 0
    path = stores.with_log(tmp_path, log)
    torn = LogBuilder(1 << 12)
    while torn.end < 1 << 11:
        torn.message("t", body=b"one" * 100)
    more = bytes(torn)[512:] if has_more else b""
    file = bytes(torn)[:kept].ljust(512, b"\0") + more
    (path / paths.COMMIT_LOG / paths.offset_name(begin)).write_bytes(file.ljust(1 << 12, b"\0")[: 1 << 12])
    with reput.MessageStore.open(path, create=True) as store:
        assert store.view.confirmed() == begin
        put(store, 3)
    assert_sound(path)


def test_index_files_out_of_order_are_built_again(tmp_path: Path) -> None:
    """RocketMQ indexes all again into a file whose header a power cut has taken: its items do not follow the others."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 10, keys="k")
    first, last = sorted((path / paths.INDEX).iterdir())
    last.unlink()
    shutil.copy(first, last)
    (path / paths.ABORT).write_bytes(b"1")
    with reput.MessageStore.open(path, CONFIG) as store:
        store.reput(spark=False)
    assert_sound(path, CONFIG)


def test_an_empty_file_of_the_log_alone_is_removed(tmp_path: Path) -> None:
    """A power cut keeps the name of the log's second file, and neither its length nor the first: the log is empty."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        file_size = store._writer().appender.settings.mapped_file_size_commit_log
    (path / paths.COMMIT_LOG / paths.offset_name(file_size)).touch()
    (path / paths.ABORT).write_bytes(b"1")
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
    assert [file.name for file in (path / paths.COMMIT_LOG).iterdir()] == [paths.offset_name(0)]
    assert_sound(path, CONFIG)
