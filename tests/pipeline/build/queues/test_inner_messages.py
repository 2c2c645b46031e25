"""Queues of batches and light message queues in jobs: rebuild, catch-up, check, and what a log may say wrongly."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats import paths
from reput.formats.log.record import FLAG_INNER_BATCH
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY_SIZE, BatchEntry, decode_batch_entry, encode_batch_entry
from support import growing, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark import SparkContext

    from reput.pipeline.check.report import CheckReport

CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=200,
    mapper_file_size_batch_consume_queue=5 * BATCH_ENTRY_SIZE,
    max_hash_slot_num=16,
    max_index_num=8,
)
TYPES = {"batches": "BatchCQ", "orders": "SimpleCQ"}


def topics_json(store: Path, types: dict[str, str] = TYPES) -> None:
    """Write a store's topics with their types."""
    table = {topic: {"attributes": {"queue.type": kind}} for topic, kind in types.items()}
    (store / paths.CONFIG).mkdir(exist_ok=True)
    (store / paths.CONFIG / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


class Writer:
    """A log with batches and messages for further queues, numbered as a broker does."""

    def __init__(self, file_size: int = 4096) -> None:
        self.log = LogBuilder(file_size)
        self.next: dict[str, int] = {}
        self.entries: dict[str, list[BatchEntry]] = {}

    def batch(
        self, messages: int | str | None = 1, base: int | None = None, queue_id: int = 0, topic: str = "batches"
    ) -> None:
        """A batch; one whose count is a text or None says what it says, and gets no entry unless None."""
        key = f"{topic}/{queue_id}"
        base = self.next.get(key, 0) if base is None else base
        more = {} if messages is None else {"INNER_NUM": str(messages), "INNER_BASE": str(base)}
        placed = self.log.message(
            topic, queue_id=queue_id, sys_flag=FLAG_INNER_BATCH, more=more, queue_offset=base, tags="t", keys="k"
        )
        if isinstance(messages, str):
            return
        count = 1 if messages is None else messages
        self.next[key] = base + count
        time, code = placed.record.store_timestamp, stores.tags_code(placed.record)
        self.entries.setdefault(key, []).append(BatchEntry(placed.offset, placed.size, code, time, base, count))

    def alone(self, queue_id: int = 0, topic: str = "batches") -> None:
        """A message alone in a queue of batches."""
        key = f"{topic}/{queue_id}"
        base = self.next.get(key, 0)
        placed = self.log.message(topic, queue_id=queue_id, queue_offset=base)
        self.next[key] = base + 1
        time = placed.record.store_timestamp
        self.entries.setdefault(key, []).append(BatchEntry(placed.offset, placed.size, 0, time, base, 1))

    def further(self, *names: str, offsets: str | None = None, **more: Any) -> int:
        """A message for further queues; returns its log offset."""
        if offsets is None:
            offsets = ",".join(str(self.next.get(name, 0)) for name in names)
            for name in names:
                self.next[name] = self.next.get(name, 0) + 1
        pair = {"INNER_MULTI_DISPATCH": ",".join(names), "INNER_MULTI_QUEUE_OFFSET": offsets}
        return self.log.message("orders", more=pair, **more).offset

    def some(self, rng: random.Random, count: int) -> None:
        """Messages of all sorts."""
        for _ in range(count):
            match rng.randrange(5):
                case 0 | 1:
                    self.batch(rng.randrange(1, 9), queue_id=rng.randrange(2))
                case 2:
                    self.alone(queue_id=rng.randrange(2))
                case 3:
                    self.further(*rng.sample(("%LMQ%a", "%LMQ%b", "%LMQ%c"), rng.randrange(1, 4)), keys="k")
                case _:
                    self.log.message("orders", queue_id=rng.randrange(2), keys="k x", body=bytes(rng.randrange(60)))


def batch_entries(store: Path, queue: str) -> list[BatchEntry]:
    """Return the entries of a queue of batches; nothing may lie after its end."""
    files = sorted((store / paths.BATCH_CONSUME_QUEUE / queue).iterdir())
    assert [int(path.name) for path in files] == [number * 5 * BATCH_ENTRY_SIZE for number in range(len(files))]
    data = b"".join(path.read_bytes() for path in files)
    found = [decode_batch_entry(data, at) for at in range(0, len(data), BATCH_ENTRY_SIZE)]
    end = next((number for number, entry in enumerate(found) if not entry.is_valid), len(found))
    assert not any(data[end * BATCH_ENTRY_SIZE :])
    return found[:end]


def check(store: Path) -> CheckReport:
    """A check with the sizes above."""
    return reput.check(store, spark=False, config=CONFIG)


@pytest.mark.parametrize("split_mb", [128, 0.001, 0.0004])
@pytest.mark.parametrize("configured", [True, False])
def test_rebuild(split_mb: float, configured: bool, tmp_path: Path) -> None:
    """However the work is cut, each queue of batches has its entries in log order, and each light queue has its own."""
    writer = Writer()
    writer.batch(3)
    writer.some(random.Random(1), 150)
    store = stores.with_log(tmp_path, writer.log)
    if configured:
        topics_json(store)
    report = stores.rebuild(store, CONFIG, split_mb=split_mb)
    assert report.out_of_order_queues == report.warnings == []
    assert {key: batch_entries(store, key) for key in writer.entries} == writer.entries
    assert not (store / paths.CONSUME_QUEUE / "batches").exists()
    summaries = {topic.topic: topic.max_offset for topic in report.topics}
    assert summaries["batches"] == max(writer.next["batches/0"], writer.next["batches/1"])
    for name in ("%LMQ%a", "%LMQ%b", "%LMQ%c"):
        first, entries = stores.entries(store, name)
        assert (first, len(entries)) == (0, writer.next[name])


@pytest.mark.spark
def test_rebuild_with_spark(spark: SparkContext, tmp_path: Path) -> None:
    """Spark's tasks write what the loop writes."""
    writer = Writer()
    writer.some(random.Random(2), 200)
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    copy = stores.copy(store, tmp_path / "copy")
    stores.rebuild(store, CONFIG)
    reput.rebuild(copy, spark=spark, config=CONFIG, split_mb=0.002)
    assert stores.built(copy) == stores.built(store)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("splits", ["one", "many"])
def test_steps_equal_a_rebuild(seed: int, splits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught up in steps of any length, a store is what a rebuild makes."""
    if splits == "many":
        growing.many_splits(monkeypatch, 700, above_bytes=500)
    rng, writer = random.Random(seed), Writer()
    for step in range(6):
        writer.some(rng, rng.randrange(1, 25))
        store = writer.log.write(tmp_path / "store")
        topics_json(store)
        assert growing.catch_up(store, CONFIG).out_of_order_queues == []
        stores.assert_as_rebuilt(store, tmp_path / f"copy{step}", CONFIG)


def test_a_long_range_learns_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record of a long range that shows its topic's queues of batches counts for all splits, as in a rebuild."""
    growing.many_splits(monkeypatch, 400, above_bytes=100)
    writer = Writer()
    for _ in range(12):
        writer.alone()
        writer.log.message("orders", keys="k")
    writer.batch(3)
    writer.alone()
    store = writer.log.write(tmp_path / "store")
    assert growing.catch_up(store, CONFIG).out_of_order_queues == []
    stores.assert_as_rebuilt(store, tmp_path / "copy", CONFIG)
    assert batch_entries(store, "batches/0") == writer.entries["batches/0"]


def test_a_repeated_step_writes_the_same(tmp_path: Path) -> None:
    """A catch-up that was killed before it said so is done again, and changes nothing."""
    writer = Writer()
    writer.some(random.Random(3), 40)
    store = writer.log.write(tmp_path / "store")
    topics_json(store)
    growing.catch_up(store, CONFIG)
    frontier = (store / paths.REPUT / "frontier").read_bytes()
    writer.some(random.Random(4), 40)
    store = writer.log.write(tmp_path / "store")
    growing.catch_up(store, CONFIG)
    once = stores.built(store)
    (store / paths.REPUT / "frontier").write_bytes(frontier)
    growing.catch_up(store, CONFIG)
    assert stores.built(store) == once


def test_repeats_gaps_and_restarts(tmp_path: Path) -> None:
    """A repeated batch is left out, a gap leaves nothing, a queue that begins again is a new one; each is reported."""
    writer = Writer()
    for base in (0, 3, 3, 9):
        writer.batch(3, base)
    writer.batch(2, 0, queue_id=1)
    writer.batch(2, 2, queue_id=1)
    for base in (0, 5):
        writer.batch(5, base, queue_id=1)
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    report = stores.rebuild(store, CONFIG)
    assert [entry.base_offset for entry in batch_entries(store, "batches/0")] == [0, 3, 9]
    assert [(entry.base_offset, entry.messages) for entry in batch_entries(store, "batches/1")] == [(0, 5), (5, 5)]
    reported = [
        (one.queue_id, one.repeats, one.blanks, one.restarts, one.dropped) for one in report.out_of_order_queues
    ]
    assert reported == [(0, 1, 3, 0, 0), (1, 0, 0, 1, 2)]
    assert [finding.rule for finding in check(store).findings if finding.rule == "queue-offsets"] == [
        "queue-offsets"
    ] * 2


@pytest.mark.parametrize("count", ["0", "-3", "x", "40000", "3.5"])
def test_a_count_that_cannot_be(count: str, tmp_path: Path) -> None:
    """A batch whose count cannot be has no entry and is reported with its place; the others have theirs."""
    writer = Writer()
    writer.batch(3)
    placed = writer.log.end
    writer.batch(count)
    writer.batch(2)
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    report = stores.rebuild(store, CONFIG)
    assert batch_entries(store, "batches/0") == writer.entries["batches/0"]
    assert [text for text in report.warnings if f"at {placed}" in text and "INNER_NUM" in text]
    assert [finding.rule for finding in check(store).findings] == ["batch-without-entry"]


def test_a_batch_in_another_topic_is_one_message(tmp_path: Path) -> None:
    """A topic that topics.json calls SimpleCQ has entries of single messages, for any records, as in RocketMQ."""
    writer = Writer()
    for number in range(3):
        writer.batch(4, number, topic="orders")
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    stores.rebuild(store, CONFIG)
    assert len(stores.entries(store, "orders")[1]) == 3
    assert not (store / paths.BATCH_CONSUME_QUEUE).exists()


def test_an_impossible_offset_is_no_place_in_a_file(tmp_path: Path) -> None:
    """A batch's offset may be high; in a queue of single messages it would be a place far out, and has no entry."""
    writer = Writer()
    writer.batch(1)
    writer.log.message("orders")
    writer.log.message("orders", sys_flag=FLAG_INNER_BATCH, queue_offset=1_050_000)
    writer.batch(1)
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    stores.rebuild(store, CONFIG)
    assert len(stores.entries(store, "orders")[1]) == 1
    assert len(batch_entries(store, "batches/0")) == 2


@pytest.mark.parametrize(
    ("names", "offsets"), [(("%LMQ%a",), "0,1"), (("%LMQ%a",), "x"), (("%LMQ%a",), "9" * 30), (("a/b",), "0")]
)
def test_further_queues_that_cannot_be(names: tuple[str, ...], offsets: str, tmp_path: Path) -> None:
    """Lists that do not fit, texts that are no numbers and names that are no folder's give no entry."""
    writer = Writer()
    writer.further("%LMQ%a")
    writer.further(*names, offsets=offsets)
    writer.further("%LMQ%a")
    store = stores.with_log(tmp_path, writer.log)
    stores.rebuild(store, CONFIG)
    assert len(stores.entries(store, "%LMQ%a")[1]) == 2
    assert len(stores.entries(store, "orders")[1]) == 3
    assert {path.name for path in (store / paths.CONSUME_QUEUE).iterdir()} == {"%LMQ%a", "orders"}


def test_further_queues_that_do_not_run_straight(tmp_path: Path) -> None:
    """The rules for repeats and gaps are those of any queue."""
    writer = Writer()
    for offsets in ("0", "1", "1", "3"):
        writer.further("%LMQ%a", offsets=offsets)
    store = stores.with_log(tmp_path, writer.log)
    report = stores.rebuild(store, CONFIG)
    assert [(one.topic, one.repeats, one.blanks) for one in report.out_of_order_queues] == [("%LMQ%a", 1, 1)]
    assert len(stores.entries(store, "%LMQ%a")[1]) == 4


def test_multi_dispatch_can_be_off(tmp_path: Path) -> None:
    """With enableMultiDispatch=false nothing goes to further queues."""
    writer = Writer()
    writer.further("%LMQ%a")
    store = stores.with_log(tmp_path, writer.log)
    reput.rebuild(store, spark=False, config=CONFIG.updated(["enableMultiDispatch=false"]))
    assert {path.name for path in (store / paths.CONSUME_QUEUE).iterdir()} == {"orders"}


def test_single_topics(tmp_path: Path) -> None:
    """--topic and --skip-topic choose among queues of both types, and leave the others as they are."""
    writer = Writer()
    writer.some(random.Random(5), 60)
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    stores.rebuild(store, CONFIG)
    whole = stores.built(store)
    victim = store / paths.BATCH_CONSUME_QUEUE / "batches" / "0" / paths.offset_name(0)
    victim.write_bytes(bytes(5 * BATCH_ENTRY_SIZE))
    stores.rebuild(store, CONFIG, skip_topics=["batches"])
    assert not any(victim.read_bytes())
    stores.rebuild(store, CONFIG, topics=["batches"])
    assert stores.built(store) == whole
    with pytest.raises(ConfigError, match="nothing"):
        stores.rebuild(store, CONFIG, topics=["nothing"])


def test_expired_queues_keep_their_numbers(tmp_path: Path) -> None:
    """A queue whose batches have all expired keeps its last entry, and so its number; RocketMQ finds it so, too."""
    writer = Writer()
    writer.batch(7)
    writer.batch(4)
    for _ in range(60):
        writer.log.message("orders", body=bytes(100))
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    stores.rebuild(store, CONFIG)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    report = stores.rebuild(store, CONFIG)
    assert any(text.startswith("batches/0 goes on at 11") for text in report.retained_queues)
    assert batch_entries(store, "batches/0") == writer.entries["batches/0"][-1:]
    with reput.MessageStore.open(store, CONFIG, create=True) as opened:
        assert (opened.min_offset("batches", 0), opened.max_offset("batches", 0)) == (11, 11)
        assert opened.put_message(reput.Message("batches", b"")).queue_offset == 11


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture
def sound(tmp_path: Path) -> Iterator[Path]:
    """A sound store with 13 batches in queue 0 of `batches`."""
    writer = Writer()
    for _ in range(13):
        writer.batch(3)
        writer.log.message("orders")
    store = stores.with_log(tmp_path, writer.log)
    topics_json(store)
    stores.rebuild(store, CONFIG)
    yield store
    reput.rebuild(store, spark=False, config=CONFIG)
    assert check(store).sound


def change(store: Path, number: int, data: bytes) -> None:
    """Put bytes in the place of an entry."""
    path = store / paths.BATCH_CONSUME_QUEUE / "batches" / "0" / paths.offset_name(number // 5 * 5 * BATCH_ENTRY_SIZE)
    content = bytearray(path.read_bytes())
    at = number % 5 * BATCH_ENTRY_SIZE
    content[at : at + BATCH_ENTRY_SIZE] = data
    path.write_bytes(content)


def damage(store: Path) -> list[tuple[str, str, int | None, int]]:
    """The findings of a check: rule, file, byte and count."""
    report = check(store)
    assert not report.sound
    return [(one.rule, one.file.rpartition("/")[2], one.offset, one.count) for one in report.findings]


@pytest.mark.parametrize("number", [0, 4, 7, 12])
def test_a_wrong_entry(number: int, sound: Path) -> None:
    """An entry that is not what its record gives is reported with its place."""
    found = batch_entries(sound, "batches/0")[number]
    change(sound, number, encode_batch_entry(found._replace(messages=found.messages + 1)))
    name = paths.offset_name(number // 5 * 5 * BATCH_ENTRY_SIZE)
    assert damage(sound) == [("queue-entry-wrong", name, number % 5 * BATCH_ENTRY_SIZE, 1)]


@pytest.mark.parametrize("number", [0, 6, 12])
def test_a_lost_entry(number: int, sound: Path) -> None:
    """An entry of zeros, in the middle or at the end, is reported."""
    change(sound, number, bytes(BATCH_ENTRY_SIZE))
    name = paths.offset_name(number // 5 * 5 * BATCH_ENTRY_SIZE)
    rule = "queue-out-of-date" if number == 12 else "queue-entry-missing"
    assert damage(sound) == [(rule, name, number % 5 * BATCH_ENTRY_SIZE, 1)]


def test_an_entry_behind_the_end(sound: Path) -> None:
    """An entry after the last record's is reported."""
    change(sound, 13, encode_batch_entry(BatchEntry(1, 2, 3, 4, 5, 6)))
    assert damage(sound) == [("queue-entry-past-end", paths.offset_name(460), 3 * BATCH_ENTRY_SIZE, 1)]


def test_a_lost_file(sound: Path) -> None:
    """A file that is missing in the middle, and one of another length, are reported."""
    folder = sound / paths.BATCH_CONSUME_QUEUE / "batches" / "0"
    (folder / paths.offset_name(230)).unlink()
    (folder / paths.offset_name(460)).write_bytes(b"short")
    assert {rule for rule, *_ in damage(sound)} == {"queue-out-of-date", "queue-file-missing", "queue-file-size"}
    with reput.MessageStore.open(sound, CONFIG, read_only=True) as store:
        assert store.get_message("batches", 0, 20).status.name in {"OFFSET_FOUND_NULL", "OFFSET_OVERFLOW_BADLY"}


def test_a_file_from_far_out(sound: Path) -> None:
    """A file whose name lies beyond reason costs no time and no memory."""
    folder = sound / paths.BATCH_CONSUME_QUEUE / "batches" / "0"
    (folder / paths.offset_name(230 * (1 << 54))).write_bytes(bytes(230))
    assert damage(sound)[0][:2] == ("queue-file-missing", paths.offset_name(230 * (1 << 54)))


def test_a_lost_folder(sound: Path) -> None:
    """All queues of batches gone: check names them, with what cannot be consumed."""
    shutil.rmtree(sound / paths.BATCH_CONSUME_QUEUE)
    assert damage(sound) == [("queue-missing", sound.name, None, 1)]


def test_a_size_that_is_no_multiple(sound: Path) -> None:
    """A configured file size that does not hold whole entries: check names the setting, and no rebuild takes it."""
    config = CONFIG.updated(["mapperFileSizeBatchConsumeQueue=1000"])
    findings = reput.check(sound, spark=False, config=config).findings
    assert "setting-contradicted" in {finding.rule for finding in findings}
    assert not [finding for finding in findings if finding.severity == "damage"]
    with pytest.raises(ConfigError, match="mapperFileSizeBatchConsumeQueue=1000"):
        reput.rebuild(sound, spark=False, config=config, force_setting=True)
