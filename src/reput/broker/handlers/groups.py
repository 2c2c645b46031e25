"""Requests of administrators about the configurations of subscription groups.

Source: `AdminBrokerProcessor`, `SubscriptionGroupManager`, `SubscriptionGroupConfig`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.broker.wire.answers import Answer
from reput.broker.wire.refusals import refuse
from reput.formats.java.fastjson import write_fastjson
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.broker.services.broker import Broker
    from reput.broker.wire.requests import Request


def update_group(broker: Broker, request: Request) -> Answer:
    """Make a group, or change its configuration."""
    values = request.json()
    name = values.get("groupName")
    if not isinstance(name, str):
        refuse(ResponseCode.INVALID_PARAMETER, "the configuration of the group has no groupName")
    broker.groups.update(name, values)
    return Answer()


def all_groups(broker: Broker, request: Request) -> Answer:  # noqa: ARG001 - as all handlers
    """Answer the configurations of all groups."""
    return Answer(pieces=(write_fastjson(broker.groups.document()),))


def group_config(broker: Broker, request: Request) -> Answer:
    """Answer the configuration of a group."""
    return Answer(pieces=(write_fastjson(broker.groups.get(request.text("group"))),))
