"""Calls of lite consumers: the lite topics that a client reads.

Source: `ClientActivity.syncLiteSubscription`, `ClientProcessor`, `LiteSubscriptionCtlProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from reput.broker.grpc.checks import check_lite_store, check_lite_topic, group_of, topic_of
from reput.broker.grpc.protocol.definition_pb2 import Code, LiteSubscriptionAction, OffsetOption
from reput.broker.grpc.protocol.service_pb2 import SyncLiteSubscriptionRequest, SyncLiteSubscriptionResponse
from reput.broker.grpc.settings import check_bound
from reput.broker.grpc.statuses import refuse_call, status_of
from reput.broker.services.lite import MAX_SUBSCRIPTIONS
from reput.formats.layout import INT64_MAX
from reput.formats.topics.lite_groups import lite_group_of

if TYPE_CHECKING:
    from reput.broker.grpc.clients import GrpcClient
    from reput.broker.services.broker import Broker
    from reput.broker.services.lite import Seeks

QUOTA_RESERVE: Final = 300
"""The lite topics that a client may have above its group's quota, which clients check themselves."""


def sync_lite_subscription(
    broker: Broker, client: GrpcClient, request: SyncLiteSubscriptionRequest
) -> SyncLiteSubscriptionResponse:
    """Add lite topics to those that a client reads, take some away, or set them all."""
    topic, group, names = topic_of(request.topic), group_of(request.group), set(request.lite_topic_set)
    config = broker.groups.find(group)
    if config is None:
        refuse_call(Code.ILLEGAL_CONSUMER_GROUP, f"group not found: {group}")
    rules = lite_group_of(config)
    check_bound(group, rules, topic)
    assert rules is not None
    check_lite_store(broker)
    if len(names) > rules.quota + QUOTA_RESERVE:
        refuse_call(Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, f"lite subscription quota exceeded: {rules.quota}")
    lite, action = broker.lite, request.action
    if action == LiteSubscriptionAction.PARTIAL_REMOVE:
        lite.unsubscribe(client.client_id, rules, names)
    elif action == LiteSubscriptionAction.COMPLETE_REMOVE:
        lite.forget_client(client.client_id)
    elif action not in LiteSubscriptionAction.values():
        refuse_call(Code.BAD_REQUEST, f"there is no action {action} on lite subscriptions")
    else:
        if rules.is_wildcard:
            refuse_call(Code.UNSUPPORTED, f"group {group}: reput serve has no groups with lite.sub.wildcard")
        _check_names(broker, names)
        broker.pops.admit(group, topic)
        if action == LiteSubscriptionAction.PARTIAL_ADD:
            seeks = _seeks_of(request.offset_option) if request.HasField("offset_option") else None
            lite.subscribe(client, client.client_id, group, rules, names, seeks)
        else:
            lite.replace(client, client.client_id, group, rules, names)
    return SyncLiteSubscriptionResponse(status=status_of(Code.OK))


def _check_names(broker: Broker, names: Iterable[str]) -> None:
    count = sum(1 for name in names if check_lite_topic(name))
    if len(broker.lite) + count > MAX_SUBSCRIPTIONS:
        words = f"lite subscription quota exceeded {MAX_SUBSCRIPTIONS}"
        refuse_call(Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, words)


def _seeks_of(option: OffsetOption) -> Seeks | None:
    """Return where a client wants to begin; None to go on where its group is, as for a time, as with RocketMQ."""
    kind = option.WhichOneof("offset_type")
    if kind == "policy":
        return {OffsetOption.MIN: _first, OffsetOption.MAX: _end}.get(option.policy)
    if kind not in {"offset", "tail_n"}:
        return None
    value = option.offset if kind == "offset" else option.tail_n
    if not 0 <= value < INT64_MAX:
        refuse_call(Code.ILLEGAL_OFFSET, f"{kind} {value}: give 0 or more")
    return partial(_at if kind == "offset" else _before, value)


def _first(before: int, end: int) -> int:  # noqa: ARG001 - as all `Seeks`
    return 0


def _end(before: int, end: int) -> int:  # noqa: ARG001 - as all `Seeks`
    return end


def _at(offset: int, before: int, end: int) -> int:  # noqa: ARG001 - as all `Seeks`
    return offset


def _before(count: int, before: int, end: int) -> int | None:  # noqa: ARG001 - as all `Seeks`
    return None if before < 0 else max(before - count, 0)
