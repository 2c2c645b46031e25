"""Topics and groups are written together, beside the requests of other clients, and before they are promised."""

from __future__ import annotations

import json
import select
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import reput
from broker.remoting import Client, bodies, send_fields
from reput.broker.state import config_writes
from reput.errors import AccessError, NoSpaceError
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.formats.config.data_version import DataVersion
    from reput.store.metadata.home import Values

R, C = RequestCode, ResponseCode


class Disk:
    """The files of topics and of groups: it counts their writes, which wait while `is_open` is not set."""

    def __init__(self, broker: reput.RunningBroker, patch: pytest.MonkeyPatch) -> None:
        self.writes: list[str] = []
        self.is_open = threading.Event()
        self.is_open.set()
        self.error: Exception | None = None
        for table in (broker._broker.topics, broker._broker.groups):
            home = table._configurations._home
            patch.setattr(home, "write", self._counted(home))

    def _counted(self, home: Any) -> Any:
        write = home.write

        def counted(values: Values, version: DataVersion) -> DataVersion:
            self.writes.append(home.place.name)
            self.is_open.wait()
            if self.error is not None:
                raise self.error
            written: DataVersion = write(values, version)
            return written

        return counted


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with the topic `orders`; its store is sound afterwards."""
    path = tmp_path / "store"
    with reput.serve(path, topics={"orders": 1}) as running:
        yield running
    assert_sound(path)


@pytest.fixture
def disk(broker: reput.RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Its disk."""
    disk = Disk(broker, monkeypatch)
    yield disk
    disk.is_open.set()


def written(broker: reput.RunningBroker, file: str, member: str) -> set[str]:
    """The names in a file of the broker."""
    path = broker.path / "config" / file
    # The first write makes it.
    return set(json.loads(path.read_bytes())[member]) if path.exists() else set()


def is_answered(client: Client) -> bool:
    """True if something has come."""
    return bool(select.select([client.socket], [], [], 0)[0])


def test_a_heartbeat_writes_once(broker: reput.RunningBroker, client: Client, disk: Disk) -> None:
    """A heartbeat with 300 new groups writes the topics once and the groups once, and then it is answered."""
    groups = [f"g{number}" for number in range(300)]
    assert client.beat("c", *({"groupName": group} for group in groups)).code == C.SUCCESS
    assert disk.writes == ["topics.json", "subscriptionGroup.json"]
    assert written(broker, "topics.json", "topicConfigTable") > {f"%RETRY%{group}" for group in groups}
    assert written(broker, "subscriptionGroup.json", "subscriptionGroupTable") >= set(groups)
    client.beat("c", *({"groupName": group} for group in groups))
    assert len(disk.writes) == 2


def test_a_slow_write_disturbs_nobody_else(broker: reput.RunningBroker, client: Client, disk: Disk) -> None:
    """While topics are being written, other clients are served; what comes meanwhile is the next write, and waits."""
    disk.is_open.clear()
    with Client(broker.address) as other, Client(broker.address) as third:
        first = client.send(R.SEND_MESSAGE_V2, b"first", **send_fields("t0"))
        wait_until(lambda: disk.writes)
        numbers = client.send_all(
            [(R.SEND_MESSAGE_V2, b"body", 0, send_fields(f"t{one % 100}")) for one in range(1, 200)]
        )
        beat = third.send(R.HEART_BEAT, json.dumps({"clientID": "c", "consumerDataSet": [{"groupName": "g"}]}).encode())
        wait_until(lambda: broker._broker.config_writes._answers == 201)
        assert other.put("orders").code == C.SUCCESS
        assert disk.writes == ["topics.json"]
        assert not is_answered(client)
        disk.is_open.set()
        assert {client.answer(number).code for number in [first, *numbers]} == {C.SUCCESS}
        assert third.answer(beat).code == C.SUCCESS
    assert sorted(disk.writes) == ["subscriptionGroup.json", "topics.json", "topics.json"]
    assert written(broker, "topics.json", "topicConfigTable") > {f"t{number}" for number in range(100)}
    assert bodies(client.pull("t0"))[0] == b"first"


def test_nobody_hears_of_a_topic_that_is_not_durable(
    broker: reput.RunningBroker, client: Client, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second sender to a topic that is being written waits, too; above the limit it is refused."""
    disk.is_open.clear()
    with Client(broker.address) as second, Client(broker.address) as third:
        first = client.send(R.SEND_MESSAGE_V2, b"body", **send_fields("t"))
        wait_until(lambda: disk.writes)
        again = second.send(R.SEND_MESSAGE_V2, b"body", **send_fields("t"))
        wait_until(lambda: broker._broker.config_writes._answers == 2)
        monkeypatch.setattr(config_writes, "MAX_UNWRITTEN", 2)
        assert third.put("t").code == C.SYSTEM_BUSY
        assert third.put("orders").code == C.SUCCESS
        assert not is_answered(client)
        assert not is_answered(second)
        disk.is_open.set()
        assert client.answer(first).code == second.answer(again).code == C.SUCCESS
        assert third.put("t").code == C.SUCCESS


def test_what_cannot_be_written_is_not_promised(broker: reput.RunningBroker, client: Client, disk: Disk) -> None:
    """A topic that cannot be written is that error; a full disk stops no consumer, and gets its group later."""
    disk.error = NoSpaceError("no room")
    assert client.put("t").code == C.SERVICE_NOT_AVAILABLE
    assert client.heartbeat("c", "g", orders="*").code == C.SUCCESS
    with pytest.raises(reput.ReputError):
        broker.create_topic("made")
    disk.error = AccessError("no permission")
    assert client.heartbeat("c", "h", orders="*").code == C.SYSTEM_ERROR
    disk.error = None
    wait_until(lambda: written(broker, "subscriptionGroup.json", "subscriptionGroupTable") >= {"g", "h"})
    assert written(broker, "topics.json", "topicConfigTable") >= {"t", "made", "%RETRY%g"}


def test_a_mode_was_written_in_the_loop(
    broker: reput.RunningBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the mode of a group is being written, other clients are served; it is promised when it is durable."""
    client.make_group("g")
    modes, is_open, writes = broker._broker.request_modes, threading.Event(), list[bytes]()
    file = modes._file

    def replace(data: bytes, at_ms: int) -> None:
        writes.append(data)
        is_open.wait()
        if len(writes) == 1:
            raise AccessError("no permission")
        file.replace(data, at_ms)

    monkeypatch.setattr(modes, "_file", SimpleNamespace(replace=replace))
    wanted = {"topic": "orders", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0}
    body = json.dumps(wanted).encode()
    number = client.send(R.SET_MESSAGE_REQUEST_MODE, body)
    wait_until(lambda: writes)
    try:
        with Client(broker.address) as other:
            assert other.put("orders").code == C.SUCCESS
        assert not is_answered(client)
    finally:
        is_open.set()
    assert client.answer(number).code == C.SYSTEM_ERROR
    assert client.ask(R.SET_MESSAGE_REQUEST_MODE, body).code == C.SUCCESS
    assert written(broker, "messageRequestMode.json", "messageRequestModeMap") == {"orders"}
