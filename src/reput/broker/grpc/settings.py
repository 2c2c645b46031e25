"""Settings: what a client says of itself, its membership in groups, and what the broker answers it.

A producer is a member of the producer group that has the name of each of its topics; the broker asks it about
transactions of that topic.

Source: `ClientActivity`, `GrpcClientSettingsManager`, `ProxyConfig`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reput.broker.grpc.checks import MAX_LITE_TOPIC, group_of, topic_of
from reput.broker.grpc.protocol.definition_pb2 import (
    ClientType,
    Code,
    CustomizedBackoff,
    ExponentialBackoff,
    FilterExpression,
    FilterType,
    Metric,
    RetryPolicy,
    Settings,
)
from reput.broker.grpc.statuses import refuse_call, refuse_unless_ok
from reput.formats.config.consumer_filter import SQL92, TAG
from reput.formats.config.tag_expression import ALL_TAGS
from reput.formats.topics.lite_groups import BIND_TOPIC, lite_group_of, quota_of
from reput.formats.wire.codes import RequestCode
from reput.times import HOUR_MS, UNITS_MS, now_ms

if TYPE_CHECKING:
    from reput.broker.grpc.clients import GrpcClient
    from reput.broker.services.broker import Broker
    from reput.formats.topics.lite_groups import LiteGroup

MAX_SETTINGS: Final = 1 << 18
"""The most bytes of a client's settings."""
BATCH_SIZE: Final = 32
LONGEST_POLL_MS: Final = 20_000
_PRODUCER_ATTEMPTS = 3
_PRODUCER_BACKOFF: Final = {"initial": 10, "max": 1000, "multiplier": 2}
_RETRIES_MS: Final = (
    *(seconds * UNITS_MS["s"] for seconds in (1, 5, 10, 30)),
    *(minutes * UNITS_MS["m"] for minutes in (*range(1, 11), 20, 30)),
    *(hours * UNITS_MS["h"] for hours in (1, 2)),
)
"""The waits before a message comes again (`CustomizedRetryPolicy`)."""
_BACKOFF: Final = {"initial": 5 * UNITS_MS["s"], "max": 2 * HOUR_MS, "multiplier": 2}
"""The waits of a group with exponential ones (`ExponentialRetryPolicy`)."""
_CONSUMES: Final = {
    ClientType.PUSH_CONSUMER: "CONSUME_PASSIVELY",
    ClientType.LITE_PUSH_CONSUMER: "CONSUME_PASSIVELY",
    ClientType.SIMPLE_CONSUMER: "CONSUME_ACTIVELY",
}
_PRODUCER, _CONSUMER = "producerGroup", "consumerGroup"


def filter_kind(expression: FilterExpression) -> str:
    """Return the type of a filter, as remoting clients name it."""
    return SQL92 if expression.type == FilterType.SQL else TAG


async def take_settings(broker: Broker, client: GrpcClient, settings: Settings) -> Settings:
    """Register a client with the settings that it has sent; return those that it is to have.

    Raises:
        RefusedCallError: they name no topics or no subscription, or what they name cannot be.
    """
    if settings.ByteSize() > MAX_SETTINGS:
        refuse_call(Code.BAD_REQUEST, f"settings of {settings.ByteSize()} bytes: the most is {MAX_SETTINGS}")
    if settings.WhichOneof("pub_sub") is None:
        refuse_call(Code.BAD_REQUEST, "there is no publishing or subscription data in settings")
    size, bound = settings.ByteSize(), client.bounds.settings
    if not bound.take(size):
        words = f"the settings of all clients hold {bound.held} bytes: the most is {bound.most}"
        refuse_call(Code.TOO_MANY_REQUESTS, words)
    try:
        await register(broker, client, settings)
    except BaseException:
        bound.give_back(size)
        raise
    client.keep(settings)
    return answered_settings(broker, settings)


async def register(broker: Broker, client: GrpcClient, settings: Settings) -> None:
    """Make a client a member of the groups of its settings, and of no others.

    Raises:
        RefusedCallError: its groups cannot be, or it has ended meanwhile.
    """
    producers: list[dict[str, Any]] = []
    consumers: list[dict[str, Any]] = []
    if settings.HasField("publishing"):
        groups = {(_PRODUCER, topic_of(topic)) for topic in settings.publishing.topics}
        producers = [{"groupName": group} for _, group in sorted(groups)]
    else:
        if settings.client_type not in _CONSUMES:
            refuse_call(Code.UNRECOGNIZED_CLIENT_TYPE, ClientType.Name(settings.client_type))
        consumers = [_consumer(settings)]
        _check_lite(broker, settings)
        groups = {(_CONSUMER, consumers[0]["groupName"])}
    for name, group in client.groups - groups:
        await client.ask(broker, RequestCode.UNREGISTER_CLIENT, {"clientID": client.client_id, name: group})
    _refuse_if_gone(client)
    body = {"clientID": client.client_id, "producerDataSet": producers, "consumerDataSet": consumers}
    answer = client.ask(broker, RequestCode.HEART_BEAT, {}, json.dumps(body).encode())
    client.groups |= groups  # a client that ends meanwhile leaves them
    refuse_unless_ok(await answer)
    _refuse_if_gone(client)
    client.groups = groups


def _refuse_if_gone(client: GrpcClient) -> None:
    """Refuse a client that has ended while it was registered."""
    if client.is_gone:
        refuse_call(Code.UNRECOGNIZED_CLIENT_TYPE, "this client has ended meanwhile")


def _check_lite(broker: Broker, settings: Settings) -> None:
    """Refuse a lite consumer of a group that has none, or of another topic, and other consumers of a lite group."""
    is_lite = settings.client_type == ClientType.LITE_PUSH_CONSUMER
    group = settings.subscription.group.name
    rules = lite_group_of(broker.groups.find(group) or {})
    if is_lite and rules is None:
        words = (
            f"group {group} has no lite consumers: mqadmin updateSubGroup -a +{BIND_TOPIC}=TOPIC binds it to a topic"
        )
        refuse_call(Code.ILLEGAL_CONSUMER_GROUP, words)
    if rules is not None and not is_lite:
        refuse_call(Code.ILLEGAL_CONSUMER_GROUP, f"lite group must use LITE mode: {group}")
    for one in settings.subscription.subscriptions if rules is not None else ():
        check_bound(group, rules, one.topic.name)


def check_bound(group: str, rules: LiteGroup | None, topic: str) -> None:
    """Refuse a topic that is not the one to which a lite group is bound."""
    if rules is None or rules.topic != topic:
        bound = None if rules is None else rules.topic
        refuse_call(Code.ILLEGAL_TOPIC, f"lite group {group} is expected to bind topic {bound}, but actual is {topic}")


def _consumer(settings: Settings) -> dict[str, Any]:
    """Return the consumer of settings, as a heartbeat has it; each heartbeat is of a later version."""
    version = now_ms()
    subscriptions = [
        {
            "topic": topic_of(one.topic),
            "subString": one.expression.expression or ALL_TAGS,
            "expressionType": filter_kind(one.expression),
            "subVersion": version,
        }
        for one in settings.subscription.subscriptions
    ]
    return {
        "groupName": group_of(settings.subscription.group),
        "consumeType": _CONSUMES[settings.client_type],
        "messageModel": "LITE_SELECTIVE" if settings.client_type == ClientType.LITE_PUSH_CONSUMER else "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": subscriptions,
    }


def answered_settings(broker: Broker, settings: Settings) -> Settings:
    """Return a client's settings with those that the broker decides."""
    answer = Settings()
    answer.CopyFrom(settings)
    answer.metric.CopyFrom(Metric(on=False))
    if answer.HasField("publishing"):
        answer.publishing.validate_message_type = True
        answer.publishing.max_body_size = broker.max_message_size
        policy = RetryPolicy(max_attempts=_PRODUCER_ATTEMPTS, exponential_backoff=_exponential(_PRODUCER_BACKOFF))
    else:
        rules = broker.groups.find(answer.subscription.group.name) or {}
        answer.subscription.fifo = bool(rules.get("consumeMessageOrderly"))
        answer.subscription.receive_batch_size = BATCH_SIZE
        answer.subscription.long_polling_timeout.FromMilliseconds(LONGEST_POLL_MS)
        answer.subscription.lite_subscription_quota = quota_of(rules)
        answer.subscription.max_lite_topic_size = MAX_LITE_TOPIC
        policy = _policy_of(rules)
    answer.backoff_policy.CopyFrom(policy)
    return answer


def most_attempts(rules: Mapping[str, Any]) -> int:
    """Return how often a message is given to a group, by the group's configuration."""
    return int(rules.get("retryMaxTimes", 16)) + 1


def _policy_of(rules: Mapping[str, Any]) -> RetryPolicy:
    """Return the waits of a group, which may name its own."""
    attempts, given = most_attempts(rules), rules.get("groupRetryPolicy")
    given = given if isinstance(given, Mapping) else {}
    if given.get("type") == "EXPONENTIAL":
        waits = _numbers(given.get("exponentialRetryPolicy"))
        return RetryPolicy(max_attempts=attempts, exponential_backoff=_exponential({**_BACKOFF, **waits}))
    own = given.get("customizedRetryPolicy")
    listed = own.get("next") if isinstance(own, Mapping) else None
    waits_ms = [wait for wait in listed if _is_wait(wait)] if isinstance(listed, list) else []
    backoff = CustomizedBackoff()
    for wait in waits_ms or _RETRIES_MS:
        backoff.next.add().FromMilliseconds(wait)
    return RetryPolicy(max_attempts=attempts, customized_backoff=backoff)


def _numbers(given: Any) -> dict[str, int]:
    return {name: given[name] for name in _BACKOFF if _is_wait(given.get(name))} if isinstance(given, Mapping) else {}


def _is_wait(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 365 * 24 * HOUR_MS


def _exponential(waits: Mapping[str, int]) -> ExponentialBackoff:
    backoff = ExponentialBackoff(multiplier=waits["multiplier"])
    backoff.initial.FromMilliseconds(waits["initial"])
    backoff.max.FromMilliseconds(waits["max"])
    return backoff
