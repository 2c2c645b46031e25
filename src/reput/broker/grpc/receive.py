"""Calls of consumers: messages with long polling, their acks, and changes of the time after which they come again.

A consumer receives from all queues of a topic, whichever queue its call names, as with RocketMQ's proxy. A message that
was given too often becomes a dead letter in place of being given again.

Source: `ReceiveMessageActivity`, `ReceiveMessageResponseStreamWriter`, `AckMessageActivity`,
`ChangeInvisibleDurationActivity`, `ForwardMessageToDLQActivity`, `PopMessageResultFilterImpl`, `ProxyConfig`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reput.broker.grpc.checks import group_of, milliseconds, topic_of
from reput.broker.grpc.clients import GrpcCall
from reput.broker.grpc.leased import LEASE_IS_OVER, LEASE_MS, SOON_MS
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
from reput.broker.services.lite import light_queue
from reput.broker.services.polls import Poll, PollKey
from reput.broker.services.pops import ANY_QUEUE, PopAsk
from reput.broker.state.consumers import filter_of
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import RefusedError
from reput.errors import ConfigError, DamagedStoreError, ReputError
from reput.formats.config.tag_expression import ALL_TAGS
from reput.formats.java.java_numbers import parse_whole
from reput.formats.stored_text import stored_bytes, stored_text
from reput.formats.topics.lite_groups import lite_group_of
from reput.formats.topics.lite_topics import decode_lite_topic, expiration_of
from reput.formats.topics.pop_topics import retry_topic
from reput.formats.wire.codes import RequestCode
from reput.formats.wire.receipt_handle import decode_handle, encode_handle
from reput.formats.wire.subscription import Subscription
from reput.store.read.results import GetStatus
from reput.times import HOUR_MS, now_ms

if TYPE_CHECKING:
    from reput.broker.grpc.clients import GrpcClient
    from reput.broker.services.broker import Broker
    from reput.broker.services.pops import Popped, PoppedMessage
    from reput.formats.wire.receipt_handle import ReceiptHandle
    from reput.store.read.message import StoredMessage

log = logging.getLogger("reput.broker")

SHORTEST_POLL_MS: Final = 5000
SHORTEST_LEASE_MS: Final = 10_000
LONGEST_LEASE_MS: Final = 12 * HOUR_MS
MAX_ENTRIES: Final = 1000
"""The most entries of a call that acks messages."""
MAX_ACK_BYTES: Final = 512 << 10
"""The most bytes of such a call: in memory an entry takes a hundred times the two bytes that it may have."""
MAX_LITE_HELD: Final = 100
"""The most messages that a lite client holds when it asks for more."""
_REQUEST_TIMEOUT_MS: Final = 3000
"""The time that clients give a call by default, beside its poll: for a client that has not said its own."""
_RESERVE_MS = 100
"""The time before a call's deadline at which its poll ends."""
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
    wait_ms = _wait_ms(client, request, remaining_ms)
    topic, group = topic_of(request.message_queue.topic), group_of(request.group)
    await _admit(broker, client, group, topic)
    ask = _ask_of(broker, client, request, group, topic)
    popped = await _pop(broker, GrpcCall(client), ask, wait_ms, request.ByteSize())
    found = [] if popped is None else await _to_give(broker, client, popped)
    if not found:
        yield ReceiveMessageResponse(status=status_of(Code.MESSAGE_NOT_FOUND, "no new message"))
    given = 0
    try:
        if found:
            yield ReceiveMessageResponse(status=status_of(Code.OK))
        for message, one in found:
            text = message.system_properties.receipt_handle
            yield ReceiveMessageResponse(message=message)
            given += 1
            if request.auto_renew:
                client.held.add(ask.group, one.queue_topic, text, one.handle)
    finally:
        for _, one in found[given:]:
            _give_back(broker, ask.group, one)
    end = ReceiveMessageResponse()
    end.delivery_timestamp.FromMilliseconds(now_ms())
    yield end


async def _admit(broker: Broker, client: GrpcClient, group: str, topic: str) -> None:
    """Refuse a group or a topic that may not be read; a group that is new is made, durably."""

    def admit() -> Answer:
        broker.pops.admit(group, topic)
        return Answer()

    refuse_unless_ok(await GrpcCall(client).answer_of(broker, RequestCode.POP_MESSAGE, admit))


def _ask_of(broker: Broker, client: GrpcClient, request: ReceiveMessageRequest, group: str, topic: str) -> PopAsk:
    """Return the question of a pop.

    It needs no settings: after a restart of the broker some clients send theirs again only after minutes.
    """
    rules = broker.groups.find(group) or {}
    is_lite = _is_lite(broker, client, group, rules, topic)
    if request.auto_renew:
        invisible_ms = LEASE_MS
    else:
        invisible_ms = milliseconds(request.invisible_duration, Code.ILLEGAL_INVISIBLE_TIME)
        check_invisible(invisible_ms, SHORTEST_LEASE_MS)
    if request.batch_size < 1:
        refuse_call(Code.BAD_REQUEST, f"a batch of {request.batch_size} messages: give 1 to {BATCH_SIZE}")
    expression = request.filter_expression
    return PopAsk(
        group,
        topic,
        ANY_QUEUE,
        min(request.batch_size, BATCH_SIZE),
        invisible_ms,
        _filter_of(topic, expression),
        begins_last=True,
        is_orderly=is_lite or bool(rules.get("consumeMessageOrderly")),
        attempt_id=request.attempt_id if request.HasField("attempt_id") else None,
        lite_client=client.client_id if is_lite else "",
    )


def _is_lite(broker: Broker, client: GrpcClient, group: str, rules: Mapping[str, Any], topic: str) -> bool:
    """Return True if a group's clients read lite topics; refuse another topic than theirs, and one that holds much."""
    lite = lite_group_of(rules)
    if lite is None:
        return False
    if lite.topic != topic:
        refuse_call(Code.BAD_REQUEST, f"subscription bind topic not match, {group}")
    if expiration_of(broker.topics.get(topic).get("attributes")) is None:
        refuse_call(Code.BAD_REQUEST, f"the topic [{topic}] message type not match: it is not of type LITE")
    if len(client.held) > MAX_LITE_HELD:
        words = f"The client [{client.client_id:.200}] has too many unacked messages. Unacked count: {len(client.held)}"
        refuse_call(Code.FORBIDDEN, words)
    return True


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
        key = PollKey(ask.group, ask.topic, ask.queue_id, True, ask.is_orderly, ask.lite_client)
        if not broker.polls.wait(Poll(call, size, key, tried, give_up), wait_ms):
            refuse_call(Code.TOO_MANY_REQUESTS, "polling full")
    try:
        return await popped
    except asyncio.CancelledError:
        broker.polls.forget(call)
        found = popped.result() if popped.done() and not popped.cancelled() and popped.exception() is None else None
        for one in found.messages() if found is not None else ():
            _give_back(broker, ask.group, one)
        raise


async def _to_give(broker: Broker, client: GrpcClient, popped: Popped) -> list[tuple[Message, PoppedMessage]]:
    """Return the messages of a pop as a client gets them. One that was given often enough becomes a dead letter.

    If the call ends meanwhile, all of them come again soon.
    """
    ask = popped.ask
    attempts = most_attempts(broker.groups.find(ask.group) or {})
    found = []
    try:
        for one in popped.messages():
            stored = one.message
            if not _is_readable(stored):
                if ask.is_orderly:
                    # Nothing after it would come.
                    broker.pops.ack(ask.group, one.queue_topic, one.handle)
                continue
            before = one.given_before + stored.record.reconsume_times
            given = GivenHandle(one.handle, stored.physical_offset)
            if before >= attempts and (ask.lite_client or not ask.is_orderly):
                await _bury(broker, client, _HeldBy(ask.group, ask.topic, _lite_topic_of(one.queue_topic)), given)
                continue
            message = message_of(stored.record, ask.topic, handle=encode_given(*given), attempt=before + 1)
            message.system_properties.invisible_duration.FromMilliseconds(ask.invisible_ms)
            found.append((message, one))
    except BaseException:
        for one in popped.messages():
            _give_back(broker, ask.group, one)
        raise
    return found


def _is_readable(message: StoredMessage) -> bool:
    try:
        _ = message.record
    except DamagedStoreError as error:
        log.error("a message is left out: %s", error)  # noqa: TRY400 - the text says it all
        return False
    return True


def _lite_topic_of(queue_topic: str) -> str:
    lite = decode_lite_topic(stored_bytes(queue_topic))
    return "" if lite is None else stored_text(lite.name)


async def _bury(broker: Broker, client: GrpcClient, held: _HeldBy, given: GivenHandle) -> None:
    """Move a message to the dead letters of its group; if that fails it comes again when its lease ends."""
    try:
        await _forward(broker, client, held, given)
    except RefusedCallError:
        return


def _give_back(broker: Broker, group: str, one: PoppedMessage) -> None:
    """Let a message that its client has not got come again soon."""
    try:
        broker.pops.change(group, one.queue_topic, one.handle, SOON_MS)
    except (RefusedError, ReputError):
        # Then it comes again when its lease ends.
        return


# --- acks, changes, dead letters ---------------------------------------------------------------


class _HeldBy(NamedTuple):
    """The place of a message that its group holds, as a call names it. `lite_topic`: empty for other messages."""

    group: str
    topic: str
    lite_topic: str

    def queue_topic(self, handle: ReceiptHandle) -> str:
        """Return the topic of the message's queue."""
        return light_queue(self.topic, self.lite_topic) if self.lite_topic else self._plain(handle)

    def _plain(self, handle: ReceiptHandle) -> str:
        return retry_topic(self.topic, self.group, handle.kind)

    def fields(self, handle: ReceiptHandle) -> dict[str, str]:
        """Return the fields of a request about the message."""
        return {
            "consumerGroup": self.group,
            "topic": self._plain(handle),
            "queueId": str(handle.queue_id),
            "offset": str(handle.queue_offset),
            "extraInfo": encode_handle(handle),
        } | ({"liteTopic": self.lite_topic} if self.lite_topic else {})


async def ack_message(broker: Broker, client: GrpcClient, request: AckMessageRequest) -> AckMessageResponse:
    """End the leases of messages; each has a status of its own."""
    topic, group = topic_of(request.topic), group_of(request.group)
    if len(request.entries) > MAX_ENTRIES:
        refuse_call(Code.BAD_REQUEST, f"the call has {len(request.entries)} entries: send {MAX_ENTRIES} at most")
    entries = [await _ack(broker, client, _HeldBy(group, topic, one.lite_topic), one) for one in request.entries]
    if not entries:
        refuse_call(Code.BAD_REQUEST, "the call has no entries")
    return AckMessageResponse(status=status_of_all(one.status.code for one in entries), entries=entries)


async def _ack(broker: Broker, client: GrpcClient, held: _HeldBy, entry: AckMessageEntry) -> AckMessageResultEntry:
    code, words = Code.OK, None
    try:
        given = decode_given(entry.receipt_handle)
        with client.held.ending(held.group, entry.receipt_handle) as present:
            await _end_lease(broker, client, held, present or given.handle)
    except RefusedCallError as refusal:
        code, words = refusal.code, refusal.words
    return AckMessageResultEntry(
        message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status_of(code, words)
    )


async def _end_lease(broker: Broker, client: GrpcClient, held: _HeldBy, handle: ReceiptHandle) -> None:
    refuse_unless_held(await GrpcCall(client).ask(broker, RequestCode.ACK_MESSAGE, held.fields(handle)))


def refuse_unless_held(answer: Answer) -> None:
    """Refuse the call that is being served, if the broker has refused its handle or its request."""
    if answer.code in LEASE_IS_OVER:
        refuse_call(Code.INVALID_RECEIPT_HANDLE, answer.remark or _FORGED)
    refuse_unless_ok(answer)


async def change_invisible_duration(
    broker: Broker, client: GrpcClient, request: ChangeInvisibleDurationRequest
) -> ChangeInvisibleDurationResponse:
    """Let a message come again a time from now on; the answer has its new handle."""
    held = _HeldBy(group=group_of(request.group), topic=topic_of(request.topic), lite_topic=request.lite_topic)
    invisible_ms = milliseconds(request.invisible_duration, Code.ILLEGAL_INVISIBLE_TIME)
    check_invisible(invisible_ms, 0)
    given = decode_given(request.receipt_handle)
    with client.held.ending(held.group, request.receipt_handle) as present:
        handle = present or given.handle
        fields = held.fields(handle) | {"invisibleTime": str(invisible_ms), "suspend": str(request.suspend).lower()}
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
    held = _HeldBy(group=group_of(request.group), topic=topic_of(request.topic), lite_topic=request.lite_topic)
    given = decode_given(request.receipt_handle)
    with client.held.ending(held.group, request.receipt_handle) as present:
        await _forward(broker, client, held, given._replace(handle=present or given.handle))
    return ForwardMessageToDeadLetterQueueResponse(status=status_of(Code.OK))


async def _forward(broker: Broker, client: GrpcClient, held: _HeldBy, given: GivenHandle) -> None:
    """Store a message as a dead letter of its group, then end its lease."""
    handle, queue_topic = given.handle, held.queue_topic(given.handle)
    is_held = broker.pops.holds(held.group, queue_topic, handle)
    if not is_held or not _is_there(broker, queue_topic, given):
        refuse_call(Code.INVALID_RECEIPT_HANDLE, _FORGED)
    fields = {"group": held.group, "offset": str(given.physical_offset), "delayLevel": "-1", "maxReconsumeTimes": "0"}
    refuse_unless_ok(await GrpcCall(client).ask(broker, RequestCode.CONSUMER_SEND_MSG_BACK, fields))
    await _end_lease(broker, client, held, handle)


def _is_there(broker: Broker, queue_topic: str, given: GivenHandle) -> bool:
    """Return True if the message of a handle is where the handle says."""
    handle = given.handle
    found = broker.store.get_message(queue_topic, handle.queue_id, handle.queue_offset, 1)
    if found.status is not GetStatus.FOUND or found.next_offset != handle.queue_offset + 1:
        return False
    return next(iter(found)).physical_offset == given.physical_offset
