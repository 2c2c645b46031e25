"""Calls of producers: messages, ends of transactions, recalls. Each becomes a request that the broker's handlers serve.

Source: `SendMessageActivity`, `ProducerProcessor`, `EndTransactionActivity`, `RecallMessageActivity`, `ProxyConfig`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from reput.broker.grpc.checks import check_lite_store, check_lite_topic, check_text, check_word, milliseconds, topic_of
from reput.broker.grpc.messages import RESERVED, type_of
from reput.broker.grpc.protocol.definition_pb2 import (
    Code,
    Encoding,
    Message,
    MessageType,
    TransactionResolution,
    TransactionSource,
)
from reput.broker.grpc.protocol.service_pb2 import (
    EndTransactionRequest,
    EndTransactionResponse,
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
)
from reput.broker.grpc.routes import accepted_types, config_of
from reput.broker.grpc.statuses import code_of, refuse_call, refuse_unless_ok, status_of
from reput.broker.grpc.transaction_ids import decode_transaction_id, encode_transaction_id
from reput.broker.state.configuration import queue_count
from reput.formats.java.consistent_hash import consistent_bucket
from reput.formats.java.hashing import java_string_hash
from reput.formats.log import property_names as names
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.properties import MAX_PROPERTIES_SIZE, encode_properties
from reput.formats.log.record import FLAG_COMPRESSED, TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from reput.formats.topics.lite_topics import LITE_TOPIC
from reput.formats.topics.permissions import WRITE
from reput.formats.topics.system_topics import CREATE_TOPIC
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.headers import SHORT_NAMES
from reput.times import HOUR_MS, now_ms

if TYPE_CHECKING:
    from reput.broker.grpc.clients import GrpcCall
    from reput.broker.services.broker import Broker
    from reput.broker.wire.answers import Answer

MAX_USER_PROPERTIES: Final = 128
MAX_USER_PROPERTY_BYTES: Final = 16 << 10
MAX_MESSAGE_GROUP: Final = 64
"""A message group has fewer bytes."""
MAX_DELAY_MS: Final = 24 * HOUR_MS
MAX_RECOVERY_S: Final = 3600
"""The longest time after which a sender wants to be asked about a transaction."""
_QUEUES = "4"
_LITE: Final = LITE_TOPIC.decode()
_RESOLUTIONS: Final = {
    TransactionResolution.COMMIT: TRANSACTION_COMMIT,
    TransactionResolution.ROLLBACK: TRANSACTION_ROLLBACK,
}
_turns = itertools.count()


async def send_message(broker: Broker, call: GrpcCall, request: SendMessageRequest) -> SendMessageResponse:
    """Store a message, or several normal ones of one topic as a batch."""
    if not request.messages:
        refuse_call(Code.MESSAGE_CORRUPTED, "no message to send")
    first = request.messages[0]
    topic = topic_of(first.topic)
    if any(one.topic != first.topic for one in request.messages):
        refuse_call(Code.MESSAGE_CORRUPTED, "topic in message is not same")
    # A batch has one flag for all its messages: consumers would decompress what is not compressed.
    if len({_is_compressed(one) for one in request.messages}) > 1:
        refuse_call(Code.MESSAGE_CORRUPTED, "the body encoding of messages of one call differs: send them one by one")
    config = config_of(broker, topic)
    described = [_described(broker, one, topic, str(call.peer)) for one in request.messages]
    for properties in described:
        _check_type(properties, accepted_types(config))
        if _LITE in properties:
            check_lite_store(broker)
    queue_id = _queue_of(request.messages, queue_count(config, "writeQueueNums") if config["perm"] & WRITE else 0)
    code, sent_properties, body = _as_sent(request.messages, described)
    fields = {
        "producerGroup": topic,
        "topic": topic,
        "defaultTopic": CREATE_TOPIC,
        "defaultTopicQueueNums": _QUEUES,
        "queueId": str(queue_id),
        "sysFlag": str(_sys_flag(first)),
        "bornTimestamp": described[0][names.BORN_TIMESTAMP],
        "flag": "0",
        "properties": sent_properties,
        "reconsumeTimes": "0",
    }
    answer = await call.ask(broker, code, {SHORT_NAMES[name]: text for name, text in fields.items()}, body)
    return _sent(answer, request.messages)


def _as_sent(messages: Sequence[Message], described: Sequence[Mapping[str, str]]) -> tuple[int, str, bytes]:
    """Return the request code of a send, its properties, and its body."""
    encoded = [_encoded(properties) for properties in described]
    if len(messages) == 1:
        return RequestCode.SEND_MESSAGE_V2, encoded[0].decode(), messages[0].body
    inner = [InnerMessage(0, one.body, text) for one, text in zip(messages, encoded, strict=True)]
    return RequestCode.SEND_BATCH_MESSAGE, "", encode_messages(inner)


def _encoded(properties: Mapping[str, str]) -> bytes:
    """Return the properties of a message as they are stored; refuse more than a record holds."""
    data = encode_properties({name.encode(): value.encode() for name, value in properties.items()})
    if len(data) > MAX_PROPERTIES_SIZE:
        words = f"the properties have {len(data)} bytes, the max is {MAX_PROPERTIES_SIZE}"
        refuse_call(Code.MESSAGE_PROPERTIES_TOO_LARGE, words)
    return data


def _described(broker: Broker, message: Message, topic: str, peer: str) -> dict[str, str]:
    """Return the properties of a message; refuse one that no consumer would get as it was sent."""
    system = message.system_properties
    if not message.body:
        refuse_call(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(message.body) > broker.max_message_size:
        refuse_call(Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {broker.max_message_size}")
    _check_user_properties(message)
    properties = {name: value for name, value in message.user_properties.items() if name and value}
    if not system.message_id.strip():
        refuse_call(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    host = check_text(system.born_host, Code.BAD_REQUEST, "born host")
    # A transaction that was born in 1970 would be given up at once.
    has_born = system.HasField("born_timestamp")
    born_ms = milliseconds(system.born_timestamp, Code.BAD_REQUEST) if has_born else now_ms()
    given = {
        names.TAGS: system.tag,
        names.KEYS: " ".join(system.keys),
        names.UNIQUE_KEY: check_text(system.message_id, Code.ILLEGAL_MESSAGE_ID, "message id"),
        names.RECONSUME_TIME: str(system.delivery_attempt),
        names.PRODUCER_GROUP: topic,
        names.SHARDING_KEY: _message_group(system.message_group),
        names.TRACE_CONTEXT: check_text(system.trace_context, Code.BAD_REQUEST, "trace context"),
        names.BORN_HOST: host if host.strip() else peer,
        names.BORN_TIMESTAMP: str(born_ms),
    }
    if system.message_type == MessageType.TRANSACTION:
        given[names.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = milliseconds(system.orphaned_transaction_recovery_duration, Code.BAD_REQUEST) // 1000
            if seconds > MAX_RECOVERY_S:
                words = f"the max transaction recovery time of message is too large, max is {MAX_RECOVERY_S}"
                refuse_call(Code.BAD_REQUEST, words)
            given[names.CHECK_IMMUNITY_S] = str(seconds)
    if system.lite_topic:
        given[_LITE] = check_lite_topic(system.lite_topic)
    if system.HasField("delivery_timestamp"):
        due_ms = milliseconds(system.delivery_timestamp, Code.ILLEGAL_DELIVERY_TIME)
        if due_ms - now_ms() > MAX_DELAY_MS:
            words = f"the max delay time of message is too large, max is {MAX_DELAY_MS}"
            refuse_call(Code.ILLEGAL_DELIVERY_TIME, words)
        given[names.TIMER_DELIVER_MS] = str(due_ms)
    return properties | {name: value for name, value in given.items() if value}


def _check_user_properties(message: Message) -> None:
    system, size = message.system_properties, 0
    if len(message.user_properties) > MAX_USER_PROPERTIES:
        refuse_call(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"too many user properties, max is {MAX_USER_PROPERTIES}")
    for name, value in message.user_properties.items():
        if name in RESERVED:
            refuse_call(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        check_text(name, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key of property")
        check_text(value, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "the value of property")
        size += len(name.encode()) + len(value.encode())
    check_word(system.tag, Code.ILLEGAL_MESSAGE_TAG, "tag")
    if "|" in system.tag:
        refuse_call(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    for key in system.keys:
        check_word(key, Code.ILLEGAL_MESSAGE_KEY, "key")
        size += len(key.encode())
    if size + len(system.tag.encode()) > MAX_USER_PROPERTY_BYTES:
        words = f"the total size of user property is too large, max is {MAX_USER_PROPERTY_BYTES}"
        refuse_call(Code.MESSAGE_PROPERTIES_TOO_LARGE, words)


def _message_group(group: str) -> str:
    if len(group.encode()) >= MAX_MESSAGE_GROUP:
        refuse_call(Code.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {MAX_MESSAGE_GROUP}")
    return check_word(group, Code.ILLEGAL_MESSAGE_GROUP, "message group")


def _check_type(properties: Mapping[str, str], accepted: Sequence[MessageType]) -> None:
    actual = type_of(properties)
    if actual not in accepted:
        expected = " or ".join(MessageType.Name(one) for one in accepted)
        words = f"the expected type is {expected}, but actual type is {MessageType.Name(actual)}"
        words += "; set it by the topic's attribute message.type, such as reput serve --topic NAME:QUEUES:MIXED"
        refuse_call(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"TopicMessageType validate failed, {words}")


def _queue_of(messages: Sequence[Message], queues: int) -> int:
    """Return the queue of a send: that of the message group or of the lite topic, or another one each time.

    RocketMQ's proxy looks at the group of a single message alone, so a batch leaves the order of its group there.
    """
    if queues <= 0:
        refuse_call(Code.FORBIDDEN, "no writable queue")
    group, *others = {one.system_properties.message_group for one in messages}
    if others:
        refuse_call(
            Code.ILLEGAL_MESSAGE_GROUP, "the message group of messages of one call differs: send them one by one"
        )
    key = group or (messages[0].system_properties.lite_topic if len(messages) == 1 else "")
    return consistent_bucket(java_string_hash(key), queues) if key else next(_turns) % queues


def _is_compressed(message: Message) -> bool:
    return message.system_properties.body_encoding == Encoding.GZIP


def _sys_flag(message: Message) -> int:
    system = message.system_properties
    flag = FLAG_COMPRESSED if _is_compressed(message) else 0
    return flag | (TRANSACTION_PREPARED if system.message_type == MessageType.TRANSACTION else 0)


def _sent(answer: Answer, messages: Sequence[Message]) -> SendMessageResponse:
    """Return the answer of a send, with an entry for each message."""
    if answer.code == ResponseCode.FLUSH_DISK_TIMEOUT:
        status = status_of(code_of(answer.code), "send message failed, sendStatus=FLUSH_DISK_TIMEOUT")
        return SendMessageResponse(status=status, entries=[SendResultEntry(status=status) for _ in messages])
    refuse_unless_ok(answer)
    fields, offset = answer.fields, int(answer.fields["queueOffset"])
    response = SendMessageResponse(status=status_of(Code.OK))
    for number, message in enumerate(messages):
        system = message.system_properties
        is_transaction = system.message_type == MessageType.TRANSACTION
        response.entries.add(
            status=status_of(Code.OK),
            message_id=system.message_id,
            transaction_id=encode_transaction_id(fields["msgId"], offset) if is_transaction else "",
            offset=offset + number,
            recall_handle=fields.get("recallHandle", ""),
        )
    return response


async def end_transaction(broker: Broker, call: GrpcCall, request: EndTransactionRequest) -> EndTransactionResponse:
    """Commit a transaction, or roll it back; one whose end the producer does not know is asked about later."""
    topic, place = topic_of(request.topic), decode_transaction_id(request.transaction_id)
    if not request.transaction_id.strip():
        refuse_call(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
    if place is None:
        refuse_call(Code.INVALID_TRANSACTION_ID, f"{request.transaction_id:.80} is no transaction id of this broker")
    fields = {
        "topic": topic,
        "producerGroup": topic,
        "tranStateTableOffset": str(place.queue_offset),
        "commitLogOffset": str(place.physical_offset),
        "commitOrRollback": str(_RESOLUTIONS.get(request.resolution, 0)),
        "fromTransactionCheck": str(request.source == TransactionSource.SOURCE_SERVER_CHECK).lower(),
        "msgId": request.message_id,
    }
    refuse_unless_ok(await call.ask(broker, RequestCode.END_TRANSACTION, fields))
    return EndTransactionResponse(status=status_of(Code.OK))


async def recall_message(broker: Broker, call: GrpcCall, request: RecallMessageRequest) -> RecallMessageResponse:
    """Recall a message that is not due yet."""
    topic = topic_of(request.topic)
    fields = {"producerGroup": topic, "topic": topic, "recallHandle": request.recall_handle}
    answer = await call.ask(broker, RequestCode.RECALL_MESSAGE, fields)
    refuse_unless_ok(answer)
    return RecallMessageResponse(status=status_of(Code.OK), message_id=answer.fields["msgId"])
