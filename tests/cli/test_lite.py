"""`reput lite` and `MessageStore.lite_topics`: lite topics with messages, age, expiry and lag."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.errors import ConfigError
from support import golden, lite_stores
from support.switches import config_of

if TYPE_CHECKING:
    from pathlib import Path

MINUTE_MS = 60_000


def lite(*arguments: object) -> str:
    """The command's output."""
    done = CliRunner().invoke(cli, ["lite", *map(str, arguments)], standalone_mode=False)
    assert done.exception is None, done.exception
    return done.stdout


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with lite topics of two parents, whose last messages are a day old, and progress in one of them."""
    return with_progress(tmp_path, "file")


def with_progress(folder: Path, switches: str) -> Path:
    """The same with the switches of a kind of store."""
    config = config_of(switches, StoreConfig())
    made = lite_stores.make(folder / "store", config, days_ago=1)
    with reput.MessageStore.open(made, config) as opened:
        opened.commit_offset("agents", "%LMQ%$sessions$user-1", 0, 3)
        opened.commit_offset("audit", "%LMQ%$sessions$user-1", 0, 1)
        opened.commit_offset("audit", "orders", 0, 1)
    return made


@pytest.mark.behaviour(
    "AbstractLiteLifecycleManagerTest.testIsLmqExist",
    "LiteLifecycleManagerTest.testGetMaxOffsetInQueue",
    "LiteLifecycleManagerTest.testCollectByParentTopic",
    "LiteLifecycleManagerTest.testGetLiteTopicCount",
    "RocksDBLiteLifecycleManagerTest.testGetMaxOffsetInQueue",
    "RocksDBLiteLifecycleManagerTest.testCollectByParentTopic",
)
@pytest.mark.parametrize("switches", ["file", "rocksdb"])
def test_each_lite_topic_has_its_numbers(switches: str, tmp_path: Path) -> None:
    """Parent, name, messages and times are those of the light queue; the lag is that of the group that lags most."""
    store = with_progress(tmp_path, switches)
    with reput.MessageStore.open(store, read_only=True) as opened:
        found = {(one.parent, one.name): one for one in opened.lite_topics()}
        assert {one.queue.encode() for one in found.values()} == set(lite_stores.LITE_QUEUES)
        for one in found.values():
            (queue,) = opened.queues(one.queue)
            assert (one.min_offset, one.max_offset) == (queue.min_offset, queue.max_offset)
            assert one.first_store_timestamp == opened.store_time(one.queue, 0, one.min_offset)
            assert one.last_store_timestamp == opened.store_time(one.queue, 0, one.max_offset - 1)
        read = found["sessions", "user-1"]
        assert [(one.group, one.lag) for one in read.lags] == [
            ("agents", read.max_offset - 3),
            ("audit", read.max_offset - 1),
        ]
        assert read.lag == read.messages - 1
        assert found["sessions", "user-2"].lag is None
        assert opened.max_offset("%LMQ%$sessions$user-9", 0) == 0
        assert [one.parent for one in opened.lite_topics("forever")] == ["forever"]


@pytest.mark.behaviour(
    "AbstractLiteLifecycleManagerTest.testIsLiteTopicExpired",
    "RocksDBLiteLifecycleManagerTest.testCollectExpiredLiteTopic",
)
@pytest.mark.parametrize("switches", ["file", "rocksdb"])
def test_expiry_is_the_brokers(switches: str, tmp_path: Path) -> None:
    """A lite topic expires after its parent's minutes, not before minLiteTTl, and never where the parent says -1."""
    store = with_progress(tmp_path, switches)
    with reput.MessageStore.open(store, read_only=True) as opened:
        (session, *_), (forever,) = list(opened.lite_topics("sessions")), list(opened.lite_topics("forever"))
        assert (forever.expiration_minutes, forever.expires_timestamp, forever.is_expired) == (-1, None, False)
        assert session.last_store_timestamp is not None
        due = session.last_store_timestamp + lite_stores.EXPIRATION_MINUTES * MINUTE_MS
        expired = [
            next(opened.lite_topics("sessions", at_ms=at_ms)).is_expired for at_ms in (due - 1, due, due + 1, due + 2)
        ]
        assert expired == [False, False, True, True]
        assert session.expires_timestamp == due + 1
        assert session.is_expired
    longer = StoreConfig().updated([f"minLiteTTl={2 * lite_stores.EXPIRATION_MINUTES * MINUTE_MS}"])
    with reput.MessageStore.open(store, longer, read_only=True) as opened:
        assert not next(opened.lite_topics("sessions", at_ms=due + 1)).is_expired


def test_a_parent_without_lite_topics(store: Path, tmp_path: Path) -> None:
    """A parent of type LITE that has none gives nothing; another topic is an error with a similar name."""
    with reput.MessageStore.open(store, read_only=True) as opened, pytest.raises(ConfigError, match="sessions"):
        opened.lite_topics("session")
    with reput.MessageStore.open(golden.unpack("json", tmp_path), read_only=True) as opened:
        assert list(opened.lite_topics("sessions")) == []


def test_the_command_lists_them(store: Path) -> None:
    """The table has a row for each, the totals those that are expired; --json has a line for each."""
    lines = [json.loads(line) for line in lite(store, "--json").splitlines()]
    rows, totals = lines[:-1], lines[-1]
    assert {row["queue"].encode() for row in rows} == set(lite_stores.LITE_QUEUES)
    assert totals["parents"]["sessions"] == {
        "lite_topics": len(lite_stores.USERS),
        "messages": sum(row["messages"] for row in rows if row["parent"] == "sessions"),
        "expired": len(lite_stores.USERS),
    }
    assert totals["parents"]["forever"]["expired"] == 0
    table = lite(store, "-t", "sessions", "--expired")
    assert table.count("(expired)") == len(lite_stores.USERS)
    assert "forever" not in table
    yesterday = time.time_ns() // 1_000_000 - 24 * 60 * MINUTE_MS
    assert "(expired)" not in lite(store, "--at", str(yesterday))
    assert lite(store, "-c", "1").count("user-") == 1


def test_scans_choose_lite_topics(store: Path) -> None:
    """A scan gives the messages of the lite topics that it names, with parent and lite topic as columns."""
    columns = ["topic", "liteTopic", "body"]
    rows = reput.scan(store, topics="sessions", lite_topics=["user-1", "会话"], columns=columns).read_all().to_pylist()
    wanted = [lite_stores.message(number) for number in range(lite_stores.MESSAGES)]
    expected = [
        {"topic": "sessions", "liteTopic": properties["__LITE_TOPIC"], "body": message.body}
        for message in wanted
        if message.topic == "sessions" and (properties := dict(message.properties or {}))["__LITE_TOPIC"] != "user-2"
    ]
    assert sorted(rows, key=lambda row: row["body"]) == sorted(expected, key=lambda row: row["body"])
    everything = reput.scan(store, columns=["topic", "liteTopic"]).read_all().to_pylist()
    assert {row["liteTopic"] for row in everything if row["topic"] == "orders"} == {None}
    assert {row["liteTopic"] for row in everything if row["topic"] == "forever"} == {"user-1"}
    for topics, lite in ((["sessions", "forever"], "user-1"), ("sessions", "a$b"), (None, "user-1")):
        with pytest.raises(ConfigError, match="lite_topics"):
            reput.scan(store, topics=topics, lite_topics=lite)
    with pytest.raises(ConfigError, match="user-9"):
        reput.scan(store, topics="sessions", lite_topics="user-9")
