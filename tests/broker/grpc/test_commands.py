"""The broker passes requests of mqadmin on to clients of gRPC as commands on their streams, and their answers back."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest

from broker.grpc.stubs import GrpcClient, publishing, subscribing
from reput.broker.grpc.protocol import service_pb2 as protocol
from reput.broker.grpc.protocol.definition_pb2 import ClientType, Code, Status
from reput.broker.grpc.telemetry import Telemetry as TelemetryStream
from reput.formats.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    import reput
    from broker.grpc.stubs import Telemetry
    from broker.remoting import Client
    from reput.broker.grpc.clients import GrpcClient as BrokerClient
    from reput.broker.services.broker import Broker

one_flush_mode = pytest.mark.parametrize("broker", ["ASYNC_FLUSH"], indirect=True)
GROUP = "readers"


@pytest.fixture
def stream(broker: reput.RunningBroker, client: GrpcClient) -> Iterator[Telemetry]:
    """The stream of a push consumer."""
    with client.telemetry() as opened:
        opened.give(subscribing(GROUP, kind=ClientType.PUSH_CONSUMER))
        yield opened


def of_client(client: GrpcClient) -> dict[str, object]:
    """The fields of a request that is for one client."""
    return {"consumerGroup": GROUP, "clientId": client.client_id}


def verified(nonce: str, code: Code = Code.OK, words: str = "") -> protocol.TelemetryCommand:
    """The command by which a client says how it consumed a message."""
    result = protocol.VerifyMessageResult(nonce=nonce)
    return protocol.TelemetryCommand(status=Status(code=code, message=words), verify_message_result=result)


def passed_on(stream: Telemetry, remoting: Client, asked: int) -> Any:
    """The command that comes to the client for a request of `remoting`, whose refusal says why none came."""
    try:
        return stream.next()
    except grpc.RpcError as error:
        raise AssertionError(remoting.answer(asked)) from error


@one_flush_mode
@pytest.mark.parametrize(
    ("code", "result"),
    [
        (Code.OK, "CR_SUCCESS"),
        (Code.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"),
        (Code.MESSAGE_CORRUPTED, "CR_RETURN_NULL"),
        (Code.VERIFY_FIFO_MESSAGE_UNSUPPORTED, None),
    ],
)
def test_a_message_is_given_to_one_client(
    client: GrpcClient, remoting: Client, stream: Telemetry, code: Code, result: str | None
) -> None:
    """Its answer says how it was consumed, in the words of the remoting protocol."""
    sent = remoting.put("orders", b"odd")
    asked = remoting.send(RequestCode.CONSUME_MESSAGE_DIRECTLY, **of_client(client), msgId=sent.fields["msgId"])
    command = passed_on(stream, remoting, asked).verify_message_command
    assert (command.message.body, command.message.topic.name) == (b"odd", "orders")
    stream.say(verified(command.nonce, code, "why"))
    answer = remoting.answer(asked)
    assert answer.code == ResponseCode.SUCCESS
    said = json.loads(answer.body)
    assert (said.get("consumeResult"), said["remark"], said["order"]) == (result, "why", False)


@one_flush_mode
def test_a_client_tells_what_its_threads_do(client: GrpcClient, remoting: Client, stream: Telemetry) -> None:
    """It is asked only for that; its refusal is passed on."""
    for code, expected in ((Code.OK, ResponseCode.SUCCESS), (Code.NOT_IMPLEMENTED, ResponseCode.SYSTEM_ERROR)):
        asked = remoting.send(RequestCode.GET_CONSUMER_RUNNING_INFO, **of_client(client), jstackEnable=True)
        nonce = stream.next().print_thread_stack_trace_command.nonce
        trace = protocol.ThreadStackTrace(nonce=nonce, thread_stack_trace="main: waits")
        status = Status(code=code, message="no threads")
        stream.say(protocol.TelemetryCommand(status=status, thread_stack_trace=trace))
        answer = remoting.answer(asked)
        assert (answer.code, answer.remark) == (expected, None if code == Code.OK else "no threads")
        assert json.loads(answer.body)["jstack"] == "main: waits"
    refused = remoting.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **of_client(client), jstackEnable=False)
    assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@one_flush_mode
def test_only_the_client_that_was_asked_answers(client: GrpcClient, remoting: Client, stream: Telemetry) -> None:
    """Nonces that are forged, or another client's, change nothing, and their streams go on."""
    sent = remoting.put("orders", b"odd")
    asked = remoting.send(RequestCode.CONSUME_MESSAGE_DIRECTLY, **of_client(client), msgId=sent.fields["msgId"])
    nonce = stream.next().verify_message_command.nonce
    with GrpcClient(client.address) as other, other.telemetry() as forger:
        for forged in (nonce, "", "x", "-1", "9" * 40, nonce + " "):
            forger.say(verified(forged, Code.FAILED_TO_CONSUME_MESSAGE))
            stream.say(verified(forged + "0", Code.FAILED_TO_CONSUME_MESSAGE))
        assert forger.give(publishing("orders")).publishing.max_body_size > 0
    stream.say(verified(nonce))
    assert json.loads(remoting.answer(asked).body)["consumeResult"] == "CR_SUCCESS"


def test_commands_of_a_stream_are_sent_one_at_a_time() -> None:
    """A request that came while the settings were sent was lost, since gRPC refuses two writes at a time."""
    sent: list[protocol.TelemetryCommand] = []
    writing: list[bool] = []

    async def write(command: protocol.TelemetryCommand) -> None:
        assert not writing
        writing.append(True)
        await asyncio.sleep(0)
        writing.clear()
        sent.append(command)

    async def both() -> None:
        stream = TelemetryStream(cast("Broker", None), cast("BrokerClient", None), write)
        await asyncio.gather(*(stream._send(verified(nonce)) for nonce in "ab"))

    asyncio.run(both())
    assert [command.verify_message_result.nonce for command in sent] == ["a", "b"]
