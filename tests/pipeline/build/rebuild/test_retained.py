"""Queues whose records have all expired keep their numbers: they must never restart under a committed offset."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats import paths
from reput.formats.queue.consume_queue import LAST_BLANK_SIZE, Entry, encode_entry
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from reput.pipeline.build.rebuild_report import RebuildReport

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
    stores.forget_given_offsets(store)
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
    """Return the number of entries of a queue of blanks alone, the last of which lets RocketMQ continue."""
    first, found = stores.entries(store, topic, queue_id)
    assert all(entry.is_pre_blank for entry in found)
    assert [entry.size for entry in found[-1:]] in ([], [LAST_BLANK_SIZE])
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
    """A numbering that was kept is kept at the next rebuild, too."""
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
    """A config file that is missing or no JSON is replaced by its .bak, as in the broker."""
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
    report = reput.rebuild(store, spark=False, config=stores.SMALL)
    assert report.retained_queues == []
    found = reput.check(store, spark=False, config=stores.SMALL).findings
    assert {one.rule for one in found} <= {"metadata-damaged"}
    assert [path.name for path in (store / paths.CONSUME_QUEUE).iterdir()] == ["live"]


def test_old_queue_comes_before_committed_offsets(store: Path) -> None:
    """The old queue knows better than the consumers."""
    write_config(store, "topics.json", TOPICS)
    write_config(store, "consumerOffset.json", OFFSETS)
    stores.rebuild(store)
    assert pre_blanks(store, "old", 1) == 5


def test_restarted_queue_is_not_retained(tmp_path: Path) -> None:
    """A queue that has a record in the log is built from the log alone, whatever the old queue was."""
    log = LogBuilder(FILE)
    log.message()
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    stores.rebuild(store)
    assert stores.positions(store) == [0]


def test_kept_queue_at_a_file_border(tmp_path: Path) -> None:
    """A queue that ended with a full file continues with an empty next one, whose name has its number."""
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


# --- messages that are lost in gaps --------------------------------------------------------------


def damaged(tmp_path: Path, entries: int = 12) -> tuple[Path, LogBuilder]:
    """A rebuilt store whose queue `topic/0` has its last four messages in the second log file, which is garbage now."""
    log = LogBuilder(FILE)
    for _ in range(entries - 4):
        log.message()
        log.message("other")
    log.roll()
    for _ in range(4):
        log.message()
    log.roll()
    log.message("other")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    stores.forget_given_offsets(store)
    (store / paths.COMMIT_LOG / paths.offset_name(log._files[-2].start)).write_bytes(b"no record" * 227 + b"12345")
    return store, log


def warnings_of(report: RebuildReport, queue: str) -> list[str]:
    """The warnings that speak of a queue."""
    return [text for text in report.warnings if text.startswith(f"{queue}:")]


@pytest.mark.parametrize("split_mb", [128, 0.0005])
def test_lost_messages_keep_their_numbers(split_mb: float, tmp_path: Path) -> None:
    """A queue whose last entries point into a gap continues its numbering after them, also at the next run."""
    store, log = damaged(tmp_path)
    for _ in range(2):
        report = stores.rebuild(store, salvage=True, split_mb=split_mb)
        assert stores.positions(store) == [p.offset for p in log.placed if p.record.topic == b"topic"][:8] + [None] * 4
        assert stores.entries(store)[1][-1].size == LAST_BLANK_SIZE
        assert any("topic/0 goes on at 12 (messages 8 to 11 are lost)" in text for text in report.retained_queues)
        assert len(warnings_of(report, "topic/0")) == 1
        assert warnings_of(report, "other/0") == []
        (topic,) = [topic for topic in report.topics if topic.topic == "topic"]
        assert (topic.entries, topic.max_offset) == (8, 12)


def test_a_check_takes_kept_numbers_for_sound(tmp_path: Path) -> None:
    """After salvage the log is what is damaged; the blanks that keep a numbering are no damage of the queue."""
    store, _ = damaged(tmp_path)
    stores.rebuild(store, salvage=True)
    found = reput.check(store, spark=False, config=stores.SMALL).findings
    assert [one.rule for one in found if one.severity == "damage" and not one.rule.startswith("log-")] == []


def test_lost_messages_at_the_logs_end(tmp_path: Path) -> None:
    """The same where garbage is the end of the log: with salvage the numbering goes on, without it is a torn end."""
    store, log = damaged(tmp_path)
    (store / paths.COMMIT_LOG / paths.offset_name(log._files[-1].start)).unlink()
    plain = stores.copy(store, tmp_path / "plain")
    stores.rebuild(store, salvage=True)
    assert stores.positions(store)[8:] == [None] * 4
    stores.rebuild(plain)
    assert len(stores.positions(plain)) == 8


def test_the_committed_offset_is_told(tmp_path: Path) -> None:
    """A consumer above the end that a queue now has is named with its queue, old end, new end and offset."""
    store, _ = damaged(tmp_path)
    write_config(store, "topics.json", json.dumps({"topicConfigTable": {"topic": {}, "other": {}}}))
    write_config(store, "consumerOffset.json", '{"offsetTable":{"topic@g":{0:12},"other@g":{0:30}}}')
    report = stores.rebuild(store, salvage=True)
    assert "committed" not in warnings_of(report, "topic/0")[0]
    (text,) = warnings_of(report, "other/0")
    assert "ends at 9 now; the highest committed offset is 30" in text
    stores.forget_given_offsets(store)
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    (text,) = warnings_of(stores.rebuild(store, salvage=True), "topic/0")
    assert "ends at 8 now; the highest committed offset is 12" in text


def test_another_generation_is_not_kept(tmp_path: Path) -> None:
    """Old entries that point to good places of the log are of another queue: none is kept, and that is reported."""
    store, _ = damaged(tmp_path)
    path = store / paths.CONSUME_QUEUE / "topic" / "0" / paths.offset_name(200)
    data = path.read_bytes()
    path.write_bytes(data[:20] + encode_entry(Entry(0, 111, 0)) + data[40:])
    report = stores.rebuild(store, salvage=True)
    assert len(stores.positions(store)) == 8
    (text,) = warnings_of(report, "topic/0")
    assert "ended at queue offset 12, ends at 8 now" in text
