"""Assignments by the broker: the queues of each member, and whether it pulls or pops them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.remoting import Client
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound

if TYPE_CHECKING:
    from pathlib import Path


def assigned(client: Client, client_id: str, **further: Any) -> list[tuple[int, str]] | None:
    """The queues of a member with their modes; None if the broker does not know."""
    asked = {"topic": "orders", "consumerGroup": "g", "clientId": client_id, "strategyName": "AVG"}
    body = json.dumps({**asked, "messageModel": "CLUSTERING", **further}).encode()
    answer = client.ask(RequestCode.QUERY_ASSIGNMENT, body)
    assert answer.code == ResponseCode.SUCCESS
    found = json.loads(answer.body).get("messageQueueAssignments")
    return None if found is None else [(one["messageQueue"]["queueId"], one["mode"]) for one in found]


def set_mode(client: Client, mode: str = "POP", share: int = 0, topic: str = "orders", group: str = "g") -> int:
    """Set the mode of a group; return the code of the answer."""
    values = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": share}
    return client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, json.dumps(values).encode()).code


def test_members_share_queues(broker: reput.RunningBroker, client: Client) -> None:
    """Each queue has one member, by either strategy; a member that is not online has none."""
    with Client(broker.address) as other:
        client.heartbeat("a", "g", orders="*")
        other.heartbeat("b", "g", orders="*")
        assert assigned(client, "a") == [(0, "PULL"), (1, "PULL")]
        assert assigned(client, "b", strategyName="AVG_BY_CIRCLE") == [(1, "PULL"), (3, "PULL")]
        assert assigned(client, "c") == []
        assert len(assigned(client, "c", messageModel="BROADCASTING") or ()) == 4
        assert assigned(client, "a", strategyName="x") is assigned(client, "a", topic="none") is None
        assert assigned(client, "a", consumerGroup="nobody") is None


def test_members_that_pop_share_all_queues(client: Client) -> None:
    """A group that pops has all queues for each member, or those of some members after it."""
    for number in range(4):
        client.heartbeat(f"c{number}", "g", orders="*")
    assert set_mode(client) == ResponseCode.SUCCESS
    assert assigned(client, "c1") == [(-1, "POP")]
    assert set_mode(client, share=1) == ResponseCode.SUCCESS
    assert assigned(client, "c3") == [(0, "POP"), (3, "POP")]
    assert assigned(client, "c1", topic="%RETRY%g") == [] or assigned(client, "c0", topic="%RETRY%g") == [(0, "PULL")]


def test_modes_are_kept(tmp_path: Path) -> None:
    """A mode is in messageRequestMode.json as RocketMQ writes it, and the next broker has it."""
    path = tmp_path / "store"
    for _ in range(2):
        with reput.serve(path, topics=["orders"]) as broker, Client(broker.address) as client:
            client.heartbeat("c", "g", orders="*")
            answer = client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
            if json.loads(answer.body) != {"messageRequestModeMap": {}}:
                assert assigned(client, "c") == [(-1, "POP")]
            assert set_mode(client, share=2) == ResponseCode.SUCCESS
    values = json.loads((path / "config" / "messageRequestMode.json").read_bytes())
    mode = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2, "topic": "orders"}
    assert values == json.loads(answer.body) == {"messageRequestModeMap": {"orders": {"g": mode}}}
    assert_sound(path)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        (ResponseCode.NO_PERMISSION, {"topic": "%RETRY%g"}),
        (ResponseCode.TOPIC_NOT_EXIST, {"topic": "none"}),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, {"group": "no group"}),
        (ResponseCode.INVALID_PARAMETER, {"mode": "PUSH"}),
    ],
)
def test_modes_that_cannot_be_are_refused(client: Client, code: ResponseCode, wrong: dict[str, str]) -> None:
    """A mode is for a topic that there is, and a group that may be."""
    assert set_mode(client, **wrong) == code  # type: ignore[arg-type]


def test_a_file_of_modes_that_is_damaged_is_kept(tmp_path: Path) -> None:
    """A broker starts without the modes of a damaged file, and a change keeps that file under another name."""
    path = tmp_path / "store"
    with reput.serve(path, topics=["orders"]):
        pass
    (path / "config" / "messageRequestMode.json").write_bytes(b'{"messageRequestModeMap":{"orders":{"g":{"mode":7}}}}')
    with reput.serve(path) as broker, Client(broker.address) as client:
        client.heartbeat("c", "g", orders="*")
        assert assigned(client, "c") == [(number, "PULL") for number in range(4)]
        assert set_mode(client) == ResponseCode.SUCCESS
    assert list(path.glob("config/messageRequestMode.json.damaged-*"))
    assert_sound(path)
