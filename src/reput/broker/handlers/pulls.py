"""Pulls: messages at once, or when they arrive (`services.holds`).

Source: `PullMessageProcessor`, `PullSysFlag`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.services.holds import PullRequest
from reput.broker.state.configuration import READ, queue_count
from reput.broker.state.consumers import BROADCASTING, Subscription
from reput.broker.wire.answers import Answer
from reput.broker.wire.codes import ResponseCode, refuse
from reput.errors import ConfigError
from reput.formats.config.consumer_filter import SQL92, TAG
from reput.store.read.queue_answers import BROKER_PULL_BYTES, BROKER_PULL_MESSAGES
from reput.store.read.results import GetResult, GetStatus
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

COMMIT_FLAG, SUSPEND_FLAG, SUBSCRIPTION_FLAG, CLASS_FILTER_FLAG = 1, 2, 4, 8

_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def serve_pull(broker: Broker, request: Request) -> Answer | None:
    """Answer a pull, or hold it."""
    group, topic = request.text("consumerGroup"), request.text("topic")
    queue_id, offset = request.int32("queueId"), request.int64("queueOffset")
    max_messages, sys_flag = request.int32("maxMsgNums"), request.int32("sysFlag")
    commit_offset, suspend_ms = request.int64("commitOffset"), request.int64("suspendTimeoutMillis")
    version = request.int64("subVersion")
    max_bytes = request.int32("maxMsgBytes", BROKER_PULL_BYTES)
    rules = broker.groups.find_or_create(group)
    if not rules.get("consumeEnable", True):
        refuse(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
    config = broker.topics.get(topic)
    if not config.get("perm", 0) & READ:
        refuse(ResponseCode.NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden")
    if not 0 <= queue_id < queue_count(config, "readQueueNums"):
        refuse(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:"
            f"[{config.get('readQueueNums')}] consumer:[{request.connection.peer}]",
        )
    may_broadcast = rules.get("consumeBroadcastEnable", True)
    wanted = _filter(_subscription(broker, request, group, topic, sys_flag, version, may_broadcast=may_broadcast))
    pull = PullRequest(
        request,
        group,
        topic,
        queue_id,
        offset,
        min(max(max_messages, 1), BROKER_PULL_MESSAGES),
        min(max(max_bytes, 1), BROKER_PULL_BYTES),
        wanted,
    )
    if sys_flag & COMMIT_FLAG and commit_offset >= 0:
        broker.store.commit_offset(group, topic, queue_id, commit_offset)
    answer = _answer_now(broker, pull)
    can_wait = sys_flag & SUSPEND_FLAG and suspend_ms > 0 and not request.frame.is_one_way
    if answer.code != ResponseCode.PULL_NOT_FOUND or not can_wait:
        return answer
    return None if broker.holds.hold(pull, suspend_ms, partial(_answer_now, broker, pull)) else answer


def _answer_now(broker: Broker, pull: PullRequest) -> Answer:
    """Answer a pull with what the queue has now, or with the offset to which its group was sent."""
    return _answer_of_reset(broker, pull) or _answer_of(_ask(broker, pull), pull.offset)


def _subscription(
    broker: Broker, request: Request, group: str, topic: str, sys_flag: int, version: int, *, may_broadcast: bool
) -> Subscription:
    if sys_flag & CLASS_FILTER_FLAG:
        refuse(ResponseCode.SYSTEM_ERROR, "The broker does not support class filters")
    if sys_flag & SUBSCRIPTION_FLAG:
        kind = SQL92 if request.fields.get("expressionType") == SQL92 else TAG
        return Subscription(topic, request.fields.get("subscription", "*"), kind, version)
    members = broker.consumers.find(group)
    if members is None:
        refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
    if members.kind.message_model == BROADCASTING and not may_broadcast:
        refuse(ResponseCode.NO_PERMISSION, f"the consumer group[{group}] can not consume by broadcast way")
    known = members.subscriptions.get(topic)
    if known is None:
        refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
    if known.version < version:
        refuse(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    return known


def _filter(subscription: Subscription) -> TagFilter | SqlFilter | None:
    try:
        return subscription.filter()
    except ConfigError as error:
        refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}")


def _ask(broker: Broker, pull: PullRequest) -> GetResult:
    """Ask the store."""
    found = broker.store.get_message(
        pull.topic, pull.queue_id, pull.offset, pull.max_messages, pull.wanted, pull.max_bytes
    )
    if len(found):
        broker.statistics.gave(pull.topic, pull.group, len(found), int(found.sizes.sum()))
    broker.statistics.pulled[pull.group, pull.topic, pull.queue_id] = found.next_offset
    return found


def _answer_of_reset(broker: Broker, pull: PullRequest) -> Answer | None:
    """Return the answer that sends a group to another offset of a queue, once; None if no reset waits."""
    offset = broker.store.take_reset(pull.group, pull.topic, pull.queue_id)
    if offset is None:
        return None
    ends = broker.store.min_offset(pull.topic, pull.queue_id), broker.store.max_offset(pull.topic, pull.queue_id)
    return Answer(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", _offset_fields(offset, *ends))


def _code_of(found: GetResult, offset: int) -> ResponseCode:
    """Return the code of a pull's answer."""
    code = _CODES.get(found.status)
    if code is None:
        # The queue has had no message yet.
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return code


def _answer_of(found: GetResult, offset: int) -> Answer:
    """Return the answer of a pull."""
    fields = _offset_fields(found.next_offset, found.min_offset, found.max_offset)
    return Answer(_code_of(found, offset), str(found.status), fields, _pieces_of(found))


def _offset_fields(next_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
    }


def _pieces_of(found: GetResult) -> Sequence[memoryview]:
    """Return the records of an answer, as views of the mapped log: one for each run of neighbours."""
    pieces: list[memoryview] = []
    starts, sizes = found.physical_offsets.tolist(), found.sizes.tolist()
    at = 0
    while at < len(starts):
        begin, end = starts[at], starts[at] + sizes[at]
        array_start, array = next(one for one in found.maps if one[0] <= begin < one[0] + len(one[1]))
        at += 1
        while at < len(starts) and starts[at] == end < array_start + len(array):
            end += sizes[at]
            at += 1
        pieces.append(array.data[begin - array_start : end - array_start])
    return pieces
