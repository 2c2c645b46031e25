"""Requests of producers: single messages, batches, ends of transactions, recalls.

Single sends that follow one another in a read go to the store together.

Source: `SendMessageProcessor`, `AbstractSendMessageProcessor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reput.broker.handlers.put_answers import CODES, refusal
from reput.broker.handlers.send_header import admit_send
from reput.broker.services.lite import light_queue
from reput.broker.services.timers import TIMES
from reput.broker.services.transactions import half_of, is_transactional
from reput.broker.state.known_headers import SendHeader
from reput.broker.state.statistics import MessageKind
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.log import client_batch
from reput.formats.log import property_names as names
from reput.formats.log.properties import properties_text, text_properties, with_further
from reput.formats.log.property_names import DELAY, SHARDING_KEY, UNIQUE_KEY
from reput.formats.topics.lite_topics import LITE_TOPIC
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.log.encode.client_batch import SentBatch
from reput.log.encode.message import EncodedProperties, Message, PutStatus

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request
    from reput.log.encode.message import PutManyResult, PutResult

SEND_CODES: Final = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
REGION: Final = "DefaultRegion"
_NOT_IN_A_BATCH: Final = frozenset({DELAY, *TIMES})
_LITE: Final = LITE_TOPIC.decode()
_PLACED: Final = frozenset({DELAY, *TIMES, names.TRANSACTION_PREPARED, _LITE})
"""Properties with which a message may be stored in another topic first, or in a light queue as well."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_TOGETHER_BYTES: Final = 4 << 20


class Send(NamedTuple):
    """A single message that was asked to be stored.

    `message` and `queue_id` are as they are stored; the sender asked for `asked_queue_id`. `kind`: what the message is
    to the sender. `further`: fields of the answer that only some have.
    """

    request: Request
    message: Message
    queue_id: int
    asked_queue_id: int
    kind: MessageKind
    further: Mapping[str, str] = _NOTHING


class BatchSend(NamedTuple):
    """A batch that was asked to be stored."""

    request: Request
    header: SendHeader


def _message(request: Request, header: SendHeader, body: bytes, flag: int, properties: Mapping[str, str]) -> Message:
    """Return the message that a sender describes. The messages of a batch are stored with the properties they have."""
    return Message(
        header.topic,
        body,
        properties=properties,
        flag=flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=request.connection.peer,
        reconsume_times=header.reconsume_times,
    )


def serve_send(broker: Broker, request: Request) -> Send | BatchSend:
    """Return what a send asks to be stored: a single message, which may be stored with others, or a batch."""
    broker.refuse_full_tail()
    if not request.body:
        refuse(ResponseCode.SYSTEM_ERROR, "the message has no body")
    header = admit_send(broker, request)
    if not header.is_batch:
        text = header.properties
        properties = EncodedProperties.of(with_further(text, _added_text(broker.identity.cluster)))
        if properties is not None and UNIQUE_KEY in properties and _PLACED.isdisjoint(properties):
            message = _message(request, header, request.body, header.flag, properties)
            kind = MessageKind.FIFO if SHARDING_KEY in properties else MessageKind.NORMAL
            further = {"transactionId": properties[UNIQUE_KEY]}
            return Send(request, message, header.queue_id, header.queue_id, kind, further)
        given = {**text_properties(text.encode("utf-8", "replace")), **_added(broker.identity.cluster)}
        if UNIQUE_KEY not in given:
            given[UNIQUE_KEY] = broker.unique_keys.make()
        if given.get(_LITE):
            given[names.INNER_MULTI_DISPATCH] = light_queue(header.topic, given[_LITE])
        message = _message(request, header, request.body, header.flag, given)
        return _send(broker, request, message, header.queue_id)
    if len(request.body) > broker.max_message_size:
        words = f"a batch of {len(request.body)} bytes: at most {broker.max_message_size} (maxMessageSize)"
        refuse(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {words}")
    return BatchSend(request, header)


def _added(cluster: str) -> dict[str, str]:
    """Return the properties that the broker gives each message."""
    return {names.REGION: REGION, names.TRACE_ON: "true", names.CLUSTER: cluster}


@cache
def _added_text(cluster: str) -> str:
    return properties_text(_added(cluster))


def _send(broker: Broker, request: Request, message: Message, queue_id: int) -> Send:
    """Return a message as it is stored: in its queue, or in another one until it is due or its transaction ends."""
    further = {"transactionId": (message.properties or {})[UNIQUE_KEY]}
    if is_transactional(message):
        return Send(request, half_of(message, queue_id), 0, queue_id, MessageKind.TRANSACTION, further)
    placed, own_queue_id = broker.place(message, queue_id)
    handle = broker.timers.recall_handle(placed)
    if handle:
        further["recallHandle"] = handle
    kind = MessageKind.NORMAL if placed is message else MessageKind.DELAY
    if SHARDING_KEY in (message.properties or {}):
        kind = MessageKind.FIFO
    return Send(request, placed, own_queue_id, queue_id, kind, further)


def store_batch(broker: Broker, batch: BatchSend) -> Answer | None:
    """Store a batch and return the answer to its sender.

    With sync flush the answer comes when the batch is durable, by the sync that all sends share, and None is returned.
    """
    request, header = batch
    if broker.is_sync_flush:
        broker.syncs.refuse_more(request)
    sent = None
    if broker.has_kernels:
        sent = SentBatch(
            header.topic,
            header.queue_id,
            request.body,
            header.sys_flag,
            header.born_timestamp,
            request.connection.peer,
        )
    if broker.is_sync_flush:
        future = sent and broker.store.put_client_batch_async(sent)
        if future is None:
            future = broker.store.put_messages_async(_messages_of(request, header), header.queue_id)
        broker.syncs.wait(request, future, partial(_answer_of_batch, broker, header))
        return None
    result = sent and broker.store.put_client_batch(sent)
    if result is None:
        result = broker.store.put_messages(_messages_of(request, header), header.queue_id)
    return _answer_of_batch(broker, header, result)


def _answer_of_batch(broker: Broker, header: SendHeader, result: PutManyResult) -> Answer:
    if not result.status.is_stored:
        return refusal(broker, result.status, result.reason)
    places, sizes = result.physical_offsets, result.sizes
    # One follows the other. Sums of numpy take ten times as long for so few.
    size = int(places[-1]) - int(places[0]) + int(sizes[-1])
    broker.statistics.put(header.topic, MessageKind.NORMAL, len(sizes), size)
    ids = broker.message_ids(places)
    return _stored(result.status, ids, header.queue_id, int(result.queue_offsets[0]))


def _messages_of(request: Request, header: SendHeader) -> list[Message]:
    """Return the messages of a batch; refuse a batch that holds others than plain ones."""
    inner = client_batch.decode_messages(request.body)
    if inner is None:
        refuse(ResponseCode.MESSAGE_ILLEGAL, "the message is illegal: the body is no batch of messages")
    messages = [_message(request, header, one.body, one.flag, text_properties(one.properties)) for one in inner]
    if any(_NOT_IN_A_BATCH & (message.properties or {}).keys() or is_transactional(message) for message in messages):
        refuse(ResponseCode.MESSAGE_ILLEGAL, "the message is illegal: a batch has no delayed or transactional messages")
    return messages


def store_sends(broker: Broker, sends: Sequence[Send]) -> None:
    """Store single messages and answer their senders; with sync flush when the messages are durable."""
    if broker.is_sync_flush:
        for send in sends:
            broker.guarded(send.request, partial(_store_async, broker, send))
        return
    together = len(sends) > 1 and sum(len(send.message.body) for send in sends) <= _TOGETHER_BYTES
    if together and _store_together(broker, sends):
        return
    for send in sends:
        broker.guarded(send.request, partial(_store_alone, broker, send))


def _store_together(broker: Broker, sends: Sequence[Send]) -> bool:
    """Store messages as one batch, and answer. Return False if the store refuses one of them: nothing is stored."""
    result = broker.store.put_messages([send.message for send in sends], [send.queue_id for send in sends])
    if not result.status.is_stored:
        return False
    columns = (result.physical_offsets.tolist(), result.queue_offsets.tolist(), result.sizes.tolist())
    for send, physical, queue, size in zip(sends, *columns, strict=True):
        message_id = broker.message_id(physical)
        broker.statistics.put(send.message.topic, send.kind, 1, size)
        send.request.answer(_stored(result.status, message_id, send.asked_queue_id, queue, send.further))
    return True


def _store_alone(broker: Broker, send: Send) -> Answer:
    return _answer(broker, send, broker.store.put_message(send.message, send.queue_id))


def _store_async(broker: Broker, send: Send) -> None:
    broker.syncs.refuse_more(send.request)
    future = broker.store.put_message_async(send.message, send.queue_id)
    broker.syncs.wait(send.request, future, partial(_answer, broker, send))


def _answer(broker: Broker, send: Send, result: PutResult) -> Answer:
    if not result.status.is_stored:
        return refusal(broker, result.status, result.reason)
    broker.statistics.put(send.message.topic, send.kind, 1, result.size)
    message_id = broker.message_id(result.physical_offset)
    return _stored(result.status, message_id, send.asked_queue_id, result.queue_offset, send.further)


def _stored(
    status: PutStatus, message_id: str, queue_id: int, queue_offset: int, further: Mapping[str, str] = _NOTHING
) -> Answer:
    fields: dict[str, Any] = {
        **further,
        "msgId": message_id,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        names.REGION: REGION,
        names.TRACE_ON: "true",
    }
    return Answer(CODES[status][0], None, fields)


def end_transaction(broker: Broker, request: Request) -> Answer | None:
    """Commit a transaction or roll it back."""
    return broker.transactions.end(request)


def recall_message(broker: Broker, request: Request) -> None:
    """Recall a timer message; the answer waits for the disk where that of a send does."""
    broker.syncs.refuse_more(request)
    recalled = broker.timers.recall(request)
    broker.syncs.wait(request, recalled.future, partial(_answer_of_recall, recalled.unique_key))


def _answer_of_recall(unique_key: str, result: PutResult) -> Answer:
    if not result.status.is_stored:
        refuse(ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {result.reason}")
    return Answer(fields={"msgId": unique_key})
