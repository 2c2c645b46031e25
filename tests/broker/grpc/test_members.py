"""Clients of gRPC are members of their groups while they live, and are known by what they say of themselves."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import reput
from broker.grpc.stubs import GrpcClient, message, publishing, subscribing
from broker.remoting import Client
from reput.broker.grpc import clients, server
from reput.broker.grpc.protocol import service_pb2 as protocol
from reput.broker.grpc.protocol.definition_pb2 import ClientType, Code, Resource, Settings
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

KEY, SECRET = "rocketmq5", "12345678"


def members(remoting: Client, group: str) -> list[str]:
    """The client ids of a consumer group."""
    answer = remoting.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
    return json.loads(answer.body)["consumerIdList"] if answer.code == ResponseCode.SUCCESS else []


def test_a_producer_gets_its_settings(client: GrpcClient) -> None:
    """Its number of tries and the largest body are the broker's; its own values come back."""
    with client.telemetry() as stream:
        settings = stream.give(publishing("orders", "fifo"))
    assert [one.name for one in settings.publishing.topics] == ["orders", "fifo"]
    assert (settings.publishing.max_body_size, settings.publishing.validate_message_type) == (4 << 20, True)
    assert (settings.backoff_policy.max_attempts, settings.metric.on) == (3, False)
    assert settings.backoff_policy.exponential_backoff.max.seconds == 1


def test_a_consumer_gets_the_settings_of_its_group(client: GrpcClient, remoting: Client) -> None:
    """Its order, its number of tries, and the waits between them are those of the group's configuration."""
    body = {"groupName": "ordered", "consumeMessageOrderly": True, "retryMaxTimes": 3}
    waits = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1500, "multiplier": 3}}
    body["groupRetryPolicy"] = waits
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert remoting.ask(code, json.dumps(body).encode()).code == ResponseCode.SUCCESS
    with client.telemetry() as stream:
        plain = stream.give(subscribing("readers", kind=ClientType.PUSH_CONSUMER))
        ordered = stream.give(subscribing("ordered", kind=ClientType.PUSH_CONSUMER))
    assert (plain.subscription.fifo, plain.subscription.receive_batch_size) == (False, 32)
    assert (plain.backoff_policy.max_attempts, plain.subscription.long_polling_timeout.seconds) == (17, 20)
    waits_s = [one.seconds for one in plain.backoff_policy.customized_backoff.next]
    assert (waits_s[:5], waits_s[-1], len(waits_s)) == ([1, 5, 10, 30, 60], 7200, 18)
    assert (ordered.subscription.fifo, ordered.backoff_policy.max_attempts) == (True, 4)
    backoff = ordered.backoff_policy.exponential_backoff
    assert (backoff.initial.ToMilliseconds(), backoff.max.seconds, backoff.multiplier) == (1500, 7200, 3)


def test_membership_begins_with_settings_and_ends_with_the_client(client: GrpcClient, remoting: Client) -> None:
    """A heartbeat needs settings before it; a client that changes its group leaves the old one."""
    group = Resource(name="readers")
    beat = protocol.HeartbeatRequest(group=group, client_type=ClientType.SIMPLE_CONSUMER)
    assert client.call("Heartbeat", beat).status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    with client.telemetry() as stream:
        stream.give(subscribing("readers"))
        assert members(remoting, "readers") == [client.client_id]
        stream.give(subscribing("others"))
        assert (members(remoting, "readers"), members(remoting, "others")) == ([], [client.client_id])
        assert client.call("Heartbeat", beat).status.code == Code.OK
        ended = client.call("NotifyClientTermination", protocol.NotifyClientTerminationRequest(group=group))
        assert ended.status.code == Code.OK
        assert members(remoting, "others") == []
    assert client.call("Heartbeat", beat).status.code == Code.UNRECOGNIZED_CLIENT_TYPE


def test_a_client_that_is_silent_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was killed goes soon after its stream; one that is heard from stays."""
    monkeypatch.setattr(server, "_SWEEP_S", 0.05)
    with reput.serve(topics=["orders"], grpc_port=0) as other:
        assert other.grpc_address is not None
        with GrpcClient(other.grpc_address) as lasting, Client(other.address) as asking, lasting.telemetry() as stream:
            stream.give(subscribing("lasting"))
            with GrpcClient(other.grpc_address) as killed, killed.telemetry() as one:
                one.give(subscribing("killed"))
                assert members(asking, "killed") == [killed.client_id]
            # Not before: a client whose stream has not begun yet would be gone, too.
            monkeypatch.setattr(clients, "GONE_S", 0.0)
            wait_until(lambda: members(asking, "killed") == [])
            assert members(asking, "lasting") == [lasting.client_id]


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_client_that_was_ended_begins_again_on_its_stream(client: GrpcClient, remoting: Client) -> None:
    """Settings that come after its end made a member that no heartbeat could keep."""
    group = Resource(name="readers")
    beat = protocol.HeartbeatRequest(group=group, client_type=ClientType.SIMPLE_CONSUMER)
    with client.telemetry() as stream:
        stream.give(subscribing("readers"))
        client.call("NotifyClientTermination", protocol.NotifyClientTerminationRequest(group=group))
        stream.give(subscribing("readers"))
        assert members(remoting, "readers") == [client.client_id]
        assert client.call("Heartbeat", beat).status.code == Code.OK
        client.call("NotifyClientTermination", protocol.NotifyClientTerminationRequest(group=group))
        assert members(remoting, "readers") == []


def test_the_stream_of_a_client_that_is_silent_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that lives opens another one; the others would fill the calls that are served at a time."""
    monkeypatch.setattr(server, "_SWEEP_S", 0.05)
    monkeypatch.setattr(clients, "GONE_S", 0.3)
    with reput.serve(topics=["orders"], grpc_port=0) as other:
        assert other.grpc_address is not None
        with GrpcClient(other.grpc_address) as silent, silent.telemetry() as stream:
            assert list(stream.call) == []
            assert stream.call.code() == grpc.StatusCode.OK


def test_the_settings_of_all_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are too many end their stream; a client that sends others, or ends, makes room."""
    monkeypatch.setattr(clients, "MAX_SETTINGS_BYTES", 1500)
    group = Resource(name="readers")
    end = protocol.NotifyClientTerminationRequest(group=group)
    large = subscribing("readers", tags="t" * 1000)
    with reput.serve(topics=["orders"], grpc_port=0) as other:
        assert other.grpc_address is not None
        first, second = GrpcClient(other.grpc_address), GrpcClient(other.grpc_address)
        with first, second, first.telemetry() as stream:
            stream.give(large)
            with second.telemetry() as refused, pytest.raises(grpc.RpcError, match="TOO_MANY_REQUESTS"):
                refused.give(large)
            stream.give(subscribing("readers"))
            with second.telemetry() as served:
                served.give(large)
                assert second.call("NotifyClientTermination", end).status.code == Code.OK
            stream.give(large)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(client_type=ClientType.PRODUCER), "BAD_REQUEST"),
        (publishing("no topic"), "ILLEGAL_TOPIC"),
        (subscribing("no group"), "ILLEGAL_CONSUMER_GROUP"),
        (subscribing("CID_RMQ_SYS_TRANS"), "ILLEGAL_CONSUMER_GROUP"),
        (subscribing("readers", ["SCHEDULE_TOPIC_XXXX"]), "ILLEGAL_TOPIC"),
        (subscribing("readers", kind=ClientType.PULL_CONSUMER), "UNRECOGNIZED_CLIENT_TYPE"),
        (subscribing("readers", tags="t" * 300_000), "BAD_REQUEST"),
    ],
)
@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_settings_that_cannot_be_end_the_stream(
    client: GrpcClient, remoting: Client, settings: Settings, words: str
) -> None:
    """Its status has the protocol's code, and the client is no member."""
    with client.telemetry() as stream:
        with pytest.raises(grpc.RpcError) as caught:
            stream.give(settings)
        assert stream.call.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert words in str(caught.value)
    assert members(remoting, "readers") == []


@pytest.mark.parametrize("client_id", ["", "  ", "c" * 1025])
@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_a_call_names_its_client(broker: reput.RunningBroker, client_id: str) -> None:
    """One without an id, or with one that is too long, is refused."""
    assert broker.grpc_address is not None
    with GrpcClient(broker.grpc_address, client_id) as client:
        assert client.send(message()).status.code == Code.CLIENT_ID_REQUIRED


@pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
def test_calls_that_are_not_served_say_so(client: GrpcClient) -> None:
    """Each by the protocol's code, so that the client's error names it; an unknown one by gRPC's own."""
    for name in ("UpdateOffset", "GetOffset", "QueryOffset"):
        answer = client.call(name, getattr(protocol, f"{name}Request")())
        assert (answer.status.code, name in answer.status.message) == (Code.UNSUPPORTED, True)
    (answer,) = client.stream("PullMessage", protocol.PullMessageRequest())
    assert answer.status.code == Code.UNSUPPORTED
    stub = client.channel.unary_unary(f"/{server.SERVICE}/Unheard")
    with pytest.raises(grpc.RpcError) as caught:
        stub(b"", timeout=20)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def authorization(time: str, secret: str = SECRET, key: str = KEY) -> str:
    """The text by which RocketMQ's clients sign a time."""
    signature = hmac.new(secret.encode(), time.encode(), hashlib.sha1).hexdigest()
    return f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({}, Code.UNAUTHORIZED),
        ({"authorization": "Basic x"}, Code.UNAUTHORIZED),
        ({"authorization": authorization("T", secret="00000000")}, Code.UNAUTHORIZED),
        ({"authorization": authorization("T", key="somebody")}, Code.UNAUTHORIZED),
        ({"authorization": authorization("another time")}, Code.UNAUTHORIZED),
        ({"authorization": authorization("T")}, Code.OK),
        ({"authorization": authorization("T").upper().replace("CREDENTIAL", "Credential")}, Code.UNAUTHORIZED),
    ],
)
def test_only_signed_calls_are_served_with_access_keys(tmp_path: Path, metadata: dict[str, str], code: Code) -> None:
    """A call and a stream are served if they are signed with the secret of a known key."""
    topics = ["orders"]
    with reput.serve(tmp_path / "store", topics=topics, access_keys={KEY: SECRET}, grpc_port=0) as broker:
        assert broker.grpc_address is not None
        with GrpcClient(broker.grpc_address, x_mq_date_time="T", **metadata) as client:
            assert client.send(message()).status.code == code
            with client.telemetry() as stream:
                if code == Code.OK:
                    assert stream.give(publishing("orders")).publishing.max_body_size > 0
                else:
                    with pytest.raises(grpc.RpcError):
                        stream.give(publishing("orders"))
                    assert stream.call.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_signature_is_that_of_rocketmqs_clients() -> None:
    """A value computed apart from this code: printf T | openssl dgst -sha1 -hmac 12345678."""
    assert authorization("T").endswith("Signature=0ad19fbad2651beb8594d51a5b70c0032a9fc32e")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"grpc_port": -1}, "port -1: give 0 to 65535"),
        ({"grpc_port": "8081"}, "port '8081': give a whole number"),
        ({"topics": {"orders": (4, "ANY")}}, "type of messages 'ANY'"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    """No store is made."""
    with pytest.raises(reput.ConfigError, match=words):
        reput.serve(tmp_path / "store", **arguments)
    assert not (tmp_path / "store").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """A second broker at the same gRPC port is refused before its store is made."""
    with reput.serve(tmp_path / "store", grpc_port=0) as broker:
        assert broker.grpc_address is not None
        port = int(broker.grpc_address.rpartition(":")[2])
        with pytest.raises(reput.ConfigError, match=r"grpc_port: cannot listen on .*another port"):
            reput.serve(tmp_path / "second", grpc_port=port)
        with pytest.raises(reput.ConfigError, match=f"port and grpc_port are both {port}"):
            reput.serve(tmp_path / "second", port=port, grpc_port=port)
    assert not (tmp_path / "second").exists()


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setattr("reput.broker.serve.find_spec", lambda _: None)
    with pytest.raises(reput.ConfigError, match=r"pip install 'reput\[grpc\]'"):
        reput.serve(tmp_path / "store", grpc_port=0)
