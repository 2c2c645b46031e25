"""RocketMQ's own Java client 5.5.0 sends to and consumes from a broker of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker import clients
from peer import peer
from reput.formats.record import decode_message_id
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 20
LARGE = 60_000


@pytest.fixture(scope="module", autouse=True)
def java() -> None:
    """The Java client; skips where Maven or Java is missing."""
    reason = peer.available("client")
    if reason is not None:
        pytest.skip(reason)


def texts(*kinds: str) -> list[str]:
    """The messages of the scenario `send` as the consumers report them."""
    found = [f"{kind} {kind}{number} {kind}-{number}" for kind in kinds for number in range(COUNT)]
    return sorted(found)


def test_the_java_client_sends_and_consumes(tmp_path: Path) -> None:
    """What the client sends, in each of its ways, its consumers get, each once; the store is sound."""
    path = tmp_path / "store"
    wanted = sorted([*texts("sync", "oneway", "batch"), f"large large0 large {LARGE}"])
    with reput.serve(path, topics={"orders": 4}) as broker:
        sent = clients.run("send", broker.address, "orders", COUNT, logs=tmp_path)
        pushed = clients.run("push", broker.address, "orders", len(wanted), logs=tmp_path)
        pulled = clients.run("litepull", broker.address, "orders", len(wanted), logs=tmp_path)
        only = clients.run("push", broker.address, "orders", COUNT, "batch || none", "taggers", logs=tmp_path)
    assert pushed["got"] == pulled["got"] == wanted
    assert only["got"] == texts("batch")
    assert sent["batch"][0] == "SEND_OK"
    with reput.MessageStore.open(path, read_only=True) as store:
        for line in sent["sent"]:
            offset_id, unique_key, queue_id, queue_offset, status = line.split()
            host, offset = decode_message_id(offset_id) or pytest.fail(offset_id)
            assert (str(host), status) == (broker.address, "SEND_OK")
            (message,) = store.get_message("orders", int(queue_id), int(queue_offset), 1)
            assert (message.physical_offset, message.unique_key) == (offset, unique_key)
        for queue_id in range(4):
            end = store.max_offset("orders", queue_id)
            committed = {group: store.query_offset(group, "orders", queue_id) for group in ("pushers", "pullers")}
            assert committed == dict.fromkeys(committed, end)
    assert_sound(path)


def test_a_topic_is_made_by_its_first_message(tmp_path: Path) -> None:
    """A send to an unknown topic makes it with the client's 4 queues; a consumer then gets all."""
    path = tmp_path / "store"
    with reput.serve(path) as broker:
        sent = clients.run("send", broker.address, "fresh", COUNT, logs=tmp_path)
        got = clients.run("push", broker.address, "fresh", 3 * COUNT + 1, logs=tmp_path)["got"]
    assert {line.split()[2] for line in sent["sent"]} == {"0", "1", "2", "3"}
    assert len(got) == 3 * COUNT + 1
    assert_sound(path)
