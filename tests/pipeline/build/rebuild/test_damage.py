"""Damaged logs: a torn end is ignored, damage before good records stops everything, salvage skips it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedLogError, DamagedStoreError, NotAStoreError, ReputError
from reput.formats import paths
from support import golden, stores
from support.records import BODY_AT_V4, LogBuilder, message_properties

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.records import Placed

SPLITS_MB = (128, 0.001, 0.0003)
any_split = pytest.mark.parametrize("split_mb", SPLITS_MB)


def some_log(messages: int = 40, file_size: int = 2048) -> LogBuilder:
    """A log of one queue, with keys and tags: three files of it with 40 messages."""
    log = LogBuilder(file_size)
    for number in range(messages):
        log.message(keys=f"k{number}", tags=f"t{number % 3}", body=b"body %d" % number)
    return log


def change(store: Path, log: LogBuilder, offset: int, data: bytes) -> None:
    """Write bytes at a log offset."""
    start = offset // log.file_size * log.file_size
    path = store / paths.COMMIT_LOG / paths.offset_name(start)
    whole = bytearray(path.read_bytes())
    whole[offset - start : offset - start + len(data)] = data
    path.write_bytes(whole)


def break_crc(store: Path, log: LogBuilder, placed: Placed) -> None:
    """Flip a bit of a message's body."""
    change(store, log, placed.offset + BODY_AT_V4, bytes([placed.data[BODY_AT_V4] ^ 1]))


# --- torn ends -----------------------------------------------------------------------------------

CUTS: dict[str, Callable[[Placed], int]] = {
    "in the magic": lambda _: 6,
    "in the head": lambda _: 40,
    "in the hosts": lambda _: 60,
    "after the body's length": lambda _: BODY_AT_V4,
    "in the body": lambda _: BODY_AT_V4 + 4,
    "in the topic": lambda placed: BODY_AT_V4 + len(placed.record.body) + 3,
    "before the properties": lambda placed: placed.size - len(placed.record.properties) - 1,
    "in the middle": lambda placed: placed.size // 2,
}


@any_split
@pytest.mark.parametrize("cut", CUTS)
def test_torn_end_is_ignored(cut: str, split_mb: float, tmp_path: Path) -> None:
    """A last record of which only the first bytes were written is ignored, reported, and costs nothing else."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    torn = log.placed[-1]
    at = CUTS[cut](torn)
    change(store, log, torn.offset + at, bytes(torn.size - at))
    report = stores.rebuild(store, split_mb=split_mb)
    assert stores.positions(store) == [placed.offset for placed in log.placed[:-1]]
    assert report.messages == 39
    assert report.log_max_offset == report.torn_tail_offset == torn.offset
    assert report.torn_tail_bytes == len(torn.data[:at].rstrip(b"\0"))
    assert any(f"log offset {torn.offset}" in note and "torn" in note for note in report.notes)
    assert not report.gaps
    assert not report.warnings


def test_record_torn_in_its_properties_counts_as_the_peer_counts_it(tmp_path: Path) -> None:
    """The body's CRC does not cover the properties: RocketMQ takes such a record, its keys lost, and so do we."""
    log = some_log(5)
    store = stores.with_log(tmp_path, log)
    torn = log.placed[-1]
    change(store, log, torn.offset + torn.size - 5, bytes(5))
    report = stores.rebuild(store)
    assert report.messages == 5
    assert report.torn_tail_offset is None


def test_property_crc_tells_a_record_torn_in_its_properties(tmp_path: Path) -> None:
    """With forceVerifyPropCRC the CRC covers the whole record, so that one is torn."""
    log = LogBuilder(4096, append_crc=True)
    for number in range(5):
        log.message(keys=f"k{number}")
    store = stores.with_log(tmp_path, log)
    torn = log.placed[-1]
    change(store, log, torn.offset + torn.size - 25, bytes(25))
    report = stores.rebuild(store, replace(stores.SMALL, force_verify_prop_crc=True))
    assert (report.messages, report.torn_tail_offset) == (4, torn.offset)


@pytest.mark.golden
def test_golden_torn(tmp_path: Path) -> None:
    """Golden `torn`: the last record's second half is zero; all others are indexed as RocketMQ had."""
    store = golden.damaged("torn", tmp_path)
    last = golden.records(golden.shared("crash"))[-1]
    report = stores.rebuild(store, stores.GOLDEN)
    assert report.torn_tail_offset == last.offset
    assert 0 < report.torn_tail_bytes <= last.size // 2
    wanted = {answer["log"][1] for answer in golden.answers("torn") if "log" in answer}
    assert wanted == {report.log_max_offset}
    for answer in golden.answers("torn"):
        if "queue" in answer:
            first, found = stores.entries(store, *answer["queue"])
            assert (first, len(found)) == (answer["min"], answer["max"])
            # RocketMQ's iterator ends with the queue's first file.
            asked = found[: len(answer["entries"])]
            assert [[n, *entry] for n, entry in enumerate(asked)] == [row[:4] for row in answer["entries"]]


# --- damage in the middle ------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("split_mb", [128, 0.1, 0.02])
def test_golden_flip(split_mb: float, tmp_path: Path) -> None:
    """One flipped byte of a body, near the end as in golden `flip`, stops the rebuild, which says where it is."""
    store = golden.unpack("crash", tmp_path)
    victim = golden.with_body(golden.records(store)[-50:])
    golden.flip(store, victim.body[0])
    offset, size = victim.offset, victim.size
    path, position = golden.place(store, offset)
    before = stores.digest(store)
    with pytest.raises(DamagedLogError) as caught:
        stores.rebuild(store, stores.GOLDEN, split_mb=split_mb)
    assert caught.value.exit_code == 1
    text = str(caught.value)
    for part in (path.name, f"at {position} ", f"log offset {offset}", f"{size} bytes suspect", "--salvage"):
        assert part in text, part
    assert stores.digest(store) == before
    assert stores.leftovers(store) == []

    report = stores.rebuild(store, stores.GOLDEN, split_mb=split_mb, salvage=True)
    assert report.messages == golden.facts("crash").messages - 1
    assert [(gap.begin, gap.end, gap.file) for gap in report.gaps] == [(offset, offset + size, path.name)]
    assert len(report.warnings) == 1
    assert str(offset) in report.warnings[0]


@any_split
@pytest.mark.parametrize("victim", [0, 11, 17, 38])
def test_bad_crc_in_the_middle(victim: int, split_mb: float, tmp_path: Path) -> None:
    """A body that its CRC does not match is damage if good records follow; without the check it is no damage."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    whole = stores.indexes(store)
    bad = log.placed[victim]
    break_crc(store, log, bad)
    with pytest.raises(DamagedLogError, match="CRC does not match"):
        stores.rebuild(store, split_mb=split_mb)
    assert stores.indexes(store) == whole

    report = stores.rebuild(store, split_mb=split_mb, salvage=True)
    assert [(gap.begin, gap.size) for gap in report.gaps] == [(bad.offset, bad.size)]
    assert report.log_bytes == log.end - bad.size
    wanted: list[int | None] = [placed.offset for placed in log.placed]
    if victim:
        wanted[victim] = None
        assert [(q.blanks, q.repeats, q.restarts) for q in report.out_of_order_queues] == [(1, 0, 0)]
        assert stores.positions(store) == wanted
    else:
        first, found = stores.entries(store)
        assert first == 0
        assert found[0].is_pre_blank
        assert [entry.physical_offset for entry in found[1:]] == wanted[1:]

    report = stores.rebuild(store, split_mb=split_mb, verify_crc=False)
    assert (report.messages, report.gaps) == (40, [])
    assert stores.indexes(store) == whole


@any_split
def test_bad_crc_of_the_last_record_is_a_torn_end(split_mb: float, tmp_path: Path) -> None:
    """A bad last record with nothing good after it is what a crash leaves."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    break_crc(store, log, log.placed[-1])
    report = stores.rebuild(store, split_mb=split_mb)
    assert (report.messages, report.torn_tail_bytes) == (39, len(log.placed[-1].data.rstrip(b"\0")))


@pytest.mark.parametrize("split", [200, 500, 700, 1000, 1400, 100_000])
def test_garbage_over_a_split_border(split: int, tmp_path: Path) -> None:
    """One stretch of garbage is one gap, wherever the borders of splits fall."""
    log = LogBuilder(1 << 14)
    before = [log.message(keys=f"a{n}") for n in range(4)]
    begin = log.garbage(b"\xda\xa3\x20\xa7 no record \0" * 60)
    end = log.end
    later = [log.message(keys=f"b{n}") for n in range(4)]
    store = stores.with_log(tmp_path, log)
    with pytest.raises(DamagedLogError, match=f"{end - begin} bytes suspect until the next record at {end}"):
        stores.rebuild(store, split_mb=split / (1 << 20))
    report = stores.rebuild(store, split_mb=split / (1 << 20), salvage=True)
    assert [(gap.begin, gap.end) for gap in report.gaps] == [(begin, end)]
    assert stores.positions(store) == [placed.offset for placed in (*before, *later)]


@pytest.mark.parametrize("split", [300, 1000, 2048, 100_000])
@pytest.mark.parametrize("into_next", [0, 500])
def test_garbage_over_a_file_border(into_next: int, split: int, tmp_path: Path) -> None:
    """Garbage at a file's end, also where it goes on in the next file, is one gap up to the next record."""
    log = LogBuilder(2048)
    before = [log.message(keys=f"a{n}") for n in range(4)]
    begin = log.garbage(b"x" * log.space_left)
    log.roll()
    if into_next:
        log.garbage(b"x" * into_next)
    end = log.end
    later = [log.message(keys=f"b{n}") for n in range(4)]
    store = stores.with_log(tmp_path, log)
    with pytest.raises(DamagedLogError, match=f"log offset {begin}.*the next record at {end}"):
        stores.rebuild(store, split_mb=split / (1 << 20))
    report = stores.rebuild(store, split_mb=split / (1 << 20), salvage=True)
    assert [(gap.begin, gap.end) for gap in report.gaps] == [(begin, end)]
    assert report.log_bytes == log.end - (end - begin)
    assert stores.positions(store) == [placed.offset for placed in (*before, *later)]


@any_split
def test_file_that_stops_without_a_blank_record(split_mb: float, tmp_path: Path) -> None:
    """Zeros up to a file's end, with records in the next file, are damage: an unwritten page, not an end."""
    log = LogBuilder(4096)
    for _ in range(3):
        log.message()
    begin = log.garbage(bytes(log.space_left))
    log.roll()
    log.message()
    store = stores.with_log(tmp_path, log)
    with pytest.raises(DamagedLogError, match=f"log offset {begin}.*nothing written, {4096 - begin} bytes"):
        stores.rebuild(store, split_mb=split_mb)
    assert stores.rebuild(store, split_mb=split_mb, salvage=True).messages == 4


def test_file_that_stops_with_a_hole(tmp_path: Path) -> None:
    """The same where the zeros are a hole that was never written."""
    size = 1 << 16
    log = LogBuilder(size)
    first = [log.message() for _ in range(3)]
    log.roll()
    second = log.message()
    store = stores.with_log(tmp_path, log)
    end = first[-1].offset + first[-1].size
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = path.read_bytes()[:end]
    path.unlink()
    with path.open("wb") as file:
        file.write(data)
        file.truncate(size)
    for split_mb in (128, 0.001):
        with pytest.raises(DamagedLogError, match=f"log offset {end}.*the next record at {size}"):
            stores.rebuild(store, split_mb=split_mb)
        report = stores.rebuild(store, split_mb=split_mb, salvage=True)
        assert stores.positions(store) == [*(placed.offset for placed in first), second.offset]
        assert [(gap.begin, gap.end) for gap in report.gaps] == [(end, size)]


# --- files ---------------------------------------------------------------------------------------


def test_zero_length_last_queue_file(tmp_path: Path) -> None:
    """A zero-length last queue file, which RocketMQ removes at load, shows no size and is gone afterwards."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    wanted = stores.indexes(store)
    empty = store / paths.CONSUME_QUEUE / "topic" / "0" / paths.offset_name(800)
    assert not empty.exists()
    empty.touch()
    stores.rebuild(store, config=None)
    assert stores.indexes(store) == wanted
    assert not empty.exists()


def test_empty_last_log_file(tmp_path: Path) -> None:
    """An empty last log file is passed over with a note, as RocketMQ removes it when it loads the log."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    (store / paths.COMMIT_LOG / paths.offset_name(6144)).touch()
    report = stores.rebuild(store)
    assert report.messages == 40
    assert any("empty last file" in note for note in report.notes)


@pytest.mark.parametrize("salvage", [False, True])
def test_linked_log_file(salvage: bool, tmp_path: Path) -> None:
    """A log file that lies on another disk and is linked has the size of what the link leads to, not the link's."""
    store = stores.with_log(tmp_path / "store", some_log())
    path = store / paths.COMMIT_LOG / paths.offset_name(2048)
    moved = path.rename(tmp_path / "moved")
    path.symlink_to(moved)
    report = stores.rebuild(store, salvage=salvage)
    assert (report.messages, report.gaps) == (40, [])
    moved.unlink()
    with pytest.raises(ReputError, match=path.name):
        stores.rebuild(store, salvage=salvage)


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("size", [0, 1000, 2047])
def test_short_log_file(victim: int, size: int, tmp_path: Path) -> None:
    """A log file shorter than the rest is an error that names it, since RocketMQ would not load such a log."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    names = sorted(path.name for path in (store / paths.COMMIT_LOG).iterdir())
    assert len(names) == 3
    path = store / paths.COMMIT_LOG / names[victim]
    path.write_bytes(path.read_bytes()[:size])
    before = stores.digest(store)
    if size == 0 and victim == 2:
        assert stores.rebuild(store).log_max_offset == 2 * 2048
        return
    with pytest.raises(DamagedStoreError, match=f"{path.name}: {size} bytes, .* have 2048.*--salvage") as caught:
        stores.rebuild(store)
    assert caught.value.exit_code == 1
    assert stores.digest(store) == before
    report = stores.rebuild(store, salvage=True, split_mb=0.001)
    kept = [p for p in log.placed if p.offset // 2048 != victim or p.offset % 2048 + p.size <= size]
    assert report.messages == len(kept)
    assert report.log_bytes <= log.end
    assert sum(gap.size for gap in report.gaps) + report.log_bytes == report.log_max_offset
    assert all(a.end <= b.begin for a, b in zip(report.gaps, report.gaps[1:], strict=False))


@pytest.mark.parametrize("victim", [1, 2])
def test_a_salvage_of_a_short_file_promised_that_the_store_can_be_opened(victim: int, tmp_path: Path) -> None:
    """Readers refuse a log with a short file after a salvage, too: the report says so, and that nothing is cut off."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    path = sorted((store / paths.COMMIT_LOG).iterdir())[victim]
    size = log.placed[-1].offset % 2048 + 50
    path.write_bytes(path.read_bytes()[:size])
    report = stores.rebuild(store, salvage=True)
    assert (report.torn_tail_bytes > 0) == (victim == 2)
    said = "\n".join(report.notes + report.warnings)
    assert f"{path.parent}: files of the log are missing or have a wrong length" in said
    assert "`get` and other readers still refuse the store" in said
    assert "opens the store to write" not in said
    with pytest.raises(DamagedStoreError, match=f"{path.name}: {size} bytes"):
        reput.MessageStore.open(store, read_only=True, config=stores.SMALL)


def test_long_log_file(tmp_path: Path) -> None:
    """A log file that reaches into the next one is an error, salvage or not: nobody knows which bytes count."""
    store = stores.with_log(tmp_path, some_log())
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    path.write_bytes(path.read_bytes() + b"\0")
    for salvage in (False, True):
        with pytest.raises(DamagedStoreError, match=r"00002048|2049 bytes") as caught:
            stores.rebuild(store, salvage=salvage)
        assert ("Cut that one back" if salvage else "Restore the file to 2048 bytes") in str(caught.value)


@pytest.mark.parametrize("sparse", [True, False])
@any_split
def test_preallocated_file(sparse: bool, split_mb: float, tmp_path: Path) -> None:
    """An all-zero file after the last record, allocated ahead by RocketMQ, changes nothing."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    path = store / paths.COMMIT_LOG / paths.offset_name(6144)
    with path.open("wb") as file:
        file.truncate(2048)
        if not sparse:
            file.write(bytes(2048))
    report = stores.rebuild(store, split_mb=split_mb)
    assert stores.positions(store) == [placed.offset for placed in log.placed]
    assert (report.log_max_offset, report.gaps, report.torn_tail_offset) == (log.end, [], None)


def test_preallocated_file_behind_a_full_one(tmp_path: Path) -> None:
    """A log whose last file ends with a blank record ends at the start of the next file."""
    log = some_log(10)
    log.roll()
    store = stores.with_log(tmp_path, log)
    report = stores.rebuild(store)
    assert (report.messages, report.log_max_offset, report.gaps) == (10, 2048, [])


@any_split
def test_missing_middle_file(split_mb: float, tmp_path: Path) -> None:
    """A missing file in the middle is an error that names the hole; salvage builds around it."""
    log = some_log()
    store = stores.with_log(tmp_path, log)
    (store / paths.COMMIT_LOG / paths.offset_name(2048)).unlink()
    before = stores.digest(store)
    with pytest.raises(DamagedStoreError, match=r"2048 bytes of log are missing.*--salvage"):
        stores.rebuild(store, split_mb=split_mb)
    assert stores.digest(store) == before
    report = stores.rebuild(store, split_mb=split_mb, salvage=True)
    assert [(gap.begin, gap.end, gap.why) for gap in report.gaps] == [(2048, 4096, "missing log file")]
    assert stores.positions(store) == [p.offset if p.offset // 2048 != 1 else None for p in log.placed]
    assert [("still refuse the store" in one, "keep a copy" in one) for one in report.warnings] == [(1, 0), (0, 1)]


@pytest.mark.parametrize("files", [0, 1])
def test_log_without_records(files: int, tmp_path: Path) -> None:
    """A log without a record gives empty indexes, and no IndexFile: RocketMQ makes one at the first message."""
    store = tmp_path / "store"
    (store / paths.COMMIT_LOG).mkdir(parents=True)
    for number in range(files):
        (store / paths.COMMIT_LOG / paths.offset_name(number * 4096)).write_bytes(bytes(4096))
    report = stores.rebuild(store)
    assert (report.messages, report.queues, report.index_files) == (0, 0, [])
    assert list((store / paths.CONSUME_QUEUE).iterdir()) == []
    assert list((store / paths.INDEX).iterdir()) == []


def test_no_store(tmp_path: Path) -> None:
    """A folder that is no store is refused with a hint, and nothing is made there."""
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(NotAStoreError, match=str(path)):
            reput.rebuild(path, spark=False)
    (tmp_path / paths.COMMIT_LOG).mkdir()
    with pytest.raises(NotAStoreError, match="give the one above"):
        reput.rebuild(tmp_path / paths.COMMIT_LOG, spark=False)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotAStoreError, match="not a folder"):
        reput.rebuild(file, spark=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [paths.COMMIT_LOG, "file"]


# --- records that are refused --------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1 << 62, 1_000_100, -1])
def test_impossible_queue_offset(offset: int, tmp_path: Path) -> None:
    """A queue offset that no log of this length can have reached makes its record damage, not a file far out."""
    log = LogBuilder(4096)
    good = log.message()
    log.message(queue_offset=offset)
    last = log.message(queue_offset=1)
    store = stores.with_log(tmp_path, log)
    with pytest.raises(DamagedLogError, match="impossible queue offset"):
        stores.rebuild(store)
    stores.rebuild(store, salvage=True)
    assert stores.positions(store) == [good.offset, last.offset]


@pytest.mark.parametrize("topic", [b"../x", b"..", b"a/b", b"\xff\xfe", b"", b"a\0"])
def test_topic_that_is_no_folder_name(topic: bytes, tmp_path: Path) -> None:
    """A topic that would lead out of its folder, or is no text, makes its record damage; no such folder is made."""
    log = LogBuilder(4096)
    good = log.message()
    log.message(topic)
    last = log.message()
    store = stores.with_log(tmp_path, log)
    with pytest.raises(DamagedLogError, match="topic cannot be a folder"):
        stores.rebuild(store)
    stores.rebuild(store, salvage=True)
    assert stores.positions(store) == [good.offset, last.offset]
    assert [path.name for path in (store / paths.CONSUME_QUEUE).iterdir()] == ["topic"]
    assert not (store / "x").exists()


@pytest.mark.parametrize("topic", ["订单", "t" * 255, "t" * 128, "%RETRY%group", "-", " ", "a b"])
def test_topic_names(topic: str, tmp_path: Path) -> None:
    """Any text of up to 255 bytes that can name a folder is a topic."""
    log = LogBuilder(4096)
    wanted = [log.message(topic, tags="x").offset for _ in range(5)]
    store = stores.with_log(tmp_path, log)
    report = stores.rebuild(store)
    assert stores.positions(store, topic) == wanted
    assert [found.topic for found in report.topics] == [topic]


def test_prepared_and_rolled_back(tmp_path: Path) -> None:
    """Prepared and rolled-back messages get no queue entry; a prepared one is indexed, a rolled-back one is not."""
    log = LogBuilder(1 << 14)
    plain = log.message(keys="k1")
    log.message(transaction="prepared", keys="k2")
    log.message(transaction="rollback", keys="k3")
    committed = log.message(transaction="commit", keys="k4")
    store = stores.with_log(tmp_path, log)
    report = stores.rebuild(store)
    assert stores.positions(store) == [plain.offset, committed.offset]
    assert (report.prepared, report.rolled_back, report.index_items, report.queue_entries) == (1, 1, 3, 2)


@any_split
def test_only_prepared_messages(split_mb: float, tmp_path: Path) -> None:
    """A stretch of log in which no message gets a queue entry is no reason to stop."""
    log = LogBuilder(4096)
    for number in range(40):
        log.message(transaction="prepared", keys=f"k{number}")
    last = log.message()
    store = stores.with_log(tmp_path, log)
    report = stores.rebuild(store, split_mb=split_mb)
    assert stores.positions(store) == [last.offset]
    assert (report.prepared, report.index_items) == (40, 40)


def test_times_that_run_backwards_are_reported(tmp_path: Path) -> None:
    """Store times that run backwards, inside a split or between two, are counted and the first place is named."""
    for split_mb in SPLITS_MB:
        log = LogBuilder(4096)
        log.message()
        log.message()
        log.store_timestamp -= 5000
        back = log.message()
        log.message()
        store = stores.with_log(tmp_path / str(split_mb), log)
        report = stores.rebuild(store, split_mb=split_mb)
        assert (report.time_regressions, report.first_time_regression) == (1, back.offset)
        # It said "1 times".
        assert f"store times run backwards once, at log offset {back.offset}" in report.warnings[0]


def test_stale_records_behind_a_shorter_tail_are_damage(tmp_path: Path) -> None:
    """A good record after bytes that are no record is never taken for the log's next one in silence."""
    log = LogBuilder(4096)
    log.message()
    gap = log.garbage(bytes(100))
    log.message(properties=message_properties(keys="stale"))
    store = stores.with_log(tmp_path, log)
    with pytest.raises(DamagedLogError, match=f"log offset {gap}.*nothing written, 100 bytes"):
        stores.rebuild(store)
