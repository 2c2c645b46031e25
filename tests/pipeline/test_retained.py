"""Queues whose records have all expired keep their numbers: they must never restart under a committed offset."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats import paths
from reput.formats.consume_queue import Entry, encode_entry
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

FILE = 2048


def expired_log() -> LogBuilder:
    """A log whose first file holds all of topic `old` and half of topic `live`."""
    log = LogBuilder(FILE)
    for _ in range(5):
        log.message("old", queue_id=1)
    for _ in range(2):
        log.message("live")
    log.roll()
    for _ in range(5):
        log.message("live")
    return log


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with both indexes, whose first log file has expired since."""
    store = stores.with_log(tmp_path, expired_log())
    stores.rebuild(store)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    return store


def write_config(store: Path, name: str, text: str) -> None:
    """A file of the store's config folder."""
    (store / paths.CONFIG).mkdir(exist_ok=True)
    (store / paths.CONFIG / name).write_text(text)


TOPICS = json.dumps({"topicConfigTable": {"old": {"topicName": "old"}, "live": {}, "far": {}}})
# fastjson, which the broker uses, writes whole-number keys without quotes.
OFFSETS = '{"offsetTable":{"old@g1":{1:3,2:9},"old@g2":{1:4},"live@g1":{0:6},"gone@g1":{0:5},"odd@a@b":{0:5}}}'


def pre_blanks(store: Path, topic: str, queue_id: int) -> int:
    """How many entries a queue has that holds nothing but pre-blanks; it starts with its first file."""
    first, found = stores.entries(store, topic, queue_id)
    assert all(entry.is_pre_blank for entry in found)
    return first + len(found)


def test_old_queue_tells(store: Path) -> None:
    """The old queue's end is kept: an empty queue whose next message gets the next number."""
    report = stores.rebuild(store)
    assert pre_blanks(store, "old", 1) == 5
    assert [text.split(" (")[0] for text in report.retained_queues] == ["old/1 goes on at 5"]
    assert report.warnings == []
    first, found = stores.entries(store, "live")
    assert (first, [entry.is_pre_blank for entry in found]) == (0, [True] * 2 + [False] * 5)
    assert report.queues == 2


def test_again_tells_the_same(store: Path) -> None:
    """What was kept is kept at the next rebuild, too."""
    stores.rebuild(store)
    once = stores.indexes(store)
    stores.rebuild(store, split_mb=0.0002)
    assert stores.indexes(store) == once


def test_committed_offsets_stand_in(store: Path) -> None:
    """Without the old queue the highest committed offset is kept, for topics that the broker has, with a warning."""
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    write_config(store, "topics.json", TOPICS)
    write_config(store, "consumerOffset.json", OFFSETS)
    report = stores.rebuild(store)
    assert pre_blanks(store, "old", 1) == 4
    assert pre_blanks(store, "old", 2) == 9
    assert len(report.warnings) == 2
    assert "old/1" in report.warnings[0]
    assert "consumerOffset.json" in report.warnings[0]
    assert sorted(path.name for path in (store / paths.CONSUME_QUEUE).iterdir()) == ["live", "old"]


@pytest.mark.parametrize("bad", ["", "{", "[1]", "null", "\x00" * 50])
def test_backup_stands_in(bad: str, store: Path) -> None:
    """Where a config file is missing or no JSON its .bak is read, as the broker does."""
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    write_config(store, "topics.json", bad)
    write_config(store, "topics.json.bak", TOPICS)
    write_config(store, "consumerOffset.json.bak", OFFSETS)
    if bad:
        write_config(store, "consumerOffset.json", bad)
    stores.rebuild(store)
    assert pre_blanks(store, "old", 1) == 4


@pytest.mark.parametrize(
    "offsets",
    [
        '{"offsetTable":{"old@g":{1:-5}}}',
        '{"offsetTable":{"old@g":{1:4611686018427387904}}}',
        '{"offsetTable":{"old@g":{1:"9"}}}',
        '{"offsetTable":{"old@g":{-1:9,"01":9,"x":9}}}',
        '{"offsetTable":{"../x@g":{0:9}}}',
        '{"offsetTable":[1,2]}',
        '{"offsetTable":{"old@g":7,"old":{1:9}}}',
        "[" * 100_000,
    ],
)
def test_hostile_offsets_are_passed_over(offsets: str, store: Path) -> None:
    """Offsets that no queue of this log can have, and names that lead elsewhere, are passed over."""
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    write_config(store, "topics.json", json.dumps({"topicConfigTable": {"old": {}, "../x": {}}}))
    write_config(store, "consumerOffset.json", offsets)
    report = stores.rebuild(store)
    assert report.retained_queues == []
    assert [path.name for path in (store / paths.CONSUME_QUEUE).iterdir()] == ["live"]


def test_old_queue_comes_before_committed_offsets(store: Path) -> None:
    """The old queue knows better than the consumers."""
    write_config(store, "topics.json", TOPICS)
    write_config(store, "consumerOffset.json", OFFSETS)
    stores.rebuild(store)
    assert pre_blanks(store, "old", 1) == 5


def test_restarted_queue_is_not_retained(tmp_path: Path) -> None:
    """A queue that has a record in the log is told by it alone, whatever the old queue was."""
    log = LogBuilder(FILE)
    log.message()
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    stores.rebuild(store)
    assert stores.positions(store) == [0]


def test_kept_queue_at_a_file_border(tmp_path: Path) -> None:
    """A queue that ended with a full file goes on with an empty next one, whose name tells its number."""
    log = LogBuilder(FILE)
    for _ in range(10):
        log.message("old")
    log.roll()
    log.message("live")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    for _ in range(2):
        stores.rebuild(store)
        assert stores.entries(store, "old") == (10, [])


def test_topic_lists_hold_for_kept_queues(store: Path) -> None:
    """A topic that is not asked for keeps its own files, expired or not."""
    before = stores.digest(store, inodes=True)
    stores.rebuild(store, topics=["live"])
    after = stores.digest(store, inodes=True)
    name = f"consumequeue/old/1/{paths.offset_name(0)}"
    assert before[name] == after[name]
    stores.rebuild(store, skip_topics=["live"])
    assert pre_blanks(store, "old", 1) == 5


def test_an_unbelievable_old_queue_is_warned_about(tmp_path: Path) -> None:
    """A queue whose old end no log of this size can explain is not kept, and the report says so."""
    store = tmp_path / "store"
    log = LogBuilder(8192)
    log.message("orders")
    log.write(store)
    folder = store / "consumequeue" / "gone" / "0"
    folder.mkdir(parents=True)
    start = 50_000_000 * 20
    (folder / f"{start:020d}").write_bytes(encode_entry(Entry(100, 200, 0)) + bytes(5980))

    report = reput.rebuild(store, spark=False)
    assert not (store / "consumequeue" / "gone").exists()
    assert any("gone/0" in warning and "50000001" in warning for warning in report.warnings)
