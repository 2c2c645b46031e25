"""`check` calls every store that RocketMQ closed sound, and names each damage by rule, file and place."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.formats.index.index_file import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE
from reput.formats.queue.consume_queue import ENTRY_SIZE, PRE_BLANK, Entry, encode_entry
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from reput.pipeline.check.report import CheckReport, Finding

CONFIG = StoreConfig(
    mapped_file_size_commit_log=golden.LOG_FILE_SIZE,
    mapped_file_size_consume_queue=golden.QUEUE_FILE_SIZE,
    max_hash_slot_num=golden.INDEX_SLOTS,
    max_index_num=golden.INDEX_ITEMS,
)
QUEUE = "consumequeue/orders/0"
SECOND_FILE = f"{QUEUE}/{golden.QUEUE_FILE_SIZE:020d}"


def check(store: Path, **options: Any) -> CheckReport:
    """Check in this process, with the golden settings."""
    return reput.check(store, spark=False, config=CONFIG, **options)


def item_at(number: int) -> int:
    """Byte of an item in a golden IndexFile."""
    return HEADER_SIZE + golden.INDEX_SLOTS * SLOT_SIZE + number * ITEM_SIZE


def change(path: Path, offset: int, flip: int = 0x55) -> None:
    """Flip bits of one byte."""
    data = bytearray(path.read_bytes())
    data[offset] ^= flip
    path.write_bytes(data)


def last_file(store: Path) -> Path:
    """The last file of the queue."""
    return max((store / QUEUE).iterdir())


def end_in_last_file(store: Path, entries: int = 0) -> int:
    """The byte after the queue's last entry in that file, or this number of entries before it."""
    return (golden.facts("basic").entries("orders") - entries) * ENTRY_SIZE - int(last_file(store).name)


def second_index_file(store: Path) -> Path:
    """The second IndexFile, which is full."""
    return sorted((store / "index").iterdir())[1]


def only(report: CheckReport, rule: str) -> Finding:
    """The one finding of this rule."""
    (found,) = [finding for finding in report.findings if finding.rule == rule]
    return found


def digest(store: Path) -> dict[str, str]:
    """Names and contents of everything in a store."""
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in store.rglob("*")
    }


@pytest.mark.golden
@pytest.mark.parametrize("split_mb", [128, 0.03])
@pytest.mark.parametrize("name", ["basic", "crash"])
def test_what_rocketmq_wrote_is_sound(name: str, split_mb: float) -> None:
    """A store that RocketMQ closed, and one copied while it was open, are sound, however the log is cut."""
    report = check(golden.shared(name), split_mb=split_mb)

    assert report.sound
    facts = golden.facts(name)
    assert (report.messages, report.queues) == (facts.messages, len(facts.queues))
    assert {finding.severity for finding in report.findings} <= {"note"}


@pytest.mark.spark
@pytest.mark.golden
def test_spark_says_the_same(spark: SparkContext) -> None:
    """The Spark job and the plain loop find the same."""
    plain = check(golden.shared("crash"))
    by_spark = reput.check(golden.shared("crash"), spark=spark, config=CONFIG)

    assert by_spark.findings == plain.findings
    assert (by_spark.messages, by_spark.index_items) == (plain.messages, plain.index_items)


@pytest.mark.golden
def test_expired_log_files_leave_a_sound_store(tmp_path: Path) -> None:
    """Entries and items of expired records are no damage, nor are the pre-blank entries of a rebuild."""
    store = golden.unpack("basic", tmp_path)
    (store / "commitlog" / "00000000000000000000").unlink()

    assert check(store).findings == []
    reput.rebuild(store, spark=False, config=CONFIG)
    assert check(store).findings == []


@pytest.mark.golden
def test_files_that_are_not_rocketmqs(tmp_path: Path) -> None:
    """Files that somebody has left among the indexes are named, by check and by info, and are no damage."""
    store = golden.unpack("basic", tmp_path)
    (store / "index" / "notes.txt").write_text("mine")
    (store / "consumequeue" / "backup.tar").write_text("mine")
    (store / "commitlog" / "notes.txt").write_text("mine")
    report = check(store)

    assert (only(report, "stray-file").count, report.sound) == (3, True)
    assert "commitlog/notes.txt (RocketMQ does not load the log" in only(report, "stray-file").detail
    assert "index/notes.txt" in only(report, "stray-file").detail
    assert any("consumequeue/backup.tar" in note for note in reput.info(store).notes)


@pytest.mark.golden
def test_a_check_changes_nothing(tmp_path: Path) -> None:
    """Not a byte of a store is changed and nothing is made in it, sound or not."""
    store = golden.unpack("basic", tmp_path)
    change(store / SECOND_FILE, 45)
    before = digest(store)

    check(store)
    assert digest(store) == before


DAMAGE: list[tuple[str, str, int, Callable[[Path], Path]]] = [
    ("queue-entry-wrong", "an entry", 45, lambda store: store / SECOND_FILE),
    ("queue-entry-past-end", "after the last entry", 5900, last_file),
    ("index-item-without-record", "an item's hash", item_at(77) + 1, second_index_file),
    ("index-item-without-record", "an item's offset", item_at(77) + 8, second_index_file),
    ("index-item-time", "an item's time", item_at(77) + 15, second_index_file),
    ("index-chain", "an item's link", item_at(77) + 19, second_index_file),
    ("index-header", "the count of items", 39, second_index_file),
    ("index-header", "the count of slots", 35, second_index_file),
    ("index-header", "the end", 31, second_index_file),
    ("index-header", "the begin time", 7, second_index_file),
    ("index-header", "the end time", 14, second_index_file),
]


@pytest.mark.golden
@pytest.mark.parametrize(("rule", "_what", "offset", "file_of"), DAMAGE, ids=[what for _, what, _, _ in DAMAGE])
def test_one_changed_byte_is_found(
    tmp_path: Path, rule: str, _what: str, offset: int, file_of: Callable[[Path], Path]
) -> None:
    """One changed byte makes a store unsound, and the finding names its file and a place at it."""
    store = golden.unpack("basic", tmp_path)
    path = file_of(store)
    change(path, offset)

    report = check(store)
    assert not report.sound
    assert report.exit_code == 1
    found = only(report, rule)
    assert found.severity == "damage"
    assert found.file == str(path)
    assert found.offset is not None
    assert found.offset <= offset or rule == "index-header"


@pytest.mark.golden
def test_a_slot_that_names_an_older_item_is_found(tmp_path: Path) -> None:
    """A slot names the newest item of its keys: the number of the item before that one is damage."""
    path = second_index_file(golden.unpack("basic", tmp_path))
    slots = memoryview(path.read_bytes())[HEADER_SIZE:][: golden.INDEX_SLOTS * SLOT_SIZE]
    places = range(0, len(slots), SLOT_SIZE)
    place = next(at for at in places if (item := int.from_bytes(slots[at : at + SLOT_SIZE])) > 2 and item % 2)
    change(path, HEADER_SIZE + place + SLOT_SIZE - 1, flip=1)

    report = check(path.parents[1])
    found = only(report, "index-slot")
    assert (found.severity, found.file, report.exit_code) == ("damage", str(path), 1)


@pytest.mark.golden
def test_a_damaged_body_is_found(tmp_path: Path) -> None:
    """A body whose CRC does not match is named with its log file, place and size."""
    store = golden.unpack("basic", tmp_path)
    victim = golden.with_body(golden.records(store)[5:])
    golden.flip(store, victim.body[0])

    found = only(check(store), "log-record")
    assert (found.severity, found.offset) == ("damage", victim.offset)
    assert found.file == str(store / "commitlog" / "00000000000000000000")
    assert "CRC" in found.detail
    assert check(store, verify_crc=False).sound


@pytest.mark.golden
@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (QUEUE, "queue-missing"),
        (SECOND_FILE, "queue-entry-missing"),
        ("consumequeue", "queue-folder-missing"),
        ("index", "index-folder-missing"),
    ],
)
def test_what_is_gone_is_found(tmp_path: Path, path: str, rule: str) -> None:
    """A queue, a queue file, all queues or the whole index: what is missing is damage."""
    store = golden.unpack("basic", tmp_path)
    gone = store / path
    if gone.is_dir():
        shutil.rmtree(gone)
    else:
        gone.unlink()

    found = only(check(store), rule)
    assert found.severity == "damage"
    assert rule.endswith("folder-missing") != Path(found.file).exists()


@pytest.mark.golden
def test_a_swap_under_way_cannot_be_looked_at(tmp_path: Path) -> None:
    """Between two renames of a swap the indexes are nothing to judge."""
    store = golden.unpack("basic", tmp_path)
    (store / "reput").mkdir()
    (store / "reput" / "intent").write_text("{}")

    with pytest.raises(reput.StoreLockedError):
        check(store)


@pytest.mark.golden
def test_a_missing_index_file_is_found(tmp_path: Path) -> None:
    """Messages whose items stood in a lost IndexFile are counted."""
    store = golden.unpack("basic", tmp_path)
    second_index_file(store).unlink()

    assert only(check(store), "index-item-missing").count > 1000


@pytest.mark.golden
def test_a_cut_checkpoint_was_not_found(tmp_path: Path) -> None:
    """A checkpoint of 7 bytes is damage, and a rebuild writes a whole one."""
    store = golden.unpack("basic", tmp_path)
    with (store / "checkpoint").open("r+b") as file:
        file.truncate(7)

    assert only(check(store), "checkpoint-cut").severity == "damage"
    reput.rebuild(store, spark=False, config=CONFIG)
    assert check(store).sound


def cut_queue(store: Path) -> None:
    """Take the last three entries of a queue away, as a crash before their flush does."""
    path, end = last_file(store), end_in_last_file(store)
    data = bytearray(path.read_bytes())
    data[end - 3 * ENTRY_SIZE : end] = bytes(3 * ENTRY_SIZE)
    path.write_bytes(data)


@pytest.mark.golden
def test_what_a_crash_leaves_behind_is_told_from_damage(tmp_path: Path) -> None:
    """A queue that ends before the log is a leftover while `abort` is there, and damage without it."""
    store = golden.unpack("basic", tmp_path)
    cut_queue(store)
    closed = check(store)
    (store / "abort").touch()
    crashed = check(store)

    assert (only(closed, "queue-out-of-date").severity, closed.sound) == ("damage", False)
    assert (only(crashed, "queue-out-of-date").severity, crashed.sound) == ("leftover", True)
    assert only(crashed, "queue-out-of-date").count == 3
    assert only(crashed, "queue-out-of-date").offset == end_in_last_file(store, 3)


@pytest.mark.golden
def test_entries_past_the_log_are_what_a_crash_leaves(tmp_path: Path) -> None:
    """An entry of a record that never reached the log is a leftover after a crash."""
    store = golden.unpack("basic", tmp_path)
    path, place = last_file(store), end_in_last_file(store)
    data = bytearray(path.read_bytes())
    data[place : place + ENTRY_SIZE] = encode_entry(Entry(golden.facts("basic").log_end + 10_000, 300, 0))
    path.write_bytes(data)
    (store / "abort").touch()

    report = check(store)
    assert report.sound
    assert only(report, "queue-entry-past-end").severity == "leftover"


@pytest.mark.golden
def test_a_torn_tail_is_a_leftover_only_after_a_crash(tmp_path: Path) -> None:
    """A half-written last record is what a crash leaves; in a store that was closed it is damage."""
    store = golden.unpack("crash", tmp_path)
    golden.damage(store, "torn")
    crashed = check(store)
    (store / "abort").unlink()

    assert only(crashed, "log-torn-tail").severity == "leftover"
    assert only(check(store), "log-torn-tail").severity == "damage"


@pytest.mark.golden
def test_what_is_wrong_with_the_log_came_after_what_it_causes(tmp_path: Path) -> None:
    """A missing file of the log is the first finding; entries and items that lead there come after it."""
    store = golden.unpack("basic", tmp_path)
    (store / "commitlog" / "00000000000001048576").unlink()
    rules = [one.rule for one in reput.check(store, spark=False).findings if one.severity == "damage"]
    assert rules[0] == "log-file"
    assert {"index-item-without-record", "queue-entry-wrong"} <= set(rules)


@pytest.mark.golden
def test_an_empty_last_queue_file_is_a_leftover(tmp_path: Path) -> None:
    """RocketMQ removes an empty last file when it loads a queue."""
    store = golden.unpack("basic", tmp_path)
    (store / QUEUE / f"{int(last_file(store).name) + golden.QUEUE_FILE_SIZE:020d}").touch()

    report = check(store)
    assert report.sound
    assert only(report, "queue-empty-file").severity == "leftover"


@pytest.mark.golden
def test_pre_blank_in_the_place_of_a_record_is_wrong(tmp_path: Path) -> None:
    """A pre-blank entry is not what a record gives."""
    store = golden.unpack("basic", tmp_path)
    path = store / SECOND_FILE
    path.write_bytes(PRE_BLANK + path.read_bytes()[ENTRY_SIZE:])

    assert only(check(store), "queue-entry-wrong").offset == 0


@pytest.mark.golden
def test_an_index_without_tag_items_is_sound(tmp_path: Path) -> None:
    """Stores of brokers before 5.4.0 have no items for tags: a note says so."""
    store = golden.unpack("basic", tmp_path)
    reput.rebuild(store, spark=False, config=CONFIG, index_tags="off")

    report = check(store)
    assert report.sound
    assert only(report, "index-without-tags").severity == "note"


def test_keys_of_one_hash_in_two_index_files(tmp_path: Path) -> None:
    """A message whose keys hash alike, one in the last place of an IndexFile and one in the next file, is no damage."""
    log = LogBuilder(4096)
    for _ in range(6):
        log.message("a", keys="k")
    log.message("a", keys="Aa BB")
    log.roll()
    log.message("a", keys="k Aa")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    assert [header.index_count for header in stores.headers(store)] == [8, 4]


@pytest.mark.parametrize("hurt", ["a body", "a stretch", "a file"])
def test_after_a_salvage_only_the_log_is_damaged(tmp_path: Path, hurt: str) -> None:
    """Indexes that a salvage built agree with what is left around the gaps; the log stays damaged, and is named."""
    log = LogBuilder(2048)
    placed = [log.message(queue_id=n % 2, keys=f"k{n}", tags="t", body=b"body %d" % n) for n in range(60)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    start = 2048
    path = store / "commitlog" / f"{start:020d}"
    inside = [one for one in placed if start <= one.offset < 2 * start]
    if hurt == "a file":
        path.unlink()
    elif hurt == "a body":
        change(path, inside[3].offset - start + 90)
    else:
        data = bytearray(path.read_bytes())
        data[inside[2].offset - start : inside[5].offset - start] = b"\xee" * (inside[5].offset - inside[2].offset)
        path.write_bytes(data)

    with pytest.raises(reput.DamagedStoreError, match="--salvage"):
        reput.rebuild(store, spark=False, config=stores.SMALL)
    stores.rebuild(store, salvage=True)
    report = reput.check(store, spark=False, config=stores.SMALL)
    assert report.exit_code == 1
    assert {one.rule for one in report.findings if one.severity == "damage"} == {
        "log-file" if hurt == "a file" else "log-record"
    }


@pytest.mark.parametrize("later", [False, True], ids=["not reached", "passed over"])
def test_a_queue_that_a_killed_broker_had_not_reached_was_damage(later: bool, tmp_path: Path) -> None:
    """After a kill a queue has no folder yet if no entry is of a later record; if one is, the queue is lost."""
    log = LogBuilder()
    for topic in ("orders", "payments", "orders") if later else ("orders", "orders", "payments"):
        log.message(topic)
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    shutil.rmtree(store / "reput")
    shutil.rmtree(store / "consumequeue" / "payments")
    found = only(check(store), "queue-missing")
    assert found.severity == "damage"
    (store / "abort").touch()
    if later:
        assert only(check(store), "queue-missing").severity == "damage"
    else:
        assert only(check(store), "queue-out-of-date").severity == "leftover"
