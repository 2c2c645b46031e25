"""RocketMQ's Python client, which speaks gRPC, gets from our broker what it has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers, grpc_client
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

TOPICS = {"normal": 4, "leases": 4, "fifo": (4, "FIFO"), "delay": (2, "DELAY"), "ends": (2, "TRANSACTION"), "push": 4}


def test_the_python_client_gets_what_it_has_sent(tmp_path: Path) -> None:
    """Messages of each type, by simple and push consumers; a message comes again if it is not acknowledged."""
    reason = grpc_client.unavailable()
    if reason is not None:
        pytest.skip(reason)
    config = reput.StoreConfig(transaction_check_interval=500, transaction_time_out=2000)
    with reput.serve(tmp_path / "store", topics=TOPICS, config=config, grpc_port=0) as broker:
        assert broker.grpc_address is not None
        with grpc_client.running(broker.grpc_address) as program:
            seen = grpc_client.seen_by(program)
    evens = [[f"n{number}", "even", [f"k{number}"], {"number": str(number)}, 1] for number in range(0, 8, 2)]
    assert seen["normal"] == {"got": evens, "then": []}
    assert seen["leases"] == {
        "got": [["left", 1], ["left", 2], ["changed", 1], ["changed", 2]],
        "came_early": False,
        "refused": "BadRequestException",
        "then": [],
    }
    assert seen["fifo"] == {"got": [f"f{number}" for number in range(6)], "groups": ["one"]}
    assert seen["delay"] == {"got": ["later"], "came_early": False}
    assert seen["transactions"] == {"got": ["ask", "commit"], "then": []}
    assert seen["push"] == {"got": [[f"p{number}", attempt] for number in range(3) for attempt in (1, 2)], "done": True}
    assert_sound(tmp_path / "store")


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
