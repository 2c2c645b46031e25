"""Topics and subscription groups of the broker, and the names that they may have.

Configurations are kept as they are read, with attributes that this broker does not know. They are where RocketMQ's
broker keeps them, in JSON or in RocksDB (`store.metadata`); `config_writes` makes changes durable.

Source: `TopicConfigManager`, `SubscriptionGroupManager`, `TopicConfig`, `SubscriptionGroupConfig`, `TopicValidator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from reput.broker.state.attributes import OF_GROUPS, changed_attributes
from reput.broker.state.config_writes import ConfigWrites
from reput.broker.state.identity import BrokerIdentity
from reput.broker.state.stored_topics import StoredTopic
from reput.broker.wire.refusals import refuse
from reput.errors import DamagedStoreError
from reput.formats.config import data_version
from reput.formats.layout import INT64_MAX, INT64_MIN
from reput.formats.topics.permissions import INHERIT, READ, WRITE
from reput.formats.topics.system_topics import (
    CREATE_TOPIC,
    DATABASE_HALF_TOPIC,
    DATABASE_OP_TOPIC,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_PREFIX,
    TIMER_TOPIC,
)
from reput.formats.topics.topic_names import is_group_name, topic_fault
from reput.formats.wire.codes import ResponseCode
from reput.formats.wire.headers import MOST_TRIES
from reput.store.metadata.configurations import Configurations

_READ_WRITE: Final = READ | WRITE
MAX_QUEUES: Final = 1024
"""The most queues of a topic that a client may ask for. RocketMQ has no bound."""
MAX_TOPICS: Final = 50_000
"""The topics of a store from which on clients make no further one. RocketMQ has no bound."""
MAX_GROUPS: Final = 50_000
"""The groups of a store from which on clients make no further one. RocketMQ has no bound."""
MAX_SERVED_QUEUES: Final = 1 << 16
"""The most queues of a topic of the store that clients reach."""
_INT64 = range(INT64_MIN, INT64_MAX + 1)
_TYPES: Final = {bool: "true or false", int: "a whole number of 64 bits", str: "a text", dict: "an object"}
_SYSTEM_TOPICS: Final = {
    SELF_TEST_TOPIC: (1, _READ_WRITE),
    CREATE_TOPIC: (8, _READ_WRITE | INHERIT),
    "BenchmarkTest": (1024, _READ_WRITE),
    OFFSET_MOVED_TOPIC: (1, _READ_WRITE),
    SCHEDULE_TOPIC: (18, _READ_WRITE),
    HALF_TOPIC: (1, _READ_WRITE),
    OP_TOPIC: (1, _READ_WRITE),
    DATABASE_HALF_TOPIC: (1, _READ_WRITE),
    DATABASE_OP_TOPIC: (1, _READ_WRITE),
    TIMER_TOPIC: (1, _READ_WRITE),
}
"""Queues and permissions of the topics that RocketMQ's broker makes at its first start."""
_TOOL_GROUPS: Final = frozenset({"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP"})
"""Groups that RocketMQ's broker has from its first start on (`SubscriptionGroupManager.init`)."""
NOT_FOR_SENDERS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        GIVEN_UP_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,
    }
)
"""Topics to which nobody may send (`TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET`)."""


_FURTHER_SYSTEM_TOPICS = frozenset(
    {
        GIVEN_UP_TOPIC,
        "RMQ_SYS_TRACE_TOPIC",
    }
)


def is_system_topic(topic: str) -> bool:
    """Return True for a topic that RocketMQ's brokers have under one name (`TopicValidator`)."""
    return topic in _SYSTEM_TOPICS or topic in _FURTHER_SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def check_topic(topic: str) -> str:
    """Return a topic's name; refuse one that RocketMQ refuses."""
    fault = topic_fault(topic)
    if fault is not None:
        refuse(ResponseCode.INVALID_PARAMETER, fault)
    return topic


class _KeptConfigs:
    """Configurations whose changes are written soon; the request that makes one is answered when it is durable."""

    def __init__(self, configurations: Configurations, writes: ConfigWrites) -> None:
        self._configurations = configurations
        self._writes = writes
        writes.add(configurations)

    def _set(self, name: str, value: dict[str, Any], *, must: bool) -> None:
        """Set the configuration of a name. `must`: the answer promises it, so a full disk is an error."""
        self._writes.refuse_more()
        if self._configurations.put(name, value):
            self._writes.changed(self._configurations, name, must=must)
        else:
            self._writes.uses(self._configurations, name, must=must)

    def find_to_use(self, name: str) -> dict[str, Any] | None:
        """Return the configuration of a name that a request makes if there is none; it waits until it is durable."""
        self._writes.uses(self._configurations, name)
        return self._configurations.find(name)


class TopicConfigs(_KeptConfigs):
    """The topics of a broker.

    Args:
        configurations: the topics of the store.
        place: where they are, for errors.
        identity: the names of the broker, which are topics, too.
        writes: makes changes durable.
        stored: topics that have queues, and are made if they are not there.
        makes: a send makes a topic that is not there (`autoCreateTopicEnable`).

    Raises:
        DamagedStoreError: a configuration cannot be one.
    """

    def __init__(
        self,
        configurations: Configurations,
        place: Path,
        identity: BrokerIdentity,
        writes: ConfigWrites,
        stored: Iterable[StoredTopic] = (),
        *,
        makes: bool = True,
    ) -> None:
        _refuse_damaged(place, configurations, _topic_config("", 1, 1, 0))
        super().__init__(configurations, writes)
        self._make_stored(stored)
        self._deleting: set[str] = set()
        self._makes = makes
        self._named = identity.topics()
        for topic, (queues, permission) in {**_SYSTEM_TOPICS, **self._named}.items():
            # Without this topic no client sends to a topic that is not there.
            is_basis = topic == CREATE_TOPIC and not makes
            if topic not in self._configurations.values and not is_basis:
                self._configurations.put(topic, _topic_config(topic, queues, queues, permission))
        self._configurations.persist()

    def _make_stored(self, stored: Iterable[StoredTopic]) -> None:
        for topic in stored:
            if topic.name not in self._configurations.values and topic.name not in _SYSTEM_TOPICS:
                queues = min(topic.queues, MAX_SERVED_QUEUES)
                made = _topic_config(topic.name, queues, queues, _READ_WRITE)
                self._configurations.put(topic.name, made | {"attributes": topic.attributes})

    def document(self) -> dict[str, Any]:
        """Return all configurations with their data version."""
        return _document("topicConfigTable", self._configurations)

    def begin_to_delete(self, topic: str) -> None:
        """Let nobody find a topic, or make it, until `end_deletion`."""
        self._refuse_deleting(topic)
        self._deleting.add(topic)

    def end_deletion(self, topic: str, *, is_deleted: bool) -> None:
        """Forget a topic that is deleted, and let it be made again; one that could not be deleted is there again."""
        self._deleting.discard(topic)
        if is_deleted and self._configurations.remove(topic):
            self._writes.changed(self._configurations, topic, must=True)

    def basis_of_sends(self, topic: str) -> tuple[object, ...]:
        """Return what a checked send rests on. A send to a topic that is not durable is checked anew, and waits."""
        if self._writes.is_unwritten(self._configurations, topic):
            return (object(),)
        return (self.find(topic),)

    def is_system(self, topic: str) -> bool:
        """Return True for a topic of RocketMQ's own, or of this broker's, which administrators do not change."""
        return is_system_topic(topic) or topic in self._named

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._configurations.values)

    def find(self, topic: str) -> dict[str, Any] | None:
        """Return the configuration of a topic; None if there is none, or if it is being deleted."""
        return None if topic in self._deleting else self._configurations.find(topic)

    def find_to_use(self, name: str) -> dict[str, Any] | None:
        """Return the configuration of a topic to send to; None if there is none, or if it is being deleted."""
        return None if name in self._deleting else super().find_to_use(name)

    def get(self, topic: str) -> dict[str, Any]:
        """Return the configuration of a topic; refuse the request if there is none."""
        return self.find(topic) or refuse(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!"
        )

    def queues(self, topic: str) -> int:
        """Return the number of queues of a topic from which clients read; 0 if there is no such topic."""
        config = self.find(topic)
        return 0 if config is None else queue_count(config, "readQueueNums")

    def create(
        self,
        topic: str,
        read_queues: int,
        write_queues: int,
        permission: int = _READ_WRITE,
        further: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Make a topic, or change its queues, its permission and `further` values."""
        self._check_makes(topic)
        for queues in (read_queues, write_queues):
            if not 1 <= queues <= MAX_QUEUES:
                refuse(ResponseCode.INVALID_PARAMETER, f"topic[{topic}]: {queues} queues; give 1 to {MAX_QUEUES}")
        before = self.find(topic)
        values = _topic_config(topic, read_queues, write_queues, permission)
        if before is not None:
            values = before | {name: values[name] for name in ("perm", "readQueueNums", "writeQueueNums")}
        self._set(topic, {**values, **further}, must=True)

    def make_own(self, topic: str, queues: int) -> None:
        """Make a group's own topic, if there is none."""
        if self.find_to_use(topic) is None:
            self._check_makes(topic)
            queues = min(max(queues, 1), MAX_QUEUES)
            self._set(topic, _topic_config(topic, queues, queues, _READ_WRITE), must=False)

    def _check_makes(self, topic: str) -> None:
        """Refuse a topic that nobody may make now."""
        check_topic(topic)
        self._refuse_deleting(topic)
        values = self._configurations.values
        if topic not in values and not self.is_system(topic):
            _refuse_further(len(values), MAX_TOPICS, "topics")

    def is_deleting(self, topic: str) -> bool:
        """Return True while a topic is being deleted: it may yet be there again."""
        return topic in self._deleting

    def _refuse_deleting(self, topic: str) -> None:
        """Refuse a topic that is being deleted."""
        if topic in self._deleting:
            refuse(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, topic[{topic}] is being deleted")

    def find_or_create(self, topic: str, default_topic: str, wanted_queues: int) -> dict[str, Any]:
        """Return the configuration of a topic that somebody sends to; make the topic if it may be made.

        Source: `TopicConfigManager.createTopicInSendMessageMethod`.
        """
        found = self.find_to_use(topic)
        if found is not None:
            return found
        default = self.find(default_topic)
        may_make = self._makes or default_topic != CREATE_TOPIC
        if default is None or not may_make or not default.get("perm", 0) & INHERIT:
            refuse(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, apply first please! There is no topic {default_topic!r:.130}, "
                "or no topic may be made from it",
            )
        queues = min(wanted_queues, default.get("writeQueueNums", 0), MAX_QUEUES)
        self.create(topic, max(queues, 1), max(queues, 1), default["perm"] & ~INHERIT)
        return self.get(topic)


class GroupConfigs(_KeptConfigs):
    """The subscription groups of a broker; a group is made when its first consumer comes.

    Args:
        configurations: the groups of the store.
        place: where they are, for errors.
        writes: makes changes durable.
        makes: a request of a client makes a group that is not there (`autoCreateSubscriptionGroup`).

    Raises:
        DamagedStoreError: a configuration cannot be one.
    """

    def __init__(
        self, configurations: Configurations, place: Path, writes: ConfigWrites, *, makes: bool = True
    ) -> None:
        _refuse_damaged(place, configurations, _group_config(""))
        super().__init__(configurations, writes)
        self._makes = makes

    def __len__(self) -> int:
        return len(self._configurations.values)

    def document(self) -> dict[str, Any]:
        """Return all configurations with their data version."""
        return {"forbiddenTable": {}, **_document("subscriptionGroupTable", self._configurations)}

    def get(self, group: str) -> dict[str, Any]:
        """Return the configuration of a group; refuse the request if there is none."""
        return self.find(group) or refuse(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group:.130}] does not exist"
        )

    def check(self, group: str) -> None:
        """Refuse a name that no group may have."""
        if not is_group_name(group):
            refuse(ResponseCode.INVALID_PARAMETER, f"the specified group[{group:.130}] is blank, too long or illegal")

    def update(self, group: str, values: Mapping[str, Any]) -> None:
        """Make a group, or change its configuration. Values that it does not know are kept."""
        self.check(group)
        given = {name: value for name, value in values.items() if value is not None}
        fault = _fault_in(given, _group_config(group))
        if fault is not None:
            refuse(ResponseCode.INVALID_PARAMETER, f"the configuration of group [{group}]: {fault}")
        before = self.find(group)
        if before is None:
            _refuse_further(len(self), MAX_GROUPS, "groups")
        config = before or _group_config(group)
        if "attributes" in given:
            given["attributes"] = changed_attributes(config.get("attributes"), given["attributes"], OF_GROUPS)
        self._set(group, {**config, **given}, must=True)

    def find(self, group: str) -> dict[str, Any] | None:
        """Return the configuration of a group; None if there is none."""
        return self._configurations.find(group)

    def may_be(self, group: str) -> bool:
        """Return True if there is a group of this name, or a client may make one."""
        return self.find(group) is not None or (is_group_name(group) and self._may_make(group))

    def _may_make(self, group: str) -> bool:
        return self._makes or group in _TOOL_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)

    def find_or_create(self, group: str) -> dict[str, Any]:
        """Return the configuration of a group; make it if a client may."""
        found = self.find_to_use(group)
        if found is not None:
            return found
        if not self.may_be(group):
            refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group:.130}] does not exist")
        _refuse_further(len(self), MAX_GROUPS, "groups")
        made = _group_config(group)
        self._set(group, made, must=False)
        return made


def queue_count(config: Mapping[str, Any], *names: str) -> int:
    """Return the number of queues of a topic by `readQueueNums`, `writeQueueNums`, or the larger of both."""
    count: int = max(config.get(name, 0) for name in names)
    return min(count, MAX_SERVED_QUEUES)


def check_queue_id(topic: str, queue_id: int) -> None:
    """Refuse the id of a queue that no topic has."""
    if not 0 <= queue_id < MAX_SERVED_QUEUES:
        refuse(ResponseCode.INVALID_PARAMETER, f"queueId[{queue_id}] is illegal, topic:[{topic}]")


def _fault_in(values: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
    """Return why a configuration cannot be one: a value of another type than a known one has; None if it can."""
    for name in known.keys() & values.keys():
        value, wanted = values[name], type(known[name])
        is_left_out = value is None and wanted in {dict, str}
        if not is_left_out and (type(value) is not wanted or (wanted is int and value not in _INT64)):
            return f"{name} is {value!r:.80}: it is {_TYPES[wanted]}"
    return None


def _refuse_further(count: int, most: int, what: str) -> None:
    """Refuse a request that would make a further topic or group; those that are there are served on.

    Raises:
        RefusedError: there are too many.
    """
    if count >= most:
        refuse(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, the broker has {count} {what}, and makes no more")


def _refuse_damaged(place: Path, configurations: Configurations, known: Mapping[str, Any]) -> None:
    """Refuse a store in which a configuration has a value of a wrong type.

    Raises:
        DamagedStoreError: there is one.
    """
    for name, values in configurations.values.items():
        fault = _fault_in(values, known) if isinstance(values, dict) else "it is no object"
        if fault is not None:
            raise DamagedStoreError(
                f"{place}: configuration {name!r:.130}: {fault}. Mend it, or restore it from a copy"
            )


def _document(member: str, configurations: Configurations) -> dict[str, Any]:
    return {data_version.MEMBER: configurations.version.members, member: configurations.values}


def _topic_config(topic: str, read_queues: int, write_queues: int, permission: int) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": permission,
        "readQueueNums": read_queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": write_queues,
    }


def _group_config(group: str) -> dict[str, Any]:
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": group,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": MOST_TRIES,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
