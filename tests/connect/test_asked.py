"""Topics and queues that a reader names must be there: a typing error is an error and no empty frame."""

from __future__ import annotations

import json
import logging
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.connect.cut import asked
from reput.connect.options.options import read_options
from reput.connect.plan import explain
from reput.connect.stream import RocketmqStreamReader, stream_options
from reput.errors import ConfigError, DataLossError
from reput.formats import paths
from support import frames, golden, inner, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOGGER = "reput.connect"

UNKNOWN = [
    ({"topic": "order"}, r"option topic: no topic order in .*\. Near it: orders\. There are: .*, .* and \d+ more"),
    ({"subscribe": "orders,nope"}, "option subscribe: no topic nope in"),
    ({"assign": '{"order": [0]}'}, "option assign: no topic order in .*Near it: orders"),
    ({"assign": '{"orders": [0, 99]}'}, "option assign: no queue 99 of topic orders in .* There are: 0"),
    ({"topic": "%LMQ%orders"}, "option topic: no topic %LMQ%orders in"),
    ({"startingOffsets": '{"order": {"0": 1}}'}, "option startingOffsets: no topic order in .*Near it: orders"),
    ({"endingOffsets": '{"orders": {"0": 2, "98": 5}}'}, "option endingOffsets: no queue 98 of topic orders"),
    ({"startingOffsetsByTimestamp": '{"order": {"0": 1}}'}, "option startingOffsetsByTimestamp: no topic order"),
    ({"subscribe": "a,b,c,d,e"}, "no topic c in .* 2 more are unknown"),
]


def reader(store: Path, **options: Any) -> RocketmqStreamReader:
    """A reader of a store as a stream."""
    return RocketmqStreamReader(read_options(stream_options({"path": str(store), **options})))


@pytest.mark.golden
@pytest.mark.parametrize("scan", ["log", "queue", "auto"])
@pytest.mark.parametrize(("options", "text"), UNKNOWN, ids=lambda value: str(value)[:50])
def test_unknown_names_are_an_error(options: dict[str, str], text: str, scan: str) -> None:
    """However a batch is read, an unknown topic or queue is an error with option, near names and remedies."""
    store = golden.shared("basic")
    with pytest.raises(ConfigError, match=text) as raised:
        frames.plan(store, scan=scan, **options)
    assert "failOnMissingTopic=false reads without it" in str(raised.value)
    assert "rebuild --only queue" in str(raised.value)


@pytest.mark.golden
def test_missing_topics_may_be_allowed() -> None:
    """With failOnMissingTopic=false the topics that are there are read, and the others have no rows."""
    store = golden.shared("basic")
    orders = len(frames.table(store, topic="orders"))
    assert orders
    assert len(frames.table(store, subscribe="orders,nope", failOnMissingTopic="false")) == orders
    for options, _ in UNKNOWN[:1] + UNKNOWN[2:3] + UNKNOWN[4:5]:
        assert len(frames.table(store, failOnMissingTopic="false", **options)) == 0
    for options, _ in UNKNOWN[5:8]:
        assert len(frames.table(store, failOnMissingTopic="false", topic="orders", **options)) > 0


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "crash", "ext", "batch", "double", "rocksdb"])
def test_every_kind_knows_its_topics(name: str) -> None:
    """Each topic that has messages is known, whatever the kind of its queues, and a mistyped one is not."""
    store = golden.shared(name)
    for topic in sorted(set(frames.table(store, columns="topic")["topic"].to_pylist())):
        assert len(frames.table(store, topic=topic, failOnMissingTopic="true")) > 0
        with pytest.raises(ConfigError, match="no topic"):
            frames.plan(store, topic=topic + "x")


@pytest.mark.golden
def test_a_scan_refuses_an_unknown_topic() -> None:
    """`reput.scan` says the same, and reads without it with fail_on_missing_topic=False."""
    store = golden.shared("basic")
    with pytest.raises(ConfigError, match=r"topics: no topic order in .*Near it: orders"):
        reput.scan(store, topics=["order", "clicks"])
    found = reput.scan(store, topics=["order", "clicks"], columns="topic", fail_on_missing_topic=False).read_all()
    assert set(found["topic"].to_pylist()) == {"clicks"}


def indexed_and_more(folder: Path) -> tuple[Path, LogBuilder]:
    """A store whose indexes know the topic orders, and not the later messages of the topic late and a light queue."""
    log = LogBuilder(file_size=1 << 16)
    for number in range(20):
        log.message("orders", queue_id=number % 2)
    store = stores.with_log(folder, log)
    stores.rebuild(store)
    log.message("late", queue_id=3)
    log.message("late", queue_id=3, more={"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"})
    log.write(store)
    return store, log


@pytest.mark.parametrize("scan", ["log", "queue", "auto"])
def test_a_topic_behind_the_indexes_is_known(tmp_path: Path, scan: str) -> None:
    """Topics, queues and light queues that only the log's unindexed end has are there, and others are not."""
    store, _ = indexed_and_more(tmp_path)
    assert len(frames.table(store, scan=scan, topic="late")) == 2
    assert len(frames.table(store, scan=scan, assign='{"late": [3]}')) == 2
    assert len(frames.table(store, scan=scan, topic="%LMQ%a")) == 1
    with pytest.raises(ConfigError, match=r"no topic lat in .*Near it: late\. There are: %LMQ%a, late, orders"):
        frames.plan(store, scan=scan, topic="lat")
    with pytest.raises(ConfigError, match=r"no queue 1 of topic late in .* There are: 3"):
        frames.plan(store, scan=scan, assign='{"late": [1]}')


@pytest.mark.parametrize("scan", ["log", "queue", "auto"])
def test_without_indexes_the_log_tells(tmp_path: Path, scan: str) -> None:
    """A store that has nothing but its log knows the log's topics before a task has run."""
    log = LogBuilder(file_size=1 << 16)
    for number in range(1200):
        log.message("orders" if number else "first")
    store = stores.with_log(tmp_path, log)
    assert len(frames.table(store, scan=scan, topic="first")) == 1
    with pytest.raises(ConfigError, match="no topic order in"):
        frames.plan(store, scan=scan, topic="order")


def test_a_configured_topic_is_known(tmp_path: Path) -> None:
    """A topic of config/topics.json has as many queues as it says, with or without messages."""
    store, _ = indexed_and_more(tmp_path)
    table = {"new": {"readQueueNums": 4, "writeQueueNums": 8}, "huge": {"readQueueNums": 1 << 40}, "odd": 5}
    (store / paths.CONFIG).mkdir(exist_ok=True)
    (store / paths.CONFIG / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    for options in ({"topic": "new"}, {"topic": "odd"}, {"assign": '{"new": [0, 7]}'}, {"assign": '{"huge": [999]}'}):
        assert len(frames.table(store, **options)) == 0
    with pytest.raises(ConfigError, match=r"no queue 8 of topic new in .* There are: 0, 1, 2, 3, 4, 5 and 2 more"):
        frames.plan(store, assign='{"new": [8]}')
    with pytest.raises(DataLossError, match="offset 5 lies outside the queue, 0 to 0"):
        frames.plan(store, startingOffsets='{"new": {"0": 5}}')


def test_lost_queues_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    """A topic whose queues alone are lost is unknown: the error advises a rebuild, and an option reads the log."""
    store, _ = indexed_and_more(tmp_path)
    reput.rebuild(store, spark=False)
    shutil.rmtree(store / paths.CONSUME_QUEUE / "orders")
    with pytest.raises(ConfigError, match="rebuild --only queue"):
        frames.plan(store, topic="orders")
    assert len(frames.table(store, topic="orders", failOnMissingTopic="false")) == 20
    reput.rebuild(store, spark=False)
    assert len(frames.table(store, topic="orders")) == 20


@pytest.mark.golden
def test_a_deleted_topic_is_an_error_with_its_own_remedy(tmp_path: Path) -> None:
    """Readers name the deletion and the command that undoes it, which `rebuild --only queue` does not."""
    store = golden.unpack("basic", tmp_path)
    with reput.MessageStore.open(store, stores.GOLDEN) as opened:
        before = opened.max_offset("orders", 0)
        opened.delete_topic("orders")
    calls: list[Callable[[], object]] = [
        lambda: frames.plan(store, topic="orders"),
        lambda: reput.scan(store, topics="orders"),
        lambda: reput.export(store, tmp_path / "out", topics=["orders"], spark=False),
    ]
    for read in calls:
        with pytest.raises(ConfigError, match=r"no topic orders in .*Deleted with reput.*: orders/0") as raised:
            read()
        assert "`reput rebuild --topic orders` brings them back" in str(raised.value)
        assert "rebuild --only queue" not in str(raised.value)
    with pytest.raises(ConfigError, match="rebuild --only queue"):
        frames.plan(store, topic="nope")
    reput.rebuild(store, topics=["orders"], spark=False, config=stores.GOLDEN)
    assert len(frames.table(store, topic="orders")) == before


def test_a_pattern_without_topics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A pattern that matches nothing is an empty frame with a warning; the option makes it an error, or silent."""
    store, _ = indexed_and_more(tmp_path)
    inner.topics_json(store, {"configured": {}})
    for pattern in ("ord.*", "lat.", "conf.*"):
        frames.plan(store, subscribePattern=pattern)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    # A light queue is read by its name only.
    for pattern in ("nope.*", "%LMQ%.*"):
        caplog.clear()
        assert len(frames.table(store, subscribePattern=pattern)) == 0
        (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert record.name == LOGGER
        assert f"subscribePattern={pattern}: matches no topic in {store}. There are: %LMQ%a" in record.getMessage()
        assert "matches no topic" in explain({"path": str(store), "subscribePattern": pattern})
    caplog.clear()
    assert len(frames.table(store, subscribePattern="nope.*", failOnMissingTopic="false")) == 0
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    with pytest.raises(ConfigError, match="matches no topic"):
        frames.plan(store, subscribePattern="nope.*", failOnMissingTopic="true")


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "order"},
        {"assign": '{"orders": [9]}'},
        {"subscribePattern": "nope.*"},
        {"startingOffsets": '{"orders": {"9": 0}}'},
    ],
    ids=str,
)
def test_a_stream_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, str]) -> None:
    """A stream warns once, as a topic may come later; failOnMissingTopic=true is an error, false says nothing."""
    store, _ = indexed_and_more(tmp_path)
    stream = reader(store, **options)
    start = stream.initialOffset()
    assert stream.latestOffset(start, stream.getDefaultReadLimit())
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.name == LOGGER
    assert "reads its messages when they come" in record.getMessage()
    with pytest.raises(ConfigError, match="failOnMissingTopic=false"):
        reader(store, failOnMissingTopic="true", **options).initialOffset()
    caplog.clear()
    assert reader(store, failOnMissingTopic="false", **options).initialOffset() == start
    # A query that goes on with a checkpoint is not asked for its initial offset.
    reader(store, failOnMissingTopic="false", **options).latestOffset(start, stream.getDefaultReadLimit())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    with pytest.raises(ConfigError, match="failOnMissingTopic"):
        reader(store, failOnMissingTopic="true", **options).latestOffset(start, stream.getDefaultReadLimit())


def test_a_stream_does_not_warn_of_what_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Topics of the queues and of the unindexed end are known to a stream; a long end is not walked for it."""
    store, _ = indexed_and_more(tmp_path)
    for topic in ("orders", "late", "%LMQ%a"):
        reader(store, topic=topic).initialOffset()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asked, "_WALK_BYTES", 10)
        reader(store, topic="late").initialOffset()
        (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert "bytes of the log are not indexed yet, and may have messages of it" in record.getMessage()
        reader(store, topic="late", failOnMissingTopic="true").initialOffset()
