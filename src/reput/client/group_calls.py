"""Requests of a consumer: members of its group, offsets, pulls, and messages that are sent back.

Source: `MQClientAPIImpl`, `PullAPIWrapper`, `RemoteBrokerOffsetStore`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.client.received import messages_in
from reput.client.refusals import refusal
from reput.errors import ClientError
from reput.formats.java.fastjson import parse_fastjson
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.headers import COMMIT_FLAG, SUSPEND_FLAG

if TYPE_CHECKING:
    from reput.client.core import ClientCore
    from reput.client.queue_work import QueueWork
    from reput.client.received import ReceivedMessage
    from reput.formats.wire.bodies import QueueName
    from reput.formats.wire.remoting import RemotingFrame
    from reput.formats.wire.subscription import Subscription

PULL_MESSAGES: Final = 32
"""The most messages of a pull (`pullBatchSize`)."""
PULL_BYTES: Final = 256 << 10
"""The most bytes of a pull (`pullBatchSizeInBytes`)."""
SUSPEND_MS: Final = 15_000
"""The time for which a broker may hold a pull (`brokerSuspendMaxTimeMillis`)."""
PULL_TIME_OUT_S: Final = 30.0
"""The longest wait for a pull's answer (`consumerTimeoutMillisWhenSuspend`)."""


class Pulled(NamedTuple):
    """The answer to a pull.

    Attributes:
        messages: The messages.
        next_offset: The offset of the next pull.
        broker_id: The id of the broker from which that is to come.
        is_moved: True if the queue does not have the pull's offset, or the group's offset was reset.
    """

    messages: list[ReceivedMessage]
    next_offset: int
    broker_id: int
    is_moved: bool


class GroupCalls:
    """The requests of a consumer to brokers.

    Args:
        core: the client.
        group: the consumer group.
    """

    def __init__(self, core: ClientCore, group: str) -> None:
        self._core = core
        self._group = group

    async def members(self, address: str) -> list[str]:
        """Return the ids of the group's members, in order, as a broker knows them.

        Raises:
            ClientError: the broker does not answer, or knows no member.
        """
        fields = {"consumerGroup": self._group}
        answer = await self._core.ask("members", address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        values = parse_fastjson(answer.body)
        found = values.get("consumerIdList") if isinstance(values, dict) else None
        return sorted(one for one in found if isinstance(one, str)) if isinstance(found, list) else []

    async def check_filter(self, address: str, subscription: Subscription) -> None:
        """Have a broker check a filter, as before the start of a consumer.

        Raises:
            BrokerError: it is no filter, or the broker takes none of its kind.
        """
        values = {"clientId": self._core.client_id, "group": self._group, "subscriptionData": subscription.as_json()}
        body = json.dumps({**values, "namespace": None}).encode()
        code = RequestCode.CHECK_CLIENT_CONFIG
        await self._core.ask("the filter of topic", address, code, {}, body, subscription.topic)

    async def committed(self, queue: QueueName) -> int | None:
        """Return the offset that the group has committed in a queue; None if it has none.

        Raises:
            ClientError: the broker does not answer.
        """
        fields = {"consumerGroup": self._group, **_named(queue)}
        address = self._core.routes.address_of(queue.broker_name)
        answer = await self._core.connections.ask(
            address, RequestCode.QUERY_CONSUMER_OFFSET, fields, timeout_s=self._core.timeout_s, topic=queue.topic
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise refusal("the committed offset of topic", address, answer, queue.topic)
        return _offset(answer, address)

    async def max_offset(self, queue: QueueName) -> int:
        """Return the next offset of a queue; see `committed` for errors."""
        return await self._ask_offset(queue, RequestCode.GET_MAX_OFFSET, {})

    async def offset_by_time(self, queue: QueueName, time_ms: int) -> int:
        """Return the offset of the first message that was stored at a time or later; see `committed` for errors."""
        further = {"timestamp": str(time_ms), "boundaryType": "LOWER"}
        return await self._ask_offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, further)

    async def _ask_offset(self, queue: QueueName, code: RequestCode, further: dict[str, str]) -> int:
        address = self._core.routes.address_of(queue.broker_name)
        fields = {**_named(queue), **further}
        return _offset(await self._core.ask("an offset of topic", address, code, fields, topic=queue.topic), address)

    async def commit(self, queue: QueueName, offset: int, *, waits: bool) -> None:
        """Commit an offset of the group; `waits`: until the broker has it.

        Raises:
            ClientError: there is no connection to the broker, or it refuses.
        """
        fields = {"consumerGroup": self._group, **_named(queue), "commitOffset": str(offset)}
        address, code = self._core.routes.address_of(queue.broker_name), RequestCode.UPDATE_CONSUMER_OFFSET
        if waits:
            await self._core.ask("the offset of topic", address, code, fields, topic=queue.topic)
        else:
            await self._core.connections.notify(address, code, fields)

    async def pull(self, work: QueueWork) -> Pulled:
        """Pull the next messages of a queue, or wait for them; commit what may be.

        Raises:
            ClientError: the broker refuses the pull, or does not answer.
        """
        queue, committable = work.queue, work.committable
        address = self._core.routes.address_of(queue.broker_name, work.broker_id)
        commits = committable > 0 and work.broker_id == 0
        fields = {
            "consumerGroup": self._group,
            **_named(queue),
            "queueOffset": str(work.next_offset),
            "maxMsgNums": str(PULL_MESSAGES),
            "sysFlag": str((COMMIT_FLAG if commits else 0) | SUSPEND_FLAG),
            "commitOffset": str(committable if commits else 0),
            "suspendTimeoutMillis": str(SUSPEND_MS),
            "subVersion": str(work.subscription.version),
            "expressionType": work.subscription.kind,
            "maxMsgBytes": str(PULL_BYTES),
        }
        answer = await self._core.connections.ask(
            address, RequestCode.PULL_MESSAGE, fields, timeout_s=PULL_TIME_OUT_S, topic=queue.topic
        )
        if answer.code not in _PULLED:
            raise refusal("pull of topic", address, answer, queue.topic)
        if commits:
            work.sent_offset = max(work.sent_offset, committable)
        messages = messages_in(answer.body, queue.broker_name, address) if answer.code == ResponseCode.SUCCESS else []
        is_moved = answer.code == ResponseCode.PULL_OFFSET_MOVED
        next_offset = _offset(answer, address, "nextBeginOffset")
        suggested = answer.fields.get("suggestWhichBrokerId", "0")
        return Pulled(messages, next_offset, int(suggested) if suggested.isdecimal() else 0, is_moved)

    async def send_back(self, message: ReceivedMessage, queue: QueueName, delay_level: int, most_tries: int) -> None:
        """Have the broker deliver a message again later, or make it a dead letter after too many tries.

        Raises:
            ClientError: the broker refuses, or does not answer.
        """
        fields = {
            "offset": str(message.physical_offset),
            "group": self._group,
            "delayLevel": str(delay_level),
            "originMsgId": message.message_id,
            "originTopic": queue.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(most_tries),
            "bname": queue.broker_name,
        }
        address = self._core.routes.address_of(queue.broker_name)
        await self._core.ask(
            "send back to topic", address, RequestCode.CONSUMER_SEND_MSG_BACK, fields, topic=queue.topic
        )


_PULLED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def _named(queue: QueueName) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}


def _offset(answer: RemotingFrame, address: str, name: str = "offset") -> int:
    text = answer.fields.get(name, "")
    if not text.removeprefix("-").isdecimal():
        words = f"{address}: an answer whose {name} is {text!r:.40}: what answers is no broker"
        raise ClientError(words, address=address, code=answer.code)
    return int(text)
