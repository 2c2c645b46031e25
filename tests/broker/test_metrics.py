"""`/metrics`: what a broker counts and how far its groups are, as Prometheus reads it."""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
import time
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import reput
from broker.remoting import Client, records, send_fields
from reput.broker import metrics, server
from reput.broker.state import statistics
from reput.broker.state.statistics import MessageKind
from reput.broker.wire import pages
from reput.formats.log.record import decode_message_id
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.prometheus import CONTENT_TYPE
from reput.formats.wire.remoting import IS_ONE_WAY, RemotingFrame, encode
from support.metrics import Page
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

R, C = RequestCode, ResponseCode


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with metrics and the topic `orders`."""
    with reput.serve(tmp_path / "store", topics={"orders": 2}, metrics_port=0) as running:
        yield running


@pytest.mark.behaviour(
    "BrokerStatsManagerTest.testGetStatsItem",
    "BrokerStatsManagerTest.testIncTopicPutNums",
    "BrokerStatsManagerTest.testIncTopicPutSize",
)
def test_messages_are_counted_by_topic_and_kind(broker: reput.RunningBroker, client: Client) -> None:
    """A stored message counts with the bytes of its record, and half and delayed messages count in their topics."""
    for size in (1, 2000):
        client.put("orders", b"x" * size)
    client.put("orders", properties="__SHARDINGKEY\x01a\x02")
    client.put("orders", properties="DELAY\x0118\x02")
    client.put("orders", properties="TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01u\x02")
    page = Page.of(broker)
    counted = {
        (topic, kind): page.value("rocketmq_messages_in_total", topic=topic, message_type=kind, is_system=system)
        for topic, kind, system in (
            ("orders", "normal", "false"),
            ("orders", "fifo", "false"),
            ("SCHEDULE_TOPIC_XXXX", "delay", "true"),
            ("RMQ_SYS_TRANS_HALF_TOPIC", "transaction", "true"),
        )
    }
    assert list(counted.values()) == [2, 1, 1, 1]
    sizes = [record.size for record in records(client.pull("orders"))][:2]
    normal = {"topic": "orders", "message_type": "normal"}
    assert page.value("rocketmq_throughput_in_total", **normal) == sum(sizes)
    assert page.value("rocketmq_message_size_sum", **normal) == sum(sizes)
    assert page.value("rocketmq_message_size_bucket", **normal, le="1024.0") == 1
    assert page.value("rocketmq_message_size_bucket", **normal, le="4096.0") == 2


def test_sends_of_one_read_and_batches_are_counted(broker: reput.RunningBroker, client: Client) -> None:
    """Messages that were stored together count one by one."""
    numbers = client.send_all([(R.SEND_MESSAGE_V2, b"body", 0, send_fields("orders")) for _ in range(50)])
    assert {client.answer(number).code for number in numbers} == {C.SUCCESS}
    assert Page.of(broker).value("rocketmq_messages_in_total", topic="orders", message_type="normal") == 50


def test_a_delayed_message_counts_for_its_topic_when_it_comes(broker: reput.RunningBroker, client: Client) -> None:
    """It leaves the schedule topic for its own, with the size of its record there."""
    client.put("orders", b"late", properties="DELAY\x011\x02")
    wait_until(lambda: Page.of(broker).get("rocketmq_messages_in_total", topic="orders", message_type="delay"))
    (record,) = records(client.pull("orders"))
    page = Page.of(broker)
    assert page.value("rocketmq_throughput_in_total", topic="orders", message_type="delay") == record.size
    left = {"topic": "SCHEDULE_TOPIC_XXXX", "consumer_group": "SCHEDULE_CONSUMER", "is_system": "true"}
    assert page.value("rocketmq_messages_out_total", **left) == 1


@pytest.mark.behaviour(
    "BrokerStatsManagerTest.testIncGroupGetNums",
    "BrokerStatsManagerTest.testIncGroupGetSize",
)
def test_a_group_has_its_lag(broker: reput.RunningBroker, client: Client) -> None:
    """A group has metrics for messages delivered, committed and waiting, and for the age of the first that waits."""
    client.heartbeat("c1", "readers", orders="*")
    for _ in range(5):
        client.put("orders", b"body", 1)
    client.pull("orders", 1, consumerGroup="readers", maxMsgNums=3)
    asked = {"consumerGroup": "readers", "topic": "orders", "queueId": 1, "commitOffset": 1}
    client.ask(R.UPDATE_CONSUMER_OFFSET, **asked)
    time.sleep(0.02)
    page = Page.of(broker)
    group = {"consumer_group": "readers", "topic": "orders", "is_retry": "false", "is_system": "false"}
    assert page.value("rocketmq_consumer_lag_messages", **group) == 4
    assert page.value("rocketmq_consumer_inflight_messages", **group) == 2
    assert page.value("rocketmq_consumer_ready_messages", **group) == 2
    assert page.value("rocketmq_consumer_lag_latency_milliseconds", **group) >= 20
    assert page.value("rocketmq_consumer_queueing_latency_milliseconds", **group) >= 20
    given = {"consumer_group": "readers", "topic": "orders"}
    assert page.value("rocketmq_messages_out_total", **given) == 3
    online = {"consumer_group": "readers", "consume_mode": "push", "language": "python", "version": "v5_5_0"}
    assert page.value("rocketmq_consumer_connections", **online) == 1
    client.pull("orders", 1, consumerGroup="readers", queueOffset=3)
    client.ask(R.UPDATE_CONSUMER_OFFSET, **{**asked, "commitOffset": 5})
    page = Page.of(broker)
    assert page.value("rocketmq_consumer_lag_latency_milliseconds", **group) == 0
    assert page.value("rocketmq_consumer_lag_messages", **group) == 0


def test_a_group_for_which_nothing_waits_has_no_latency(broker: reput.RunningBroker, client: Client) -> None:
    """A group whose pulls this broker has not seen yet, as after a restart, waits for nothing: its first age is 0."""
    client.heartbeat("c1", "readers", orders="*")
    client.put("orders", b"body", 1)
    client.ask(R.UPDATE_CONSUMER_OFFSET, consumerGroup="readers", topic="orders", queueId=1, commitOffset=1)
    time.sleep(0.02)
    page, group = Page.of(broker), {"consumer_group": "readers", "topic": "orders", "is_retry": "false"}
    assert page.value("rocketmq_consumer_ready_messages", **group) == 0
    assert page.value("rocketmq_consumer_queueing_latency_milliseconds", **group) == 0


def test_transactions_and_dead_letters_are_counted(broker: reput.RunningBroker, client: Client) -> None:
    """Commits and rollbacks count by topic, a message after its last try by group and topic."""
    for kind in (8, 12, 12):
        half = client.put("orders", properties=f"TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01u{kind}\x02")
        offset = (decode_message_id(half.fields["msgId"]) or pytest.fail("no id"))[1]
        ended = {"producerGroup": "pg", "tranStateTableOffset": half.fields["queueOffset"], "commitLogOffset": offset}
        assert client.ask(R.END_TRANSACTION, **ended, commitOrRollback=kind, msgId="u").code == C.SUCCESS
    (record,) = records(client.pull("orders"))
    back = {"offset": record.physical_offset, "group": "readers", "delayLevel": -1}
    assert client.ask(R.CONSUMER_SEND_MSG_BACK, **back).code == C.SUCCESS
    page = Page.of(broker)
    assert page.value("rocketmq_commit_messages_total", topic="orders") == 1
    assert page.value("rocketmq_rollback_messages_total", topic="orders") == 2
    assert page.value("rocketmq_send_to_dlq_messages_total", consumer_group="readers", topic="orders") == 1


def test_answers_are_counted_with_their_time(broker: reput.RunningBroker, client: Client) -> None:
    """Each answer counts under the names of its codes; codes that nobody knows count as one."""
    client.put("orders")
    client.pull("orders", 1, sysFlag=6, suspendTimeoutMillis=30)
    for code in (9_999, 77_777):
        assert client.ask(code).code == C.REQUEST_CODE_NOT_SUPPORTED
    client.send(R.SEND_MESSAGE_V2, b"body", frame_flag=IS_ONE_WAY, **send_fields("orders"))
    client.put("orders")
    page = Page.of(broker)
    name = "rocketmq_rpc_latency_milliseconds_count"
    sent = {"request_code": "send_message_v2", "response_code": "success"}
    assert page.value(name, **sent, result="success") == 2
    assert page.value(name, **sent, result="oneway") == 1
    assert page.value(name, request_code="other", response_code="request_code_not_supported") == 2
    held = {"request_code": "pull_message", "response_code": "pull_not_found", "is_long_polling": "true"}
    assert page.value(name, **held) == 1
    assert page.value("rocketmq_rpc_latency_milliseconds_bucket", **held, le="10.0") == 0


def test_connections_that_the_broker_closes_are_counted(broker: reput.RunningBroker) -> None:
    """Each has a reason; the open ones are counted, too."""
    with Client(broker.address) as fine, Client(broker.address) as wrong:
        wrong.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            wrong.receive()
        fine.put("orders")
        page = Page.of(broker)
    assert page.value("reput_connections_closed_total", reason="no_frame") == 1
    assert page.value("reput_connections") == 1


def test_many_refused_connections_have_few_lines(
    broker: reput.RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A flood of connections does not flood the log: the rest of a second has one line with their number."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 0)
    for _ in range(200):
        with pytest.raises(ConnectionResetError), Client(broker.address) as client:
            client.receive()
    closed = Page.of(broker).value("reput_connections_closed_total", reason="too_many")
    wait_until(lambda: "further lines" in caplog.text)
    assert (closed, len(caplog.records) < 100) == (200, True)


def test_prometheus_reads_the_page(broker: reput.RunningBroker, client: Client) -> None:
    """Prometheus' own parser takes every line, and no series comes twice."""
    parser = pytest.importorskip("prometheus_client.parser", reason="pip install prometheus_client")
    client.put("orders")
    client.heartbeat("c1", "readers", orders="*")
    client.produce("p1", "writers")
    with urlopen(f"http://{broker.metrics_address}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        text = answer.read().decode()
    samples = [sample for one in parser.text_string_to_metric_families(text) for sample in one.samples]
    series = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(series) == len(set(series)) > 40


def test_without_a_port_there_are_no_metrics(tmp_path: Path) -> None:
    """Metrics are off by default, and a port that is taken is refused before the store is opened."""
    with reput.serve(tmp_path / "store") as broker:
        assert broker.metrics_address is None
    refused = pytest.raises(reput.ConfigError, match="cannot listen on")
    with socket.create_server(("127.0.0.1", 0)) as taken, refused:
        reput.serve(tmp_path / "other", metrics_port=taken.getsockname()[1])
    assert not (tmp_path / "other").exists()


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "status"),
    [(b"GET / HTTP/1.1", 404), (b"POST /metrics HTTP/1.1", 405), (b"PRI * HTTP/2.0", 405), (b"GET", 404)],
)
def test_another_request_is_refused(broker: reput.RunningBroker, asked: bytes, status: int) -> None:
    """Another path, another method, HTTP/2 and a request without a path have their status."""
    with _connected(broker) as connection:
        connection.sendall(asked + b"\r\n\r\n")
        assert connection.recv(1 << 16).startswith(f"HTTP/1.1 {status} ".encode())


def test_head_has_no_body(broker: reput.RunningBroker) -> None:
    """HEAD answers the length alone."""
    with urlopen(Request(f"http://{broker.metrics_address}/metrics", method="HEAD"), timeout=30) as answer:
        assert (int(answer.headers["Content-Length"]) > 100, answer.read()) == (True, b"")


def test_a_request_that_never_ends_is_closed(broker: reput.RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that is too long, and one that does not come, end the connection; the next one is answered."""
    monkeypatch.setattr(pages, "PAGE_TIME_OUT_S", 0.1)
    with _connected(broker) as long, _connected(broker) as slow:
        slow.sendall(b"GET /metrics")
        long.sendall(b"x" * 3 * pages.MAX_REQUEST)
        for connection in (long, slow):
            with pytest.raises(ConnectionResetError):
                _read_to_end(connection)
    monkeypatch.undo()
    assert Page.of(broker).value("reput_connections") == 0


@pytest.mark.parametrize(
    ("sent", "named", "remedy"),
    [
        (b"\x16\x03\x01", "it sent TLS", "ask for http://"),
        (encode(RemotingFrame(R.HEART_BEAT)), "it sent a frame of the remoting protocol", "the broker's own address"),
        (b"\x05\x01\x00", "it sent what is no request of HTTP", "the port of /metrics"),
    ],
    ids=["TLS", "remoting", "other"],
)
def test_another_protocol_is_closed_at_once(
    broker: reput.RunningBroker, caplog: pytest.LogCaptureFixture, sent: bytes, named: str, remedy: str
) -> None:
    """A client that speaks another protocol to the page is closed before it says all; the first one has a line."""
    for _ in range(2):
        with _connected(broker) as connection:
            connection.sendall(sent)
            with pytest.raises(ConnectionResetError):
                _read_to_end(connection)
    (line,) = [record for record in caplog.records if "closed: " in record.getMessage()]
    assert (line.name, line.levelname) == ("reput.broker", "WARNING")
    assert named in line.getMessage()
    assert remedy in line.getMessage()
    assert Page.of(broker).value("reput_connections") == 0


@pytest.mark.behaviour("BrokerStatsManagerTest.testOnTopicDeleted")
def test_counts_of_a_topic_go_with_it(broker: reput.RunningBroker, client: Client) -> None:
    """A topic that is deleted has no counts any more, and does not get any. The sums stay, and no rate is negative."""
    counts = broker._broker.statistics
    for _ in range(3):
        client.put("passing")
    client.pull("passing", consumerGroup="readers")
    counts.became_dead_letter("readers", "passing")
    for is_commit in (True, False):
        counts.transaction_ended("passing", is_commit=is_commit)
    counts.sample()
    sums = counts.put_messages, counts.put_bytes, counts.given_messages
    assert (sums[0], sums[2]) == (3, 3)
    assert client.ask(R.DELETE_TOPIC_IN_BROKER, topic="passing").code == C.SUCCESS
    counts.sample()
    assert counts.put_rate("passing") == 0
    counts.put("passing", MessageKind.DELAY, 1, 100)
    counts.gave("passing", "readers", 1, 100)
    counts.became_dead_letter("readers", "passing")
    counts.transaction_ended("passing", is_commit=True)
    tables = (counts.taken, counts.given, counts.pulled, counts.dead_letters, counts.committed, counts.rolled_back)
    assert not any("passing" in (key if isinstance(key, tuple) else (key,)) for table in tables for key in table)
    assert (counts.put_messages, counts.put_bytes, counts.given_messages) == (4, sums[1] + 100, 4)


def test_counts_by_group_are_bounded(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above MAX_COUNTED pairs of topic and group, and queues of groups, they begin anew; the sums stay."""
    monkeypatch.setattr(statistics, "MAX_COUNTED", 2)
    client.put("orders")
    counts = broker._broker.statistics
    for group in ("one", "two", "one", "three"):
        client.pull("orders", consumerGroup=group)
        counts.became_dead_letter(group, "orders")
    assert list(counts.given) == [("orders", "three")]
    assert list(counts.pulled) == [("three", "orders", 0)]
    assert list(counts.dead_letters) == [("three", "orders")]
    assert counts.given_messages == 4


def test_lags_are_bounded(broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above MAX_LAG_QUEUES queues of groups the lags of further topics are left out, and the page says how many."""
    for topic in ("orders", "more"):
        client.put(topic)
    client.heartbeat("c", "g", orders="*", more="*")
    assert Page.of(broker).value("reput_lag_queues_left_out") == 0
    monkeypatch.setattr(metrics, "MAX_LAG_QUEUES", 5)
    page = Page.of(broker)
    assert page.value("reput_lag_queues_left_out") == 4
    labels = {"consumer_group": "g", "is_retry": "false", "is_system": "false"}
    assert page.value("rocketmq_consumer_lag_messages", topic="orders", **labels) == 0
    assert page.get("rocketmq_consumer_lag_messages", topic="more", **labels) is None


def test_further_connections_are_closed(broker: reput.RunningBroker) -> None:
    """The number of open connections has a limit."""
    waiting = [_connected(broker) for _ in range(pages.MAX_PAGE_CONNECTIONS)]
    try:
        with _connected(broker) as further:
            assert further.recv(1) == b""
    finally:
        for connection in waiting:
            connection.close()
    wait_until(lambda: _is_answered(broker))


def test_a_connection_for_the_page_was_left_open_by_the_brokers_end(tmp_path: Path) -> None:
    """Connections that wait for their request, and one that does not read, end with the broker."""
    with reput.serve(tmp_path / "store", metrics_port=0) as broker:
        waiting = [_connected(broker) for _ in range(3)]
        waiting[0].sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert Page.of(broker).get("reput_connections") is not None
    # Python warns of a socket that nobody has closed, and a warning fails a test.
    gc.collect()
    for connection in waiting:
        with connection, contextlib.suppress(ConnectionResetError):
            while connection.recv(1 << 16):
                pass


def test_an_error_of_a_page_does_not_end_the_broker(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that cannot be made is a 500, and clients are served on."""
    monkeypatch.setattr(type(broker._broker.statistics), "taken", property(lambda _: 1 / 0), raising=False)
    with pytest.raises(HTTPError, match="500"):
        urlopen(f"http://{broker.metrics_address}/metrics", timeout=30)
    monkeypatch.undo()
    assert client.put("orders").code == C.SUCCESS


def _connected(broker: reput.RunningBroker) -> socket.socket:
    assert broker.metrics_address is not None
    host, _, port = broker.metrics_address.partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def _read_to_end(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass
    raise ConnectionResetError


def _is_answered(broker: reput.RunningBroker) -> bool:
    try:
        return bool(Page.of(broker).get("reput_connections") is not None)
    except OSError:
        return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_connection_that_began_while_the_broker_ended_had_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections that are accepted while the broker ends end without an error, of theirs or of a task that is left."""
    raised: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: raised.append(one.exc_type))
    for number in range(5):
        with contextlib.ExitStack() as clients, reput.serve(tmp_path / str(number), metrics_port=0) as broker:
            assert broker.metrics_address is not None
            host, _, port = broker.metrics_address.partition(":")
            for _ in range(40):
                clients.enter_context(socket.create_connection((host, int(port))))
        gc.collect()
    # Not even a ResourceWarning: a socket that the listener has accepted in its last turn is closed, too.
    assert not raised
    assert not [record for record in caplog.records if record.name == "asyncio"]
