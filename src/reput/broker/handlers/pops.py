"""Requests of pop consumers: pop, peek, notification, and the number of those that wait.

Source: `PopMessageProcessor`, `PeekMessageProcessor`, `NotificationProcessor`, `PollingInfoProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.services.polls import Poll, PollKey
from reput.broker.services.pops import ANY_QUEUE, PopAsk
from reput.broker.state.consumers import filter_of
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.errors import ConfigError
from reput.formats.config.tag_expression import ALL_TAGS
from reput.formats.log.properties import decode_properties, encode_properties
from reput.formats.log.record import encode_record
from reput.formats.topics.pop_topics import TopicKind
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.receipt_handle import (
    POP_CK,
    encode_handle,
    message_offset_info,
    order_count_info,
    start_offset_info,
)
from reput.formats.wire.subscription import Subscription, filter_type
from reput.store.read.queue_answers import BROKER_PULL_MESSAGES

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.services.pops import GivenOfQueue, Popped
    from reput.broker.wire.requests import Request
    from reput.store.read.message import StoredMessage
    from reput.store.read.sql_filter import SqlFilter
    from reput.store.read.tag_filter import TagFilter

_FROM_LAST: Final = 1
"""The `initMode` of a group that begins at the end (`ConsumeInitMode.MAX`)."""
_NOTHING: Final = "NO_MESSAGE_IN_QUEUE"


def pop_message(broker: Broker, request: Request) -> Answer | None:
    """Give messages to a group, or wait for them."""
    ask = _pop_ask(broker, request)
    wait_ms = request.int64("pollTime")
    request.int64("bornTime")
    answer = _popped(broker, ask)
    if answer is not None:
        return answer
    nothing = partial(_nothing, ask)
    return _wait(broker, request, ask, wait_ms, partial(_popped, broker, ask), nothing, takes=True)


def _pop_ask(broker: Broker, request: Request) -> PopAsk:
    group, topic = _admit(broker, request)
    ask = PopAsk(
        group,
        topic,
        request.int32("queueId"),
        request.int32("maxMsgNums"),
        request.int64("invisibleTime"),
        _filter(request, topic),
        request.int32("initMode") == _FROM_LAST,
        request.flag("order"),
        request.fields.get("attemptId"),
    )
    if ask.max_messages > BROKER_PULL_MESSAGES:
        refuse(ResponseCode.INVALID_PARAMETER, f"the broker[{broker.name}] pop message's num is greater than 32")
    return ask


def _admit(broker: Broker, request: Request) -> tuple[str, str]:
    """Return the group and the topic of a request; refuse those that may not read, or are not there."""
    group, topic = request.text("consumerGroup"), request.text("topic")
    broker.pops.admit(group, topic)
    return group, topic


def _filter(request: Request, topic: str) -> TagFilter | SqlFilter | None:
    expression = request.fields.get("exp") or ALL_TAGS
    try:
        return filter_of(Subscription(topic, expression, filter_type(request.fields.get("expType")), 0))
    except ConfigError as error:
        refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}")


def _popped(broker: Broker, ask: PopAsk) -> Answer | None:
    """Return the answer with messages; None if there are none now."""
    popped = broker.pop(ask)
    if not popped.count:
        return None
    pieces: list[bytes | memoryview] = []
    for given in popped.given:
        if given.queue.kind is TopicKind.NORMAL:
            pieces += given.found.pieces()
        else:
            pieces += [_as_original(popped, given, message, at) for message, at in _with_offsets(given)]
    fields = _fields(popped.pop_time, ask.invisible_ms, popped.revive_queue, popped.rest)
    queues = [given.queue for given in popped.given]
    fields |= {"startOffsetInfo": start_offset_info(queues), "msgOffsetInfo": message_offset_info(queues)}
    if ask.is_orderly:
        fields["orderCountInfo"] = order_count_info(queues)
    return Answer(ResponseCode.SUCCESS, "FOUND", fields, pieces)


def _with_offsets(given: GivenOfQueue) -> list[tuple[StoredMessage, int]]:
    return list(zip(given.found, given.queue.offsets, strict=True))


def _as_original(popped: Popped, given: GivenOfQueue, message: StoredMessage, offset: int) -> bytes:
    """Return the record of a message of a retry topic as one of its first topic, with its handle as a property."""
    record = message.record
    properties = decode_properties(record.properties)
    properties.setdefault(POP_CK.encode(), encode_handle(popped.handle(given.queue, offset)).encode())
    return encode_record(record._replace(topic=popped.ask.topic.encode(), properties=encode_properties(properties)))


def _fields(pop_time: int, invisible_ms: int, revive_queue: int, rest: int) -> dict[str, str]:
    return {
        "popTime": str(pop_time),
        "invisibleTime": str(invisible_ms),
        "reviveQid": str(revive_queue),
        "restNum": str(rest),
    }


def _nothing(ask: PopAsk, code: ResponseCode) -> Answer:
    """Return the answer without messages, which has the same fields."""
    return Answer(code, _NOTHING, _fields(0, ask.invisible_ms, 0, 0))


def _wait(
    broker: Broker,
    request: Request,
    ask: PopAsk,
    wait_ms: int,
    attempt: Callable[[], Answer | None],
    nothing: Callable[[ResponseCode], Answer],
    *,
    takes: bool,
) -> Answer | None:
    """Let a request wait for messages, or answer that there are none."""
    if wait_ms <= 0 or request.frame.is_one_way:
        return nothing(ResponseCode.POLLING_TIMEOUT)

    def tried() -> bool:
        found: list[Answer | None] = []

        def work() -> Answer | None:
            found.append(attempt())
            return found[0]

        broker.guarded(request, work)
        return found != [None]

    def give_up() -> None:
        request.answer(nothing(ResponseCode.POLLING_TIMEOUT))

    key = PollKey(ask.group, ask.topic, ask.queue_id, takes, ask.is_orderly)
    poll = Poll(request.connection, request.size, key, tried, give_up)
    if not broker.polls.wait(poll, wait_ms):
        return nothing(ResponseCode.POLLING_FULL)
    request.is_held = True
    return None


def peek_message(broker: Broker, request: Request) -> Answer:
    """Answer messages that a pop would give now, without a lease."""
    group, topic = _admit(broker, request)
    ask = PopAsk(group, topic, request.int32("queueId"), request.int32("maxMsgNums"), 0)
    found = broker.pops.peek(ask)
    if not found:
        return Answer(ResponseCode.PULL_NOT_FOUND, _NOTHING, _fields(0, 0, 0, 0))
    pieces = [piece for one in found for piece in one.pieces()]
    rest = sum(one.max_offset - one.next_offset for one in found)
    return Answer(ResponseCode.SUCCESS, "FOUND", _fields(0, 0, 0, rest), pieces)


def notification(broker: Broker, request: Request) -> Answer | None:
    """Answer whether there are messages for a group, at once or when they come."""
    group, topic = _admit(broker, request)
    ask = PopAsk(
        group,
        topic,
        request.int32("queueId"),
        1,
        0,
        is_orderly=request.flag("order"),
        attempt_id=request.fields.get("attemptId"),
    )
    wait_ms = request.int64("pollTime")
    request.int64("bornTime")

    def attempt() -> Answer | None:
        has = broker.pops.pending(ask) > 0
        return Answer(fields={"hasMsg": "true", "pollingFull": "false"}) if has else None

    def nothing(code: ResponseCode) -> Answer:
        is_full = code == ResponseCode.POLLING_FULL
        return Answer(fields={"hasMsg": "false", "pollingFull": "true" if is_full else "false"})

    return attempt() or _wait(broker, request, ask, wait_ms, attempt, nothing, takes=False)


def polling_info(broker: Broker, request: Request) -> Answer:
    """Answer how many pops of a group wait for the same queues."""
    group, topic = _admit(broker, request)
    queue_id = request.int32("queueId")
    broker.pops.queues_of(topic, max(queue_id, ANY_QUEUE))
    waiting = sum(
        broker.polls.in_line(PollKey(group, topic, max(queue_id, ANY_QUEUE), True, is_orderly))
        for is_orderly in (False, True)
    )
    return Answer(fields={"pollingNum": str(waiting)})
