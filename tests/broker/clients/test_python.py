"""Our own client sees of RocketMQ's broker what it sees of ours, and sends what RocketMQ's Java client sends."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.clients import brokers
from broker.clients.run import java_words, prefix_of, run
from reput.broker.server import BrokerServer
from reput.formats.wire.codes import RequestCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from broker.clients.brokers import Serving
    from reput.broker.wire.connection import Connection
    from reput.formats.wire.remoting import RemotingFrame

pytestmark = pytest.mark.clients

R = RequestCode
TOPICS = {"sent": 4, "tags": 2, "sql": 2, "retry": 1, "later": 1, "ends": 1, "shared": 4}
LIMIT_S = 60.0


def take(consumer: reput.Consumer, count: int) -> list[reput.ReceivedMessage]:
    """Poll until there are this many messages, and commit them."""
    found: list[reput.ReceivedMessage] = []
    deadline = time.monotonic() + LIMIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += consumer.poll(count - len(found))
    consumer.commit(found)
    return found


def consumer_of(serving: Serving, topic: str, wanted: str | reput.SqlFilter = "*", **further: Any) -> reput.Consumer:
    """A consumer of one topic, from its first message on, in a group of the topic's name."""
    return reput.Consumer(f"{topic}-readers", serving.namesrv, {topic: wanted}, start_at="first", **further)


def outcomes(serving: Serving) -> dict[str, Any]:
    """Everything that the client sees of a broker, by scenario; nothing that differs from run to run."""
    brokers.make_topics(serving, TOPICS)
    with reput.Producer(
        "python-senders", serving.namesrv, timeout_s=10, check=lambda one: one.body == b"yes"
    ) as sender:
        return {
            "sends": _sends(serving, sender),
            "tags": _tags(serving, sender),
            "sql": _sql(serving, sender),
            "retry": _retry(serving, sender),
            "later": _later(serving, sender),
            "ends": _ends(serving, sender),
            "shared": _shared(serving, sender),
            "refused": _refused(sender),
        }


def _sends(serving: Serving, sender: reput.Producer) -> list[Any]:
    long = b"x" * 10_000
    single = [sender.send(reput.Message("sent", b"%d" % n, keys=f"k{n}")) for n in range(8)]
    batch = sender.send_batch([reput.Message("sent", b"b%d" % n, tags="b") for n in range(20)])
    keyed = [sender.send(reput.Message("sent", long), order_key="key") for _ in range(3)]
    futures = [sender.submit(reput.Message("sent", b"f%d" % n)) for n in range(20)]
    sender.send_one_way(reput.Message("sent", b"gone"))
    places = [(one.queue_id, one.queue_offset) for one in [*single, *batch, *keyed, *(one.result() for one in futures)]]
    assert len(set(places)) == 51
    with consumer_of(serving, "sent") as consumer:
        got = take(consumer, 52)
    by_place = {(one.queue_id, one.queue_offset): one for one in got}
    assert [by_place[place].body for place in places[:8]] == [b"%d" % n for n in range(8)]
    assert all(by_place[one.queue_id, one.queue_offset].message_id == one.message_id for one in (*single, *batch))
    names = Counter(name for one in got if one.tags != "b" for name in one.properties)
    return [
        sorted(one.body for one in got),
        len({one.queue_id for one in single}),
        {one.queue_id for one in keyed},
        names,
    ]


def _tags(serving: Serving, sender: reput.Producer) -> list[bytes]:
    sender.send_batch([reput.Message("tags", b"%d" % n, tags="abAB"[n % 4]) for n in range(12)])
    with consumer_of(serving, "tags", "a || B") as consumer:
        return sorted(one.body for one in take(consumer, 6))


def _sql(serving: Serving, sender: reput.Producer) -> list[Any]:
    for number in range(10):
        sender.send(reput.Message("sql", b"%d" % number, properties={"amount": str(number)}))
    with consumer_of(serving, "sql", reput.SqlFilter("amount BETWEEN 3 AND 5")) as consumer:
        return sorted(one.body for one in take(consumer, 3))


def _retry(serving: Serving, sender: reput.Producer) -> list[Any]:
    sender.send(reput.Message("retry", b"bad", tags="t", keys="k"))
    seen: list[Any] = []
    with consumer_of(serving, "retry", most_tries=2) as consumer:
        for _ in range(3):
            deadline = time.monotonic() + LIMIT_S
            while not (got := consumer.poll()):
                assert time.monotonic() < deadline, seen
            seen.append((got[0].topic, got[0].body, got[0].tags, got[0].keys, got[0].reconsume_times))
            consumer.retry(got[0], delay_level=1)
    dead = reput.Consumer("undertakers", serving.namesrv, {"%DLQ%retry-readers": "*"}, start_at="first")
    with dead as consumer:
        return [*seen, take(consumer, 1)[0].body]


def _later(serving: Serving, sender: reput.Producer) -> list[Any]:
    begin_ms = int(time.time() * 1000)
    sender.send(reput.Message("later", b"level"), delay_level=2)
    sender.send(reput.Message("later", b"delay"), delay_ms=2000)
    sender.send(reput.Message("later", b"time"), deliver_at_ms=begin_ms + 3000)
    with consumer_of(serving, "later") as consumer:
        got = take(consumer, 3)
    return [sorted(one.body for one in got), all(one.store_timestamp >= begin_ms + 900 for one in got)]


def _ends(serving: Serving, sender: reput.Producer) -> list[bytes]:
    with sender.transaction(reput.Message("ends", b"committed")):
        pass
    with contextlib.suppress(ZeroDivisionError), sender.transaction(reput.Message("ends", b"rolled back")):
        1 / 0  # noqa: B018
    for body in (b"yes", b"no"):
        with sender.transaction(reput.Message("ends", body)) as transaction:
            transaction.end(None)
    with consumer_of(serving, "ends") as consumer:
        got = take(consumer, 2)
        assert consumer.poll(timeout_s=2.0) == []
    return sorted(one.body for one in got)


def _shared(serving: Serving, sender: reput.Producer) -> list[Any]:
    with consumer_of(serving, "shared") as first:
        with consumer_of(serving, "shared") as second:
            for consumer in (first, second):
                consumer.start()
            wait_until(lambda: _own(first) + _own(second) == [2, 2])
            for number in range(40):
                sender.send(reput.Message("shared", b"%d" % number), queue_id=number % 4)
            bodies = [one.body for one in take(second, 20)]
        wait_until(lambda: _own(first) == [4])
        bodies += [one.body for one in take(first, 20)]
        assert first.poll(timeout_s=1.0) == []
    return sorted(bodies)


def _own(consumer: reput.Consumer) -> list[int]:
    return [len([one for one in consumer.assigned if not one.topic.startswith("%")])]


def _refused(sender: reput.Producer) -> list[Any]:
    found = []
    for message in (reput.Message("SCHEDULE_TOPIC_XXXX", b"x"),):
        with pytest.raises((reput.BrokerError, reput.NoRouteError)) as caught:
            sender.send(message)
        found.append(caught.value.code)
    return found


@pytest.mark.usefixtures("programs")
def test_our_client_sees_of_rocketmq_what_it_sees_of_ours(tmp_path: Path) -> None:
    """Sends, filters, retries, delays, transactions and shares have one outcome with both brokers."""
    with brokers.rocketmq(tmp_path / "theirs", tmp_path / "home") as serving:
        assert serving.namesrv != serving.broker
        theirs = outcomes(serving)
    with brokers.ours(tmp_path / "ours") as serving:
        ours = outcomes(serving)
    assert theirs["ends"] == [b"committed", b"yes"]
    assert [one[4] for one in theirs["retry"][:3]] == [0, 1, 2]
    assert len(theirs["shared"]) == 40
    assert ours == theirs
    assert_sound(tmp_path / "ours", brokers.config_of())


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("which", ["rocketmq", "ours"])
def test_a_group_has_members_in_java_and_python(which: str, tmp_path: Path) -> None:
    """Each has its share of the queues; when the Java member is killed, ours gets them all."""
    prefix = prefix_of("5.5.0")
    topic, group = f"{prefix}rebalance", f"{prefix}rebalance-group"
    side = brokers.rocketmq(tmp_path / "s", tmp_path / "h") if which == "rocketmq" else brokers.ours(tmp_path / "s")
    with side as serving:
        brokers.make_topics(serving, {topic: 4})
        with reput.Consumer(group, serving.namesrv, {topic: "*"}, start_at="first") as consumer:
            consumer.start()
            wait_until(lambda: _own(consumer) == [4])
            words = [*java_words("client", tmp_path / "java"), "reput.clients.Member", serving.namesrv, prefix]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as java:
                wait_until(lambda: _own(consumer) == [2], most_s=LIMIT_S)
                java.kill()
            wait_until(lambda: _own(consumer) == [4], most_s=LIMIT_S)


@pytest.mark.usefixtures("programs")
def test_our_client_sends_what_the_java_client_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields of each request's header are some that the Java client sends, and all that it always sends."""
    seen: dict[int, set[frozenset[str]]] = {}
    serve = BrokerServer.serve

    def noting(self: BrokerServer, connection: Connection, asked: Sequence[RemotingFrame]) -> int:
        for one in asked:
            if not one.is_answer:
                seen.setdefault(one.code, set()).add(frozenset(one.fields))
        return serve(self, connection, asked)

    monkeypatch.setattr(BrokerServer, "serve", noting)
    with brokers.ours(tmp_path / "store") as serving:
        run("5.5.0", serving, "java-", ["send", "push", "sql", "retry", "transaction"], tmp_path / "java")
        java = dict(seen)
        seen.clear()
        outcomes(serving)
    both = set(seen) & set(java)
    assert both >= {R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE, R.PULL_MESSAGE, R.HEART_BEAT, R.END_TRANSACTION}
    assert both >= {R.CONSUMER_SEND_MSG_BACK, R.UPDATE_CONSUMER_OFFSET, R.QUERY_CONSUMER_OFFSET, R.CHECK_CLIENT_CONFIG}
    for code in sorted(both):
        always, ever = frozenset.intersection(*java[code]), frozenset.union(*java[code])
        for fields in seen[code]:
            assert (code, always - fields, fields - ever) == (code, set(), set())
