"""Acks of pop consumers, and changes of the time after which a message comes again.

Source: `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reput.broker.services.lite import light_queue
from reput.broker.services.pops import NO_LEASE
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import RefusedError, refuse
from reput.formats.layout import INT64_MAX
from reput.formats.topics.lite_groups import lite_group_of
from reput.formats.topics.pop_topics import TopicKind, retry_topic
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.receipt_handle import ReceiptHandle, decode_handle

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request
    from reput.log.append.flush import PutFuture
    from reput.log.encode.message import PutResult

MAX_ACKS: Final = 256
"""The most entries of a batch of acks. A client sends a few, one for each pop."""
_MOST_OFFSETS = 64
"""The most messages of a pop."""


def ack_message(broker: Broker, request: Request) -> Answer | None:
    """End the lease of a message."""
    group, topic, handle = _handle(broker, request)
    return _when_durable(broker, request, broker.pops.ack(group, topic, handle), Answer())


def batch_ack_message(broker: Broker, request: Request) -> Answer | None:
    """End the leases of several messages. Those that the group does not hold are left out, if it holds one of them."""
    values = request.json()
    acks, broker_name = values.get("acks"), values.get("brokerName")
    if not isinstance(acks, list) or not acks or not isinstance(broker_name, str):
        refuse(ResponseCode.NO_MESSAGE, "the request has no acks")
    if len(acks) > MAX_ACKS:
        refuse(ResponseCode.INVALID_PARAMETER, f"the request has {len(acks)} acks: send {MAX_ACKS} at most")
    future: PutFuture[PutResult] | None = None
    has_any = False
    for one in acks:
        entry = _batch_entry(one, broker_name)
        if entry is None:
            refuse(ResponseCode.INVALID_PARAMETER, f"an ack of the batch is illegal: {str(one)[:200]}")
        group, topic, first, offsets = entry
        if first.is_orderly:
            acked, put = _ack_orderly(broker, group, topic, first, offsets)
        else:
            put = broker.pops.ack_all(group, topic, first, offsets)
            acked = put is not None
        future, has_any = put or future, has_any or acked
    if not has_any:
        refuse(ResponseCode.NO_MESSAGE, NO_LEASE)
    return _when_durable(broker, request, future, Answer())


def _ack_orderly(
    broker: Broker, group: str, topic: str, first: ReceiptHandle, offsets: list[int]
) -> tuple[bool, PutFuture[PutResult] | None]:
    """Take acks in order; return True if the group holds any of the messages, and what the answer waits for."""
    has_any, future = False, None
    for offset in offsets:
        try:
            future = broker.pops.ack(group, topic, first._replace(queue_offset=offset)) or future
        except RefusedError:
            # Another one of the batch may be held.
            continue
        has_any = True
    return has_any, future


def _batch_entry(values: Any, broker_name: str) -> tuple[str, str, ReceiptHandle, list[int]] | None:
    """Return the group, the topic, a handle and the offsets of an entry of a batch of acks; None for anything else."""
    if not isinstance(values, dict):
        return None
    group, topic, kind, bits = (values.get(name) for name in "ctrb")
    if not (isinstance(group, str) and isinstance(topic, str) and isinstance(kind, str) and isinstance(bits, str)):
        return None
    numbers = [values.get(name, 0) for name in ("so", "pt", "it", "rq", "q")]
    if kind not in set(TopicKind) or not all(type(one) is int and 0 <= one <= INT64_MAX for one in numbers):
        return None
    start, popped, invisible, revive, queue_id = numbers
    try:
        bit_set = np.frombuffer(base64.b64decode(bits, validate=True), dtype=np.uint8)
    except (binascii.Error, ValueError):
        return None
    # No pop has more messages; between them may lie some that its filter left out.
    used = np.flatnonzero(bit_set)[:_MOST_OFFSETS]
    at, bit = np.nonzero(np.unpackbits(bit_set[used, np.newaxis], axis=1, bitorder="little"))
    offsets = (start + used[at] * 8 + bit)[:_MOST_OFFSETS].tolist()
    handle = ReceiptHandle(start, popped, invisible, revive, TopicKind(kind), broker_name, queue_id, start)
    return group, retry_topic(topic, group, handle.kind), handle, offsets


def change_invisible_time(broker: Broker, request: Request) -> Answer | None:
    """Let a message come again a time from now on."""
    group, topic, handle = _handle(broker, request)
    invisible_ms, is_suspended = request.int64("invisibleTime"), request.flag("suspend")
    renewed, future = broker.pops.change(group, topic, handle, invisible_ms, is_suspended=is_suspended)
    fields = {
        "popTime": str(renewed.pop_time),
        "invisibleTime": str(renewed.invisible_time),
        "reviveQid": str(renewed.revive_queue),
    }
    return _when_durable(broker, request, future, Answer(fields=fields))


def _handle(broker: Broker, request: Request) -> tuple[str, str, ReceiptHandle]:
    """Return the group, the topic of the queue and the handle of a request; refuse one that cannot be of a message."""
    group, topic = request.text("consumerGroup"), request.text("topic")
    queue_id, offset = request.int32("queueId"), request.int64("offset")
    handle = decode_handle(request.text("extraInfo"))
    queues = broker.topics.queues(topic) if broker.topics.get(topic) else 0
    lite_topic = request.fields.get("liteTopic", "")
    if lite_topic:
        rules = lite_group_of(broker.groups.find(group) or {})
        if rules is None or rules.topic != topic:
            refuse(ResponseCode.INVALID_PARAMETER, "group type or bind topic not match.")
        topic, queues = light_queue(topic, lite_topic), 1
    if not 0 <= queue_id < queues:
        words = f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{queues}]"
        refuse(ResponseCode.MESSAGE_ILLEGAL, words)
    if handle is None or (handle.queue_id, handle.queue_offset) != (queue_id, offset):
        refuse(ResponseCode.INVALID_PARAMETER, "the extraInfo is no handle of this message")
    least, end = broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)
    if not least <= offset < end:
        words = f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{least}~{end}"
        refuse(ResponseCode.NO_MESSAGE, words)
    return group, topic, handle


def _when_durable(
    broker: Broker, request: Request, future: PutFuture[PutResult] | None, answer: Answer
) -> Answer | None:
    """Return an answer, or send it when an ack is durable."""
    if future is None or future.done():
        return answer
    broker.syncs.wait(request, future, partial(_answer_of, answer))
    return None


def _answer_of(answer: Answer, result: PutResult) -> Answer:
    if not result.status.is_stored:
        refuse(ResponseCode.SYSTEM_ERROR, f"the ack is not stored: {result.status.value}: {result.reason}")
    return answer
