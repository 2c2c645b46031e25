"""A record that is damaged while the broker runs keeps no other message back: it is left out, and the log says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.popping import pop
from broker.remoting import Client
from reput.formats import paths
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pathlib import Path

_QUEUE_ID_AT, _BODY_AT = 12, 88
BAD = b"the body of the bad one"


def damage(store: Path) -> None:
    """Give the first record with the body of the bad message another queue id: it waits."""
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    with path.open("r+b") as file:
        begin = file.read(1 << 16).index(BAD) - _BODY_AT
        file.seek(begin + _QUEUE_ID_AT)
        file.write(b"\0\0\1\1")


@pytest.mark.parametrize("waits", ["delay", "lease"])
def test_one_bad_record_stopped_all_that_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture, waits: str) -> None:
    """Of two messages that wait in one way the good one comes."""
    with reput.serve(tmp_path / "s", topics={"bad": 1, "good": 1}) as broker, Client(broker.address) as client:
        properties = "DELAY\x011\x02" if waits == "delay" else ""
        for topic, body in (("bad", BAD), ("good", b"good")):
            assert client.put(topic, body, properties=properties).code == ResponseCode.SUCCESS
        if waits == "lease":
            assert [one.body for topic in ("bad", "good") for one in pop(client, topic, invisibleTime=1500)]
        damage(tmp_path / "s")
        assert [one.body for one in pop(client, "good", pollTime=20_000)] == [b"good"]
        assert pop(client, "bad") == []
    assert "is left out" in caplog.text
