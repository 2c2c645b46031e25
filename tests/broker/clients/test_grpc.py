"""RocketMQ's Python client, which speaks gRPC, gets from our broker what it has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers, grpc_client
from peer import peer
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

TOPICS = {
    "normal": (4, "NORMAL"),
    "leases": (4, "NORMAL"),
    "push": (4, "NORMAL"),
    "fifo": (4, "FIFO"),
    "delay": (2, "DELAY"),
    "ends": (2, "TRANSACTION"),
}
SEEN = {
    "normal": {
        "got": [[f"n{number}", "even", [f"k{number}"], {"number": str(number)}, 1] for number in range(0, 8, 2)],
        "then": [],
    },
    "leases": {
        "got": [["left", 1], ["left", 2], ["changed", 1], ["changed", 2]],
        "came_early": False,
        "refused": "BadRequestException",
        "then": [],
    },
    "fifo": {"got": [f"f{number}" for number in range(6)], "groups": ["one"]},
    "delay": {"got": ["later"], "came_early": False},
    "transactions": {"got": ["ask", "commit"], "then": []},
    "push": {"got": [[f"p{number}", attempt] for number in range(3) for attempt in (1, 2)], "done": True},
}
"""The outcome of the program, scenario by scenario."""


def test_the_python_client_gets_what_it_has_sent(tmp_path: Path) -> None:
    """Messages of each type, by simple and push consumers; a message comes again if it is not acknowledged."""
    reason = grpc_client.unavailable()
    if reason is not None:
        pytest.skip(reason)
    config = reput.StoreConfig(transaction_check_interval=500, transaction_time_out=2000)
    with reput.serve(tmp_path / "store", topics=TOPICS, config=config, grpc_port=0) as broker:
        assert broker.grpc_address is not None
        with grpc_client.running(broker.grpc_address) as program:
            assert grpc_client.seen_by(program) == SEEN
    assert_sound(tmp_path / "store")


def test_the_python_client_sees_the_same_of_rocketmq(tmp_path: Path) -> None:
    """The same program with RocketMQ's proxy before its broker has the same outcome, scenario by scenario."""
    for reason in (peer.available("broker"), peer.available("proxy"), grpc_client.unavailable()):
        if reason is not None:
            pytest.skip(reason)
    with (
        brokers.rocketmq(tmp_path / "store", tmp_path / "home") as broker,
        brokers.proxied(broker, tmp_path / "proxy") as (serving, _),
    ):
        queues, types = ({topic: given[at] for topic, given in TOPICS.items()} for at in (0, 1))
        brokers.make_topics(serving, queues, types)
        assert serving.grpc is not None
        with grpc_client.running(serving.grpc) as program:
            assert grpc_client.seen_by(program) == SEEN


def test_the_python_client_speaks_tls(tmp_path: Path) -> None:
    """It trusts the certificate that the broker has made."""
    reason = grpc_client.unavailable()
    if reason is not None:
        pytest.skip(reason)
    with reput.serve(topics=["normal"], grpc_port=0, grpc_tls=True) as broker:
        assert broker.grpc_certificate is not None
        trusted = tmp_path / "server.pem"
        trusted.write_bytes(broker.grpc_certificate)
        with grpc_client.running(str(broker.grpc_address), "tls", trusts=trusted) as program:
            assert grpc_client.seen_by(program) == {"got": ["hidden"]}


def test_the_python_client_goes_on_after_the_broker_was_killed(tmp_path: Path) -> None:
    """It sends its settings again only after minutes; its consumers get what is sent before that."""
    reason = grpc_client.unavailable()
    if reason is not None:
        pytest.skip(reason)
    store, topics = tmp_path / "store", ("--topic=normal", "--topic=push")
    with brokers.our_process(store, further=("--grpc-port=0", *topics)) as (first, process):
        assert first.grpc is not None
        with grpc_client.running(first.grpc, "lasting") as program:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            process.kill()
            process.wait()
            again = (f"--port={first.broker.rpartition(':')[2]}", f"--grpc-port={first.grpc.rpartition(':')[2]}")
            with brokers.our_process(store, further=again):
                seen = grpc_client.seen_by(program)
    assert seen == {"simple": ["before", "after"], "push": ["before", "after"]}
    assert_sound(store, brokers.config_of())
