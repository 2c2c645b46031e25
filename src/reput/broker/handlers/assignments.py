"""Assignments: the queues of a topic that a member of a group gets, for clients that leave this to the broker.

Source: `QueryAssignmentProcessor`, `AllocateMessageQueueAveragely`, `AllocateMessageQueueAveragelyByCircle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from reput.broker.services.pops import ANY_QUEUE
from reput.broker.state.consumers import BROADCASTING
from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.config.request_modes import GroupMode, RequestMode, group_mode_of, modes_as_json
from reput.formats.java.fastjson import write_fastjson
from reput.formats.topics.system_topics import RETRY_PREFIX
from reput.formats.wire.allocate import allocate_averagely
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request

_AVERAGELY: Final = "AVG"
_BY_CIRCLE: Final = "AVG_BY_CIRCLE"


def query_assignment(broker: Broker, request: Request) -> Answer:
    """Answer the queues of a member, and whether it pops them. Without an answer it keeps what it has."""
    values = request.json()
    topic, group, client_id = (_text(values, name) for name in ("topic", "consumerGroup", "clientId"))
    model, strategy = values.get("messageModel", ""), values.get("strategyName", _AVERAGELY)
    mode = broker.request_modes.get(topic, group)
    queues = _assigned(broker, topic, group, client_id, str(model), str(strategy), mode)
    if queues is None:
        return Answer(pieces=(write_fastjson({}),))
    assignments = [
        {
            "messageQueue": {"brokerName": broker.name, "queueId": queue_id, "topic": topic},
            "mode": mode.mode.value,
        }
        for queue_id in sorted(set(queues))
    ]
    return Answer(pieces=(write_fastjson({"messageQueueAssignments": assignments}),))


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str):
        refuse(ResponseCode.SYSTEM_ERROR, f"the body has no {name}")
    return value


def _assigned(
    broker: Broker, topic: str, group: str, client_id: str, model: str, strategy: str, mode: GroupMode
) -> list[int] | None:
    """Return the queues of a member; None if that is not known."""
    queues = list(range(broker.topics.queues(topic)))
    if model == BROADCASTING or not queues:
        return queues or None
    online = broker.consumers.find(group)
    if online is None or strategy not in {_AVERAGELY, _BY_CIRCLE}:
        return None
    members = sorted(online.members)
    if mode.mode is RequestMode.POP:
        return _to_pop(strategy, client_id, queues, members, mode.share_queues)
    return _share(strategy, client_id, queues, members)


def _to_pop(
    strategy: str, client_id: str, queues: Sequence[int], members: Sequence[str], share_queues: int
) -> list[int]:
    """Return the queues that a member pops: all in one, or its own and those of `share_queues` members after it."""
    if share_queues <= 0 or share_queues >= len(members) - 1:
        return [ANY_QUEUE]
    if client_id not in members:
        return []
    at = members.index(client_id)
    if len(members) > len(queues):
        return [queues[at % len(queues)]]
    sharing = [members[(at + number) % len(members)] for number in range(share_queues + 1)]
    return [queue_id for one in sharing for queue_id in _share(strategy, one, queues, members)]


def _share(strategy: str, client_id: str, queues: Sequence[int], members: Sequence[str]) -> list[int]:
    """Return the queues of a member by a strategy."""
    if strategy == _AVERAGELY:
        return allocate_averagely(queues, members, client_id)
    return list(queues[members.index(client_id) :: len(members)]) if client_id in members else []


def set_request_mode(broker: Broker, request: Request) -> Answer:
    """Set whether a group pulls or pops a topic."""
    values = request.json()
    topic, group, mode = _text(values, "topic"), _text(values, "consumerGroup"), group_mode_of(values)
    if topic.startswith(RETRY_PREFIX):
        refuse(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if broker.topics.find(topic) is None:
        refuse(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    broker.groups.find_or_create(group)
    if mode is None:
        refuse(ResponseCode.INVALID_PARAMETER, f"the mode is illegal: {str(values.get('mode'))[:80]}: give PULL or POP")
    broker.request_modes.set(topic, group, mode)
    return Answer()


def all_request_modes(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer the modes that are set."""
    return Answer(pieces=(write_fastjson(modes_as_json(broker.request_modes.table)),))
