"""Calls of consumers: messages with long polling, their acks, and changes of the time after which they come again.

A consumer receives from all queues of a topic, whichever queue its call names, as with RocketMQ's proxy. A message that
was given too often becomes a dead letter in place of being given again.

Source: `ReceiveMessageActivity`, `ReceiveMessageResponseStreamWriter`, `AckMessageActivity`,
`ChangeInvisibleDurationActivity`, `ForwardMessageToDLQActivity`, `PopMessageResultFilterImpl`, `ProxyConfig`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reput.broker.grpc.checks import group_of, milliseconds, topic_of
from reput.broker.grpc.clients import GrpcCall
from reput.broker.grpc.leased import LEASE_MS, SOON_MS
from reput.broker.grpc.messages import message_of
from reput.broker.grpc.protocol.definition_pb2 import Code, FilterExpression, Message
from reput.broker.grpc.protocol.service_pb2 import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
)
from reput.broker.grpc.settings import BATCH_SIZE, LONGEST_POLL_MS, filter_kind, most_attempts
from reput.broker.grpc.statuses import (
    RefusedCallError,
    refuse_call,
    refuse_unless_ok,
    status_of,
    status_of_all,
)
from reput.broker.services.polls import Poll, PollKey
from reput.broker.services.pops import ANY_QUEUE, PopAsk
from reput.broker.state.consumers import filter_of
from reput.broker.wire.refusals import RefusedError
from reput.errors import ConfigError, ReputError
from reput.formats.config.tag_expression import ALL_TAGS
from reput.formats.java.java_numbers import parse_whole
from reput.formats.topics.pop_topics import retry_topic
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.receipt_handle import decode_handle, encode_handle
from reput.formats.wire.subscription import Subscription
from reput.times import HOUR_MS, now_ms

if TYPE_CHECKING:
    from reput.broker.grpc.clients import GrpcClient
    from reput.broker.services.broker import Broker
    from reput.broker.services.pops import Popped
    from reput.broker.wire.answers import Answer
    from reput.formats.wire.receipt_handle import ReceiptHandle
    from reput.store.read.message import StoredMessage

SHORTEST_POLL_MS: Final = 5000
SHORTEST_LEASE_MS: Final = 10_000
LONGEST_LEASE_MS: Final = 12 * HOUR_MS
_REQUEST_TIMEOUT_MS: Final = 3000
"""The time that clients give a call by default, beside its poll: for a client that has not said its own."""
_RESERVE_MS = 100
"""The time before a call's deadline at which its poll ends."""
_NO_LEASE: Final = frozenset({ResponseCode.NO_MESSAGE, ResponseCode.INVALID_PARAMETER, ResponseCode.MESSAGE_ILLEGAL})
_FORGED: Final = "the receipt handle is of no message of this broker"


class GivenHandle(NamedTuple):
    """A handle as clients have it: with the offset of its message in the log."""

    handle: ReceiptHandle
    physical_offset: int


def encode_given(handle: ReceiptHandle, physical_offset: int) -> str:
    """Return the text of a handle for a client (`ConsumerProcessor.createHandle`)."""
    return f"{encode_handle(handle)} {physical_offset}"


def decode_given(text: str) -> GivenHandle:
    """Return the handle that a client names; refuse any other text."""
    words, _, last = text.rpartition(" ")
    handle, offset = decode_handle(words), parse_whole(last, 64)
    if handle is None or offset is None or offset < 0 or encode_given(handle, offset) != text:
        refuse_call(Code.INVALID_RECEIPT_HANDLE, _FORGED)
    return GivenHandle(handle, offset)


# --- receive -----------------------------------------------------------------------------------


async def receive_message(
    broker: Broker, client: GrpcClient, request: ReceiveMessageRequest, remaining_ms: int
) -> AsyncGenerator[ReceiveMessageResponse, None]:
    """Give messages to a consumer, at once or when they come."""
    ask, wait_ms = _ask_of(broker, client, request, remaining_ms)
    popped = await _pop(broker, GrpcCall(client), ask, wait_ms, request.ByteSize())
    found = [] if popped is None else [one async for one in _to_give(broker, client, popped)]
    if not found:
        yield ReceiveMessageResponse(status=status_of(Code.MESSAGE_NOT_FOUND, "no new message"))
    given = 0
    try:
        if found:
            yield ReceiveMessageResponse(status=status_of(Code.OK))
        for message, handle in found:
            text = message.system_properties.receipt_handle
            yield ReceiveMessageResponse(message=message)
            given += 1
            if request.auto_renew:
                client.held.add(ask.group, ask.topic, text, handle)
    finally:
        for _, handle in found[given:]:
            _give_back(broker, ask, handle)
    end = ReceiveMessageResponse()
    end.delivery_timestamp.FromMilliseconds(now_ms())
    yield end


def _ask_of(
    broker: Broker, client: GrpcClient, request: ReceiveMessageRequest, remaining_ms: int
) -> tuple[PopAsk, int]:
    """Return the question of a pop, and how long it may wait.

    It needs no settings: after a restart of the broker some clients send theirs again only after minutes.
    """
    wait_ms = _wait_ms(client, request, remaining_ms)
    topic, group = topic_of(request.message_queue.topic), group_of(request.group)
    broker.pops.admit(group, topic)
    if request.auto_renew:
        invisible_ms = LEASE_MS
    else:
        invisible_ms = milliseconds(request.invisible_duration, Code.ILLEGAL_INVISIBLE_TIME)
        check_invisible(invisible_ms, SHORTEST_LEASE_MS)
    if request.batch_size < 1:
        refuse_call(Code.BAD_REQUEST, f"a batch of {request.batch_size} messages: give 1 to {BATCH_SIZE}")
    expression, rules = request.filter_expression, broker.groups.find(group) or {}
    ask = PopAsk(
        group,
        topic,
        ANY_QUEUE,
        min(request.batch_size, BATCH_SIZE),
        invisible_ms,
        _filter_of(topic, expression),
        begins_last=True,
        is_orderly=bool(rules.get("consumeMessageOrderly")),
        attempt_id=request.attempt_id if request.HasField("attempt_id") else None,
    )
    return ask, wait_ms


def _wait_ms(client: GrpcClient, request: ReceiveMessageRequest, remaining_ms: int) -> int:
    """Return how long a call may wait for messages, before its deadline."""
    if request.HasField("long_polling_timeout"):
        wait_ms = milliseconds(request.long_polling_timeout, Code.ILLEGAL_POLLING_TIME)
    elif client.settings is not None:
        wait_ms = remaining_ms - milliseconds(client.settings.request_timeout, Code.ILLEGAL_POLLING_TIME) // 2
    else:
        wait_ms = remaining_ms - _REQUEST_TIMEOUT_MS // 2
    wait_ms = min(max(wait_ms, SHORTEST_POLL_MS), LONGEST_POLL_MS)
    if remaining_ms < min(wait_ms, SHORTEST_POLL_MS):
        words = "The deadline time remaining is not enough for polling, please check network condition"
        refuse_call(Code.ILLEGAL_POLLING_TIME, words)
    return min(wait_ms, remaining_ms - _RESERVE_MS)


def check_invisible(invisible_ms: int, least_ms: int) -> None:
    """Refuse an invisible time that is too short or too long."""
    if invisible_ms < least_ms:
        refuse_call(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least_ms}")
    if invisible_ms > LONGEST_LEASE_MS:
        refuse_call(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {LONGEST_LEASE_MS}")


def _filter_of(topic: str, expression: FilterExpression) -> Any:
    wanted = Subscription(topic, expression.expression or ALL_TAGS, filter_kind(expression), 0)
    try:
        return filter_of(wanted)
    except ConfigError as error:
        refuse_call(Code.ILLEGAL_FILTER_EXPRESSION, str(error))


async def _pop(broker: Broker, call: GrpcCall, ask: PopAsk, wait_ms: int, size: int) -> Popped | None:
    """Return messages, at once or when they come; None if none come in time. `size`: the bytes that the call holds."""
    popped: asyncio.Future[Popped | None] = asyncio.get_running_loop().create_future()

    def tried() -> bool:
        # A call that was given up takes nothing.
        if popped.done():
            return True
        try:
            found = broker.pop(ask)
        except (RefusedError, ReputError) as error:
            popped.set_exception(error)
            return True
        if found.count:
            popped.set_result(found)
        return found.count > 0

    def give_up() -> None:
        if not popped.done():
            popped.set_result(None)

    if not tried():
        key = PollKey(ask.group, ask.topic, ask.queue_id, True, ask.is_orderly)
        if not broker.polls.wait(Poll(call, size, key, tried, give_up), wait_ms):
            refuse_call(Code.TOO_MANY_REQUESTS, "polling full")
    try:
        return await popped
    except asyncio.CancelledError:
        broker.polls.forget(call)
        found = popped.result() if popped.done() and not popped.cancelled() and popped.exception() is None else None
        for _, handle in found.messages() if found is not None else ():
            _give_back(broker, ask, handle)
        raise


async def _to_give(broker: Broker, client: GrpcClient, popped: Popped) -> AsyncIterator[tuple[Message, ReceiptHandle]]:
    """Yield the messages of a pop as a client gets them. One that was given often enough becomes a dead letter."""
    ask = popped.ask
    attempts = most_attempts(broker.groups.find(ask.group) or {})
    counts = {
        (given.queue.kind, given.queue.queue_id, offset): count
        for given in popped.given
        for offset, count in given.queue.counts.items()
    }
    for stored, handle in popped.messages():
        before = counts.get((handle.kind, handle.queue_id, handle.queue_offset), 0) + stored.record.reconsume_times
        if before >= attempts and not ask.is_orderly:
            await _bury(broker, client, ask, stored, handle)
            continue
        text = encode_given(handle, stored.physical_offset)
        message = message_of(stored.record, ask.topic, handle=text, attempt=before + 1)
        message.system_properties.invisible_duration.FromMilliseconds(ask.invisible_ms)
        yield message, handle


async def _bury(broker: Broker, client: GrpcClient, ask: PopAsk, stored: StoredMessage, handle: ReceiptHandle) -> None:
    """Move a message to the dead letters of its group; if that fails it comes again when its lease ends."""
    try:
        await _forward(broker, client, ask.group, ask.topic, GivenHandle(handle, stored.physical_offset))
    except RefusedCallError:
        return


def _give_back(broker: Broker, ask: PopAsk, handle: ReceiptHandle) -> None:
    """Let a message that its client has not got come again soon."""
    try:
        broker.pops.change(ask.group, retry_topic(ask.topic, ask.group, handle.kind), handle, SOON_MS)
    except (RefusedError, ReputError):
        # Then it comes again when its lease ends.
        return


# --- acks, changes, dead letters ---------------------------------------------------------------


def _fields(group: str, topic: str, handle: ReceiptHandle) -> dict[str, str]:
    return {
        "consumerGroup": group,
        "topic": retry_topic(topic, group, handle.kind),
        "queueId": str(handle.queue_id),
        "offset": str(handle.queue_offset),
        "extraInfo": encode_handle(handle),
    }


async def ack_message(broker: Broker, client: GrpcClient, request: AckMessageRequest) -> AckMessageResponse:
    """End the leases of messages; each has a status of its own."""
    topic, group = topic_of(request.topic), group_of(request.group)
    entries = [await _ack(broker, client, group, topic, entry) for entry in request.entries]
    if not entries:
        refuse_call(Code.BAD_REQUEST, "the call has no entries")
    return AckMessageResponse(status=status_of_all(one.status.code for one in entries), entries=entries)


async def _ack(
    broker: Broker, client: GrpcClient, group: str, topic: str, entry: AckMessageEntry
) -> AckMessageResultEntry:
    code, words = Code.OK, None
    try:
        given = decode_given(entry.receipt_handle)
        handle = client.held.end(group, entry.receipt_handle) or given.handle
        await _end_lease(broker, client, group, topic, handle)
    except RefusedCallError as refusal:
        code, words = refusal.code, refusal.words
    return AckMessageResultEntry(
        message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status_of(code, words)
    )


async def _end_lease(broker: Broker, client: GrpcClient, group: str, topic: str, handle: ReceiptHandle) -> None:
    refuse_unless_held(await GrpcCall(client).ask(broker, RequestCode.ACK_MESSAGE, _fields(group, topic, handle)))


def refuse_unless_held(answer: Answer) -> None:
    """Refuse the call that is being served, if the broker has refused its handle or its request."""
    if answer.code in _NO_LEASE:
        refuse_call(Code.INVALID_RECEIPT_HANDLE, answer.remark or _FORGED)
    refuse_unless_ok(answer)


async def change_invisible_duration(
    broker: Broker, client: GrpcClient, request: ChangeInvisibleDurationRequest
) -> ChangeInvisibleDurationResponse:
    """Let a message come again a time from now on; the answer has its new handle."""
    topic, group = topic_of(request.topic), group_of(request.group)
    invisible_ms = milliseconds(request.invisible_duration, Code.ILLEGAL_INVISIBLE_TIME)
    check_invisible(invisible_ms, 0)
    given = decode_given(request.receipt_handle)
    handle = client.held.end(group, request.receipt_handle) or given.handle
    fields = _fields(group, topic, handle) | {"invisibleTime": str(invisible_ms)}
    fields["suspend"] = str(request.suspend).lower()
    answer = await GrpcCall(client).ask(broker, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)
    refuse_unless_held(answer)
    renewed = handle._replace(
        start_offset=handle.queue_offset,
        pop_time=int(answer.fields["popTime"]),
        invisible_time=int(answer.fields["invisibleTime"]),
        revive_queue=int(answer.fields["reviveQid"]),
    )
    text = encode_given(renewed, given.physical_offset)
    return ChangeInvisibleDurationResponse(status=status_of(Code.OK), receipt_handle=text)


async def forward_to_dead_letters(
    broker: Broker, client: GrpcClient, request: ForwardMessageToDeadLetterQueueRequest
) -> ForwardMessageToDeadLetterQueueResponse:
    """Move a message to the dead letters of its group."""
    topic, group = topic_of(request.topic), group_of(request.group)
    given = decode_given(request.receipt_handle)
    handle = client.held.end(group, request.receipt_handle) or given.handle
    await _forward(broker, client, group, topic, GivenHandle(handle, given.physical_offset))
    return ForwardMessageToDeadLetterQueueResponse(status=status_of(Code.OK))


async def _forward(broker: Broker, client: GrpcClient, group: str, topic: str, given: GivenHandle) -> None:
    """Store a message as a dead letter of its group, then end its lease."""
    handle, found = given.handle, broker.store.message_at(given.physical_offset)
    place = (retry_topic(topic, group, handle.kind), handle.queue_id, handle.queue_offset)
    is_held = broker.pops.holds(group, place[0], handle)
    if not is_held or found is None or (found.topic, found.queue_id, found.queue_offset) != place:
        refuse_call(Code.INVALID_RECEIPT_HANDLE, _FORGED)
    fields = {"group": group, "offset": str(given.physical_offset), "delayLevel": "-1", "maxReconsumeTimes": "0"}
    refuse_unless_ok(await GrpcCall(client).ask(broker, RequestCode.CONSUMER_SEND_MSG_BACK, fields))
    await _end_lease(broker, client, group, topic, handle)
