"""Pulls: messages at once, or when they arrive (long polling).

A pull that finds nothing new is held until its queue has a message at its offset, its time is over, its group is sent
to another offset, its client goes, or the broker stops. Then it runs once more, and is answered.

Source: `PullMessageProcessor`, `PullRequestHoldService`, `PullSysFlag`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.codes import ResponseCode, refuse
from reput.broker.configuration import READ
from reput.broker.consumers import SQL92, Subscription
from reput.broker.requests import Answer
from reput.errors import ConfigError
from reput.store.read.queue_answers import BROKER_PULL_BYTES, BROKER_PULL_MESSAGES
from reput.store.read.results import GetResult, GetStatus
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter

if TYPE_CHECKING:
    from reput.broker.broker import Broker
    from reput.broker.requests import Request
    from reput.store.read.arrivals import Waiter

COMMIT_FLAG, SUSPEND_FLAG, SUBSCRIPTION_FLAG, CLASS_FILTER_FLAG = 1, 2, 4, 8
MAX_SUSPEND_MS: Final = 60_000
MAX_HELD: Final = 100_000
"""The most pulls that are held; more are answered at once."""

_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullRequest(NamedTuple):
    """A pull whose header has been checked."""

    request: Request
    group: str
    topic: str
    queue_id: int
    offset: int
    max_messages: int
    max_bytes: int
    wanted: TagFilter | SqlFilter | None


def serve_pull(broker: Broker, request: Request) -> Answer | None:
    """Answer a pull, or hold it."""
    group, topic = request.text("consumerGroup"), request.text("topic")
    queue_id, offset = request.int32("queueId"), request.int64("queueOffset")
    max_messages, sys_flag = request.int32("maxMsgNums"), request.int32("sysFlag")
    commit_offset, suspend_ms = request.int64("commitOffset"), request.int64("suspendTimeoutMillis")
    version = request.int64("subVersion")
    max_bytes = request.int32("maxMsgBytes", BROKER_PULL_BYTES)
    if not broker.groups.find_or_create(group).get("consumeEnable", True):
        refuse(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
    config = broker.topics.get(topic)
    if not config.get("perm", 0) & READ:
        refuse(ResponseCode.NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden")
    if not 0 <= queue_id < config.get("readQueueNums", 0):
        refuse(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:"
            f"[{config.get('readQueueNums')}] consumer:[{request.connection.peer}]",
        )
    wanted = _filter(_subscription(broker, request, group, topic, sys_flag, version))
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
    reset = answer_of_reset(broker, pull)
    if reset is not None:
        return reset
    found = ask(broker, pull)
    can_wait = sys_flag & SUSPEND_FLAG and suspend_ms > 0 and not request.frame.is_one_way
    if code_of(found, offset) is ResponseCode.PULL_NOT_FOUND and can_wait and broker.holds.hold(pull, suspend_ms):
        return None
    return answer_of(found, offset)


def _subscription(
    broker: Broker, request: Request, group: str, topic: str, sys_flag: int, version: int
) -> Subscription:
    if sys_flag & CLASS_FILTER_FLAG:
        refuse(ResponseCode.SYSTEM_ERROR, "The broker does not support class filters")
    if sys_flag & SUBSCRIPTION_FLAG:
        kind = SQL92 if request.fields.get("expressionType") == SQL92 else "TAG"
        return Subscription(topic, request.fields.get("subscription", "*"), kind, version)
    members = broker.consumers.find(group)
    if members is None:
        refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
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


def ask(broker: Broker, pull: PullRequest) -> GetResult:
    """Ask the store."""
    found = broker.store.get_message(
        pull.topic, pull.queue_id, pull.offset, pull.max_messages, pull.wanted, pull.max_bytes
    )
    if len(found):
        broker.statistics.gave(pull.topic, len(found), int(found.sizes.sum()))
    return found


def answer_of_reset(broker: Broker, pull: PullRequest) -> Answer | None:
    """Return the answer that sends a group to another offset of a queue, once; None if no reset waits."""
    offset = broker.store.take_reset(pull.group, pull.topic, pull.queue_id)
    if offset is None:
        return None
    ends = broker.store.min_offset(pull.topic, pull.queue_id), broker.store.max_offset(pull.topic, pull.queue_id)
    return Answer(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", _offset_fields(offset, *ends))


def code_of(found: GetResult, offset: int) -> ResponseCode:
    """Return the code of a pull's answer."""
    code = _CODES.get(found.status)
    if code is None:
        # The queue has had no message yet.
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return code


def answer_of(found: GetResult, offset: int) -> Answer:
    """Return the answer of a pull."""
    fields = _offset_fields(found.next_offset, found.min_offset, found.max_offset)
    return Answer(code_of(found, offset), str(found.status), fields, pieces_of(found))


def _offset_fields(next_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
    }


def pieces_of(found: GetResult) -> Sequence[memoryview]:
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


@dataclass(slots=True, eq=False)
class Hold:
    """A pull that is held."""

    pull: PullRequest
    waiter: Waiter | None = None
    timer: asyncio.TimerHandle | None = None


class Holds:
    """The pulls that are held. All methods run in the loop's thread."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._held: dict[Hold, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, pull: PullRequest, suspend_ms: int) -> bool:
        """Hold a pull; return False if there are too many."""
        if len(self._held) >= MAX_HELD:
            return False
        hold = Hold(pull)
        self._held[hold] = None
        hold.timer = self._loop.call_later(min(suspend_ms, MAX_SUSPEND_MS) / 1000, self._end, hold)
        # The store looks again after it has noted the waiter, so no arrival is lost in between.
        hold.waiter = self._broker.store.on_arrival(
            pull.topic, pull.queue_id, pull.offset, lambda: self._broker.soon(self._end, hold)
        )
        return True

    def _end(self, hold: Hold) -> None:
        if self._forget(hold):
            broker, pull = self._broker, hold.pull
            broker.guarded(
                pull.request, lambda: answer_of_reset(broker, pull) or answer_of(ask(broker, pull), pull.offset)
            )

    def _forget(self, hold: Hold) -> bool:
        if hold not in self._held:
            return False
        del self._held[hold]
        if hold.timer is not None:
            hold.timer.cancel()
        if hold.waiter is not None:
            self._broker.store.stop_waiting(hold.waiter)
        return True

    def forget_connection(self, connection: object) -> None:
        """Drop the pulls of a connection that is gone."""
        for hold in [one for one in self._held if one.pull.request.connection is connection]:
            self._forget(hold)

    def end_topic(self, topic: str) -> None:
        """Answer the pulls of a topic: it is deleted."""
        for hold in [one for one in self._held if one.pull.topic == topic]:
            self._end(hold)

    def end_pulls(self, group: str, topic: str, queue_id: int) -> None:
        """Answer the pulls of a group in a queue: its offset has changed."""
        wanted = (group, topic, queue_id)
        for hold in [one for one in self._held if (one.pull.group, one.pull.topic, one.pull.queue_id) == wanted]:
            self._end(hold)

    def end_all(self) -> None:
        """Answer all pulls: the broker stops."""
        for hold in list(self._held):
            self._end(hold)
