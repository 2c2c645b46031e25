"""RocketMQ's Java clients with binary headers, and with access keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers
from broker.clients.brokers import Serving
from broker.clients.run import PROGRAMS, SEEN, prefix_of, run, topics_of
from peer import peer
from reput.broker.server import BrokerServer
from reput.formats.wire.remoting import BINARY_HEADER
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reput.broker.wire.connection import Connection
    from reput.formats.wire.remoting import RemotingFrame

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("programs")]

BINARY = ("-Drocketmq.serialize.type=ROCKETMQ",)
NAMES = ("send", "tags", "sql", "retry", "transaction", "ask")
KEY, SECRET = "client-key", "its-secret"


@pytest.mark.parametrize("version", PROGRAMS)
def test_a_client_with_binary_headers_sees_what_it_sees_with_rocketmq(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome of each scenario is that with RocketMQ's broker, and the headers of its requests are binary."""
    prefix, came = f"binary-{prefix_of(version)}", Counter[int]()
    with brokers.rocketmq(tmp_path / "theirs", tmp_path / "home") as serving:
        theirs = run(version, serving, prefix, NAMES, tmp_path / "their-clients", jvm=BINARY)
    serve = BrokerServer.serve

    def counted(server: BrokerServer, connection: Connection, frames: Sequence[RemotingFrame]) -> int:
        came.update(frame.header_type for frame in frames)
        return serve(server, connection, frames)

    monkeypatch.setattr(BrokerServer, "serve", counted)
    with brokers.ours(tmp_path / "ours") as serving:
        ours = run(version, serving, prefix, NAMES, tmp_path / "our-clients", jvm=BINARY)
    for name in NAMES:
        assert SEEN[name](theirs.outcome(name)), theirs.outcome(name)
        assert ours.outcome(name) == theirs.outcome(name)
    assert came[BINARY_HEADER] > 100
    assert_sound(tmp_path / "ours", brokers.config_of())


def test_a_client_that_signs_is_served(tmp_path: Path) -> None:
    """With RocketMQ's own hook producers and consumers work; with another secret the first request is refused."""
    version = next(version for version, program in PROGRAMS.items() if program == "client")
    prefix, path = "signed-", tmp_path / "store"
    keys = (f"-Dreput.accessKey={KEY}", f"-Dreput.secretKey={SECRET}")
    with reput.serve(path, topics=topics_of(prefix), config=brokers.config_of(), access_keys={KEY: SECRET}) as broker:
        serving = Serving("reput", broker.address, broker.address, path)
        signed = run(version, serving, prefix, ("tags", "retry"), tmp_path / "signed", jvm=keys, makes_topics=False)
        wrong = (*keys[:1], f"-Dreput.secretKey={SECRET}2")
        refused = run(version, serving, prefix, ("send",), tmp_path / "refused", jvm=wrong, makes_topics=False)
    for name in ("tags", "retry"):
        assert SEEN[name](signed.outcome(name)), signed.outcome(name)
    with pytest.raises(peer.PeerError, match="send: "):
        refused.outcome("send")
    assert_sound(path, brokers.config_of())
