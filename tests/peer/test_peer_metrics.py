"""The metrics of a broker have the names, kinds, labels and numbers of those of RocketMQ's broker."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from typing import TYPE_CHECKING

import psutil
import pytest

import reput
from broker.remoting import Client
from peer import peer as peers
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.metrics import Page
from support.search import takes_long
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.peer

OTHER_LABELS = {"node_id", "otel_scope_name"}
"""Labels that no two brokers share, and one that OpenTelemetry adds."""
SAME_NUMBERS = (
    "rocketmq_messages_in_total",
    "rocketmq_throughput_in_total",
    "rocketmq_message_size_bucket",
    "rocketmq_messages_out_total",
    "rocketmq_throughput_out_total",
    "rocketmq_consumer_lag_messages",
    "rocketmq_consumer_ready_messages",
    "rocketmq_consumer_inflight_messages",
    "rocketmq_consumer_connections",
    "rocketmq_producer_connections",
    "rocketmq_commit_messages_total",
    "rocketmq_rollback_messages_total",
    "rocketmq_broker_permission",
)
"""Numbers that depend on what clients did alone."""


@contextlib.contextmanager
def rocketmq(folder: Path) -> Iterator[tuple[str, str]]:
    """RocketMQ's broker with metrics: the address of the broker, and the page."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"ExporterType": "PROM", "PromExporterHost": "127.0.0.1", "PromExporterPort": port}
    words = [f"metrics{name}={value}" for name, value in settings.items()]
    options = [word for one in words for word in ("--set", one)]
    turn = peers.turn_words("broker", folder / "store", folder, *options)
    with subprocess.Popen(turn, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert b"open" in process.stdout.readline()
            sockets = psutil.Process(process.pid).net_connections("tcp")
            ports = {one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN}
            # A broker listens two below its port, too.
            (own,) = [one for one in ports if one - 2 in ports]
            yield f"127.0.0.1:{own}", f"http://127.0.0.1:{port}/metrics"
        finally:
            process.stdin.close()
            process.stdout.read()
            process.wait(peers.RUN_TIMEOUT_S)


def use(address: str, page: str) -> Page:
    """Do on either broker what clients do; return its page."""
    with Client(address) as client:
        queues = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG"}
        further = {"defaultTopic": "TBW102", "topicSysFlag": 0, "order": False}
        made = client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="orders", **queues, **further)
        assert made.code == ResponseCode.SUCCESS
        client.make_group("readers")
        client.produce("p1", "writers")
        client.heartbeat("c1", "readers", orders="*")
        for size in (1, 100, 2000):
            assert client.put("orders", b"x" * size, properties="UNIQ_KEY\x01u1\x02").code == ResponseCode.SUCCESS
        client.put("orders", b"fifo", properties="__SHARDINGKEY\x01a\x02UNIQ_KEY\x01u2\x02")
        client.put("orders", b"late", properties="DELAY\x0118\x02UNIQ_KEY\x01u3\x02")
        for end in (8, 12):
            half = client.put(
                "orders", b"half", 1, properties=f"TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01h{end}\x02"
            )
            offset = int(half.fields["msgId"][16:], 16)
            fields = {
                "producerGroup": "pg",
                "tranStateTableOffset": half.fields["queueOffset"],
                "commitLogOffset": offset,
            }
            ended = client.ask(RequestCode.END_TRANSACTION, topic="orders", **fields, commitOrRollback=end, msgId="u")
            assert ended.code == ResponseCode.SUCCESS
        wait_until(lambda: client.ask(RequestCode.GET_MAX_OFFSET, topic="orders", queueId=0).fields["offset"] == "4")
        assert client.pull("orders", consumerGroup="readers", maxMsgNums=3).body
        asked = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 1}
        client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **asked)
        return Page.at(page)


def numbers(page: Page, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """The numbers of a metric, by its labels."""
    return {
        frozenset((label, value) for label, value in labels.items() if label not in OTHER_LABELS): number
        for own, labels, number in page.samples
        if own == name
    }


@takes_long
def test_metrics_are_those_of_rocketmq(tmp_path: Path) -> None:
    """After the same requests each metric that both have is of the same kind, with the same labels and numbers."""
    if (reason := peers.available("broker")) is not None:
        pytest.skip(reason)
    with rocketmq(tmp_path) as (address, url):
        theirs = use(address, url)
    with reput.serve(tmp_path / "own", metrics_port=0) as broker:
        ours = use(broker.address, f"http://{broker.metrics_address}/metrics")
    named = {name: kind for name, kind in ours.kinds.items() if name.startswith("rocketmq_")}
    assert named == {name: theirs.kinds[name] for name in named}
    names = {name for name, _, _ in ours.samples if name.startswith("rocketmq_")}
    for name in names:
        assert label_names(ours, name) == label_names(theirs, name), name
    for name in SAME_NUMBERS:
        assert numbers(ours, name) == numbers(theirs, name), name


def label_names(page: Page, name: str) -> set[frozenset[str]]:
    """The sets of labels of a metric's series."""
    return {frozenset(labels) - {"otel_scope_name"} for own, labels, _ in page.samples if own == name}
