"""Requests that are signed with access keys, as RocketMQ's clients sign them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client, send_fields
from reput.broker.wire.access import AccessKeys, read_access_keys
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.remoting import RemotingFrame
from reput.formats.wire.signature import signature_of
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

R, C = RequestCode, ResponseCode
KEY, SECRET = "rocketmq2", "12345678"


def signed(
    client: Client, code: int, body: bytes, secret: str = SECRET, key: str = KEY, **named: object
) -> RemotingFrame:
    """Send a request with the signature of a secret."""
    fields = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in named.items()}
    fields["AccessKey"] = key
    signature = signature_of(fields, body, secret.encode()).decode()
    return client.ask(code, body, **fields, Signature=signature)


def test_a_signature_is_rocketmqs() -> None:
    """Values by the order of their names, then the body, under HMAC-SHA1: a value computed apart from this code."""
    fields = {"topic": "orders", "AccessKey": KEY, "b": "2", "Signature": "left out"}
    # printf 'rocketmq22ordersbody' | openssl dgst -sha1 -hmac 12345678 -binary | base64
    assert signature_of(fields, b"body", SECRET.encode()) == b"lREGY1c60R8v69RRJGCR4DuAv+8="


def test_only_signed_requests_are_served(tmp_path: Path) -> None:
    """Routes and sends with a right signature are served; without one, or another secret, key or body, it is 16."""
    with (
        reput.serve(tmp_path / "store", topics=["orders"], access_keys={KEY: SECRET}) as broker,
        Client(broker.address) as client,
    ):
        sent = send_fields("orders")
        assert signed(client, R.SEND_MESSAGE_V2, b"body", **sent).code == C.SUCCESS
        assert signed(client, R.GET_ROUTEINFO_BY_TOPIC, b"", topic="orders").code == C.SUCCESS
        refused = [
            client.ask(R.SEND_MESSAGE_V2, b"body", **sent),
            client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="orders"),
            client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="orders", AccessKey=KEY, Signature="AAAA"),
            client.ask(999, AccessKey=KEY),
            signed(client, R.SEND_MESSAGE_V2, b"body", "87654321", **sent),
            signed(client, R.SEND_MESSAGE_V2, b"body", SECRET, "somebody", **sent),
        ]
        assert {one.code for one in refused} == {C.NO_PERMISSION}
        assert signed(client, R.GET_MAX_OFFSET, b"", topic="orders", queueId=0).fields["offset"] == "1"


def test_a_wrong_signature_had_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A connection has one line, with its reason; a second's lines above ten are counted in one."""
    own = "request 105 is refused: The accessKey is null. Further requests of the connection are not logged"

    def seen() -> tuple[int, int]:
        lines = [record.getMessage() for record in caplog.records]
        others = [re.match(r"(\d+) further lines in a second, the last one: .*" + own, line) for line in lines]
        return sum(line.endswith(own) and "further lines" not in line for line in lines), sum(
            int(found[1]) for found in others if found
        )

    with reput.serve(access_keys={KEY: SECRET}) as broker:
        for _ in range(14):
            with Client(broker.address) as client:
                for _ in range(2):
                    assert client.ask(R.GET_ROUTEINFO_BY_TOPIC, topic="orders").code == C.NO_PERMISSION
        wait_until(lambda: sum(seen()) == 14)
    assert seen()[0] >= 10


@pytest.mark.parametrize(("version", "is_served"), [(399, True), (401, False), (511, False)])
def test_a_query_by_unique_key_of_old_clients_was_refused(version: int, is_served: bool) -> None:
    """Clients up to 4.9.3 do not sign `_UNIQUE_KEY_QUERY`, later ones do; so has RocketMQ's broker."""
    fields = {"AccessKey": KEY, "topic": "orders"}
    fields["Signature"] = signature_of(fields, b"", SECRET.encode()).decode()
    frame = RemotingFrame(R.QUERY_MESSAGE, fields={**fields, "_UNIQUE_KEY_QUERY": "true"}, version=version)
    assert (AccessKeys({KEY: SECRET}).refusal_of(frame) is None) == is_served


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    """A line has a key and its secret; errors name the line, and no error has a secret."""
    path = tmp_path / "keys"
    path.write_text(f"# people\n\n{KEY} {SECRET}\n")
    assert read_access_keys(path) == {KEY: SECRET}
    path.write_text("one two three-secret\n")
    with pytest.raises(reput.ConfigError, match="line 1") as found:
        read_access_keys(path)
    assert "three-secret" not in str(found.value)
    path.write_text(f"{KEY} {SECRET}\n{KEY} other-secret\n")
    with pytest.raises(reput.ConfigError, match="line 2: the key of this line comes twice"):
        read_access_keys(path)
    for wrong_text in ("", f"{KEY} short\n"):
        path.write_text(wrong_text)
        with pytest.raises(reput.ConfigError, match=re.escape(str(path))):
            reput.serve(tmp_path / "store", access_keys=path)
    with pytest.raises(reput.ConfigError, match="no such file"):
        read_access_keys(tmp_path / "missing")
    for wrong in ({}, {KEY: "short"}, {"k": SECRET}):
        with pytest.raises(reput.ConfigError) as found:
            AccessKeys(wrong)
        assert SECRET not in str(found.value)
