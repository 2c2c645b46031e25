"""The stream of a client: its settings and its answers come, and the broker's commands go.

A command that wants an answer has the number of the broker's request as its nonce; only the client's own count.

Source: `ClientActivity.telemetry`, `GrpcClientChannel`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from reput.broker.grpc.messages import message_of
from reput.broker.grpc.protocol.definition_pb2 import Code
from reput.broker.grpc.protocol.service_pb2 import (
    NotifyUnsubscribeLiteCommand,
    PrintThreadStackTraceCommand,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from reput.broker.grpc.settings import take_settings
from reput.broker.grpc.statuses import status_of
from reput.broker.grpc.transaction_ids import encode_transaction_id
from reput.broker.wire.channel import about
from reput.formats.java.fastjson import write_fastjson
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log.record import decode_record
from reput.formats.stored_text import shown_text
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.remoting import IS_ANSWER, RemotingFrame

if TYPE_CHECKING:
    from reput.broker.grpc.clients import GrpcClient
    from reput.broker.services.broker import Broker

log = logging.getLogger("reput.broker")
_NOT_ASKED: Final = "a client that speaks gRPC is not asked this, but for its threads (jstackEnable)"
_LONGEST_TRACE = 1 << 20
_RESULTS: Final = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}
"""The words of the remoting protocol for how a message was consumed that was given to one client."""


def command_of(frame: RemotingFrame) -> TelemetryCommand | None:
    """Return the command for a request of the broker; None if there is none."""
    nonce = str(frame.opaque)
    if frame.code == RequestCode.GET_CONSUMER_RUNNING_INFO and frame.fields.get("jstackEnable") == "true":
        return TelemetryCommand(print_thread_stack_trace_command=PrintThreadStackTraceCommand(nonce=nonce))
    if frame.code == RequestCode.NOTIFY_UNSUBSCRIBE_LITE:
        command = NotifyUnsubscribeLiteCommand(lite_topic=frame.fields["liteTopic"])
        return TelemetryCommand(notify_unsubscribe_lite_command=command)
    if frame.code not in {RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY}:
        return None
    record = decode_record(memoryview(frame.body))
    if frame.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
        message = message_of(record, shown_text(record.topic))
        return TelemetryCommand(verify_message_command=VerifyMessageCommand(nonce=nonce, message=message))
    half_id = frame.fields["offsetMsgId"]
    recovery = RecoverOrphanedTransactionCommand(
        message=message_of(record, shown_text(record.topic)),
        transaction_id=encode_transaction_id(half_id, int(frame.fields["tranStateTableOffset"])),
    )
    return TelemetryCommand(recover_orphaned_transaction_command=recovery)


def answer_of(command: TelemetryCommand) -> RemotingFrame | None:
    """Return the answer to a request of the broker that a client's command is; None for another command."""
    status, body = command.status, {}
    if command.WhichOneof("command") == "verify_message_result":
        nonce, code = command.verify_message_result.nonce, ResponseCode.SUCCESS
        body = {"order": False, "autoCommit": True, "remark": status.message, "spentTimeMills": 0}
        body |= {"consumeResult": _RESULTS[status.code]} if status.code in _RESULTS else {}
    elif command.WhichOneof("command") == "thread_stack_trace":
        nonce = command.thread_stack_trace.nonce
        code = ResponseCode.SUCCESS if status.code == Code.OK else ResponseCode.SYSTEM_ERROR
        body = {"jstack": command.thread_stack_trace.thread_stack_trace[:_LONGEST_TRACE]}
    else:
        return None
    opaque = parse_whole(nonce, 32)
    if opaque is None:
        return None
    remark = None if code == ResponseCode.SUCCESS else status.message
    return RemotingFrame(code, opaque, IS_ANSWER, remark, {}, write_fastjson(body))


class Telemetry:
    """One stream of a client. A later stream of the client takes the broker's commands instead.

    Args:
        broker: the broker.
        client: the client.
        write: sends a command.

    Attributes:
        client: The client. One that has ended, or was forgotten, is another one at its next command.
    """

    def __init__(
        self, broker: Broker, client: GrpcClient, write: Callable[[TelemetryCommand], Awaitable[None]]
    ) -> None:
        self._broker = broker
        self.client = client
        self._write = write
        self._writing = asyncio.Lock()
        self._has_commands = asyncio.Event()

    async def serve(self, commands: AsyncIterator[TelemetryCommand], heard: Callable[[], GrpcClient]) -> None:
        """Take settings and answers until the client ends the stream. `heard` returns the client of each command.

        Raises:
            RefusedCallError: the settings cannot be.
        """
        wakes = self._has_commands.set
        writer = asyncio.ensure_future(self._write_commands())
        try:
            async for command in commands:
                self.client = heard()
                if command.WhichOneof("command") == "settings":
                    settings = await take_settings(self._broker, self.client, command.settings)
                    self.client.wakes = wakes
                    await self._send(TelemetryCommand(status=status_of(Code.OK), settings=settings))
                elif (answer := answer_of(command)) is not None:
                    self._broker.client_calls.answered(self.client, answer)
        finally:
            if self.client.wakes == wakes:
                self.client.end_stream()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _send(self, command: TelemetryCommand) -> None:
        """Send a command when the one before is sent: gRPC refuses two writes at a time, which ended the stream's."""
        async with self._writing:
            await self._write(command)

    async def _write_commands(self) -> None:
        """Send the broker's commands as they come."""
        while True:
            await self._has_commands.wait()
            self._has_commands.clear()
            while (frame := self.client.next_command()) is not None:
                await self._write_command(frame)

    async def _write_command(self, frame: RemotingFrame) -> None:
        try:
            command = command_of(frame)
        except Exception:  # an error of ours must not end the client's stream
            log.exception("%s: request %d is not sent", self.client.peer, frame.code, extra=about(self.client))
            return
        if command is not None:
            await self._send(command)
        elif not frame.is_one_way:
            self._refuse(frame)

    def _refuse(self, frame: RemotingFrame) -> None:
        """Answer a request of the broker in the client's place: gRPC has no such command."""
        answer = RemotingFrame(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, frame.opaque, IS_ANSWER, _NOT_ASKED)
        self._broker.client_calls.answered(self.client, answer)
