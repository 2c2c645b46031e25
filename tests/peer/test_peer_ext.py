"""ConsumeQueueExt between RocketMQ and reput: each opens what the other wrote, and both compute the same units."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig, parse_properties
from reput.formats import paths
from support import golden, kinds, stores
from support.bloom import BloomFilter
from support.checked import assert_sound
from support.inner import write_further
from support.opened import BROKER_LIMITS
from support.registry import FilterRegistry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.peer

EXT_FILE_SIZE = 4096
SQLS = ("region = 'eu'", "TAGS IN ('paid', '退款') OR KEYS CONTAINS 'k1'", "DELAY > 5", "NOT (region IS NULL)")
TOPICS = ("orders", "订单-topic", "SCHEDULE_TOPIC_XXXX")


def settings(size: int) -> tuple[str, ...]:
    """The peer's options for stores with ext files of that size."""
    return ("--set", "enableConsumeQueueExt=true", "--set", f"mappedFileSizeConsumeQueueExt={size}")


def config(size: int) -> StoreConfig:
    """The same for reput, with bitmaps."""
    text = f"{golden.CONFIG}enableConsumeQueueExt=true\nmappedFileSizeConsumeQueueExt={size}\n"
    return StoreConfig.from_properties(parse_properties(f"{text}enableCalcFilterBitMap=true\n"))


def queues(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of queues."""
    return [line for line in lines if "queue" in line]


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A store that reput wrote, with filters on three topics, half of its units written by each of two runs."""
    store = tmp_path / "store"
    for name in (paths.CONFIG, paths.COMMIT_LOG):
        (store / name).mkdir(parents=True)
    filters = FilterRegistry.load(store / paths.CONFIG, BloomFilter(), clock_ms=lambda: 1000)
    for topic in TOPICS:
        for number, sql in enumerate(SQLS):
            assert filters.register(topic, f"group-{number}", sql, 1)
    filters.persist()
    with kinds.open_store(store, config(EXT_FILE_SIZE)) as opened:
        kinds.put_kinds(opened, 700, seed=1)
        opened.reput(spark=False)
        kinds.put_kinds(opened, 700, seed=2)
    return store


@pytest.mark.golden
@pytest.mark.parametrize("abort", [False, True], ids=["closed cleanly", "abort present"])
def test_answers_from_rebuilt(
    abort: bool, peer: ModuleType, unpack: Callable[[str], Path], golden_answers: Callable[[str], Path]
) -> None:
    """RocketMQ answers every golden question from units that reput built (bitmaps were random)."""
    store = unpack("ext")
    for name in (paths.CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT, paths.INDEX):
        shutil.rmtree(store / name)
    reput.rebuild(store, spark=False, config=config(1 << 16))
    if abort:
        (store / paths.ABORT).touch()
    with gzip.open(golden_answers("ext"), "rt", encoding="utf-8") as lines:
        expected = [json.loads(line) for line in lines]
    for line in queues(expected):
        for entry in line["entries"]:
            entry[5] = ""
    answers = peer.run("ask", store, golden_answers("ext"), *peer.GOLDEN_SETTINGS, *settings(1 << 16))
    if abort:
        # RocketMQ indexed its last IndexFile again at open; keys are not what this is about.
        expected, answers = queues(expected), queues(answers)
    assert answers == expected


@pytest.mark.parametrize("abort", [False, True], ids=["closed cleanly", "abort present"])
def test_units_are_those_of_the_peer(abort: bool, ours: Path, tmp_path: Path, peer: ModuleType) -> None:
    """From the same log and filters RocketMQ computes the units that reput has computed, bit by bit."""
    theirs = tmp_path / "theirs"
    stores.copy(ours, theirs)
    for name in (paths.CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT, paths.INDEX):
        shutil.rmtree(theirs / name)
    if abort:
        (ours / paths.ABORT).touch()
    options = (*peer.GOLDEN_SETTINGS, *settings(EXT_FILE_SIZE))
    computed = queues(peer.run("dump", theirs, *options, "--calc-bitmaps", "1"))
    assert sum(bool(entry[5].strip("0")) for line in computed for entry in line["entries"]) > 100
    assert queues(peer.run("dump", ours, *options)) == computed
    for store in (ours, theirs):
        assert_sound(store, config(EXT_FILE_SIZE))
    if abort:
        # RocketMQ has dispatched messages again at open, and left units that no entry leads to.
        return
    for path in sorted((ours / paths.CONSUME_QUEUE_EXT).rglob("*")):
        if path.is_file():
            assert (theirs / path.relative_to(ours)).read_bytes() == path.read_bytes(), path


def test_entries_of_other_topics(tmp_path: Path, peer: ModuleType) -> None:
    """Entries that records give to further queues have no units, whatever the queue's name, and the others have."""
    store = write_further(tmp_path, 300)
    theirs = stores.copy(store, tmp_path / "theirs")
    reput.rebuild(store, spark=False, config=config(EXT_FILE_SIZE))
    multi = ("--set", "enableMultiDispatch=true", "--set", "enableLmq=true")
    peer.run("dump", theirs, *peer.GOLDEN_SETTINGS, *settings(EXT_FILE_SIZE), *multi)
    found = 0
    for folder in (paths.CONSUME_QUEUE, paths.CONSUME_QUEUE_EXT):
        files = {path.relative_to(theirs): path.read_bytes() for path in (theirs / folder).rglob("*") if path.is_file()}
        assert {
            path.relative_to(store): path.read_bytes() for path in (store / folder).rglob("*") if path.is_file()
        } == files
        found += len(files)
    assert found > 10
    assert not (theirs / paths.CONSUME_QUEUE_EXT / "%LMQ%a").exists()


def test_pulls_by_sql(ours: Path, tmp_path: Path, peer: ModuleType) -> None:
    """Pulls with SQL92 filters give the same messages, status and next offset, with bitmaps to believe and without."""
    filters = FilterRegistry.load(ours / paths.CONFIG, BloomFilter(), clock_ms=lambda: 1000)
    assert filters.register("orders", "g", SQLS[0], 1)
    filters.persist()
    reput.rebuild(ours, spark=False, config=config(EXT_FILE_SIZE), only="queue")
    asked = [
        {"get": [topic, queue_id, offset, most, f"sql:{sql}"]}
        for topic in TOPICS
        for queue_id in range(2)
        for offset in (0, 7, 40)
        for most in (0, 1, 5, 32)
        for sql in (*SQLS, "TAGS CONTAINS 'a' AND region = 'eu'", "KEYS > 5")
    ]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(one) + "\n" for one in asked), encoding="utf-8")
    theirs = peer.run("ask", ours, questions, *peer.GOLDEN_SETTINGS, *settings(EXT_FILE_SIZE))
    different, found = [], 0
    with reput.MessageStore.open(ours, config(EXT_FILE_SIZE), read_only=True, limits=BROKER_LIMITS) as opened:
        for one, their in zip(asked, theirs, strict=True):
            topic, queue_id, offset, most, sql = one["get"]
            got = opened.get_message(topic, queue_id, offset, most, reput.SqlFilter(sql[4:], group="g"))
            our = [str(got.status), got.next_offset, got.physical_offsets.tolist()]
            found += len(got)
            if our != [their["status"], their["next"], their["phys"]]:
                different.append((one, our, their))
    assert not different
    assert found > 500


def test_it_writes_on(ours: Path, peer: ModuleType) -> None:
    """RocketMQ puts its units after ours, and reput puts its own after those."""
    options = (*peer.GOLDEN_SETTINGS, *settings(EXT_FILE_SIZE))
    appended = peer.run("append", ours, 300, *options)
    assert [appended[count] for count in ("appended", "read_back")] == [300, 300]
    assert_sound(ours, config(EXT_FILE_SIZE))
    with kinds.open_store(ours, config(EXT_FILE_SIZE)) as opened:
        kinds.put_kinds(opened, 300, seed=3)
    assert_sound(ours, config(EXT_FILE_SIZE))
    assert peer.run("open", ours, *options)["load"]
