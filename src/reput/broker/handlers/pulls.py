"""Pulls: messages at once, or when they arrive (`services.holds`).

Source: `PullMessageProcessor`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.services.holds import PullRequest
from reput.broker.state.committed import refuse_further_offsets
from reput.broker.state.configuration import queue_count
from reput.broker.state.consumers import BROADCASTING, filter_of
from reput.broker.state.known_headers import PullHeader, pull_key
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.errors import ConfigError
from reput.formats.config.tag_expression import ALL_TAGS
from reput.formats.topics.permissions import READ
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.headers import CLASS_FILTER_FLAG, COMMIT_FLAG, SUBSCRIPTION_FLAG, SUSPEND_FLAG
from reput.formats.wire.subscription import Subscription, filter_type
from reput.store.read.own_messages import own_messages
from reput.store.read.queue_answers import BROKER_PULL_BYTES, BROKER_PULL_MESSAGES
from reput.store.read.results import GetResult, GetStatus
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

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
    key = pull_key(request.fields)
    header = broker.known_pulls.find(key)
    if header is None:
        header = _admit_anew(broker, request)
        broker.known_pulls.add(key, header)
    pull = PullRequest(request, header, request.int64("queueOffset"))
    commit_offset = request.int64("commitOffset")
    if header.commits and commit_offset >= 0:
        group, topic, queue_id = header.group, header.topic, header.queue_id
        refuse_further_offsets(broker.store.progress, group, topic, (queue_id,))
        broker.store.commit_offset(group, topic, queue_id, commit_offset)
    answer = _answer_now(broker, pull)
    if answer.code != ResponseCode.PULL_NOT_FOUND or not header.suspend_ms or request.frame.is_one_way:
        return answer
    return None if broker.holds.hold(pull, partial(_answer_now, broker)) else answer


def _admit_anew(broker: Broker, request: Request) -> PullHeader:
    group, topic = request.text("consumerGroup"), request.text("topic")
    queue_id, max_messages, sys_flag = (request.int32(name) for name in ("queueId", "maxMsgNums", "sysFlag"))
    suspend_ms, version = request.int64("suspendTimeoutMillis"), request.int64("subVersion")
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
    subscription = _subscription(broker, request, group, topic, sys_flag, version, may_broadcast=may_broadcast)
    wanted = _filter(subscription, is_inside=bool(sys_flag & SUBSCRIPTION_FLAG))
    return PullHeader(
        group,
        topic,
        queue_id,
        min(max(max_messages, 1), BROKER_PULL_MESSAGES),
        min(max(max_bytes, 1), BROKER_PULL_BYTES),
        wanted,
        bool(sys_flag & COMMIT_FLAG),
        max(suspend_ms, 0) if sys_flag & SUSPEND_FLAG else 0,
    )


def _answer_now(broker: Broker, pull: PullRequest) -> Answer:
    """Answer a pull with what the queue has now, or with the offset to which its group was sent."""
    return _answer_of_reset(broker, pull.header) or _answer_of(broker, pull)


def _subscription(
    broker: Broker, request: Request, group: str, topic: str, sys_flag: int, version: int, *, may_broadcast: bool
) -> Subscription:
    if sys_flag & CLASS_FILTER_FLAG:
        refuse(ResponseCode.SYSTEM_ERROR, "The broker does not support class filters")
    if sys_flag & SUBSCRIPTION_FLAG:
        kind = filter_type(request.fields.get("expressionType"))
        return Subscription(topic, request.fields.get("subscription", ALL_TAGS), kind, version)
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


def _filter(subscription: Subscription, *, is_inside: bool) -> TagFilter | SqlFilter | None:
    """Return the filter of a subscription, which is inside the pull or that of a heartbeat; refuse a wrong one."""
    try:
        return filter_of(subscription)
    except ConfigError as error:
        if not is_inside:
            words = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            refuse(ResponseCode.FILTER_DATA_NOT_EXIST, f"{words} {error}")
        refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}")


def _answer_of_reset(broker: Broker, header: PullHeader) -> Answer | None:
    """Return the answer that sends a group to another offset of a queue, once; None if no reset waits."""
    offset = broker.store.take_reset(header.group, header.topic, header.queue_id)
    if offset is None:
        return None
    queue = header.topic, header.queue_id
    ends = broker.store.min_offset(*queue), broker.store.max_offset(*queue)
    return Answer(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", _offset_fields(offset, *ends))


def _answer_of(broker: Broker, pull: PullRequest) -> Answer:
    """Ask the store; return the answer."""
    group, topic, queue_id, max_messages, max_bytes, wanted, _, _ = pull.header
    found = own_messages(broker.store, topic, queue_id, pull.offset, max_messages, wanted, max_bytes)
    pieces = found.pieces()
    if pieces:
        broker.statistics.gave(topic, group, len(found), sum(map(len, pieces)))
    broker.statistics.pulled_to(group, topic, queue_id, found.next_offset)
    fields = _offset_fields(found.next_offset, found.min_offset, found.max_offset)
    return Answer(_code_of(found, pull.offset), found.status.value, fields, pieces)


def _code_of(found: GetResult, offset: int) -> ResponseCode:
    """Return the code of a pull's answer."""
    code = _CODES.get(found.status)
    if code is None:
        # The queue has had no message yet.
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return code


def _offset_fields(next_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
    }
