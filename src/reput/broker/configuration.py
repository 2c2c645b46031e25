"""Topics and subscription groups of the broker: config/topics.json and config/subscriptionGroup.json.

Configurations are kept as they are read, with attributes that this broker does not know. A file is written whole when
something changes, and the version before it is its .bak. RocketMQ's broker opens the files.

Source: `TopicConfigManager`, `SubscriptionGroupManager`, `TopicConfig`, `SubscriptionGroupConfig`, `DataVersion`,
`TopicValidator`.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, Final

from reput.broker.codes import ResponseCode, refuse
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats.fastjson import parse_fastjson

CLUSTER: Final = "DefaultCluster"
CREATE_TOPIC_KEY: Final = "TBW102"
"""The topic whose route clients use for topics that do not exist yet; its queues bound those of new topics."""
RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
READ, WRITE, INHERIT = 4, 2, 1
_READ_WRITE: Final = READ | WRITE
MAX_NAME_LENGTH: Final = 127
MAX_QUEUES: Final = 1024
"""The most queues of a topic that a client may ask for. RocketMQ has no bound."""
_SIZE_LIMIT = 256 << 20
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_SYSTEM_TOPICS: Final = {
    "SELF_TEST_TOPIC": (1, _READ_WRITE),
    CREATE_TOPIC_KEY: (8, _READ_WRITE | INHERIT),
    "BenchmarkTest": (1024, _READ_WRITE),
    "OFFSET_MOVED_EVENT": (1, _READ_WRITE),
    "SCHEDULE_TOPIC_XXXX": (18, _READ_WRITE),
    "RMQ_SYS_TRANS_HALF_TOPIC": (1, _READ_WRITE),
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, _READ_WRITE),
    "rmq_sys_wheel_timer": (1, _READ_WRITE),
}
"""Queues and permissions of the topics that RocketMQ's broker makes at its first start."""
NOT_FOR_SENDERS: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "rmq_sys_wheel_timer",
    }
)
"""Topics to which nobody may send (`TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET`)."""


def check_topic(topic: str) -> str:
    """Return a topic's name; refuse one that RocketMQ refuses."""
    if not topic.strip():
        refuse(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if not _NAME.fullmatch(topic):
        refuse(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic contains illegal characters, allowing only {_NAME.pattern}",
        )
    if len(topic) > MAX_NAME_LENGTH:
        refuse(
            ResponseCode.INVALID_PARAMETER, f"The specified topic is longer than topic max length {MAX_NAME_LENGTH}."
        )
    return topic


class ConfigurationFile:
    """One of the files: configurations by name, under `member`, beside a data version.

    A missing or damaged file is read from its .bak, as RocketMQ does.

    Args:
        path: the file.
        member: the name of the table in it.
        others: further members of a new file.

    Raises:
        DamagedStoreError: the file is no JSON, and neither is its .bak.
    """

    def __init__(self, path: Path, member: str, others: dict[str, Any]) -> None:
        self._path = path
        self._member = member
        self._is_changed = False
        self._written, document = _read(path)
        values, version = document.get(member), document.get("dataVersion")
        self.values: dict[str, Any] = values if isinstance(values, dict) else {}
        counter = version.get("counter") if isinstance(version, dict) else 0
        self._counter = counter if isinstance(counter, int) else 0
        self._others = others | {name: document[name] for name in document if name not in {member, "dataVersion"}}

    def put(self, name: str, value: dict[str, Any]) -> None:
        """Set the configuration of a name; `persist` writes it."""
        if self.values.get(name) != value:
            self.values[name] = value
            self._is_changed = True

    def persist(self) -> None:
        """Write the file if something has changed, durably; the version before becomes its .bak."""
        if not self._is_changed:
            return
        self._counter += 1
        version = {"counter": self._counter, "stateVersion": 0, "timestamp": time.time_ns() // 1_000_000}
        document = {"dataVersion": version, **self._others, self._member: self.values}
        data = json.dumps(document, ensure_ascii=False, indent="\t", separators=(",", ":")).encode()
        folder = self._path.parent
        if not fs.exists(folder):
            fs.make_dirs(folder, fs.owner_of(folder.parent))
        owner = fs.owner_of(folder)
        if self._written:
            fs.write_whole(f"{self._path}.bak", self._written, owner)
        fs.write_whole(self._path, data, owner)
        self._written, self._is_changed = data, False


def _read(path: Path) -> tuple[bytes | None, dict[str, Any]]:
    """Return the file's bytes if they are good, and its content, or that of its .bak."""
    wrong = ""
    for named in (path, path.with_name(f"{path.name}.bak")):
        data = fs.read_bytes(named, _SIZE_LIMIT)
        if not data:
            continue
        document = parse_fastjson(data.decode("utf-8", "replace"))
        if isinstance(document, dict):
            return (data if named == path else None), document
        wrong = wrong or f"{named}: is no JSON object"
    if wrong:
        raise DamagedStoreError(f"{wrong}, and there is no good .bak. Put a good copy in its place, or move it away")
    return None, {}


class TopicConfigs:
    """The topics of a broker.

    Args:
        folder: the store's `config`.
        broker_name: the name of the broker, which is a topic too.
    """

    def __init__(self, folder: Path, broker_name: str) -> None:
        self._file = ConfigurationFile(folder / "topics.json", "topicConfigTable", {})
        own = {
            **_SYSTEM_TOPICS,
            CLUSTER: (16, _READ_WRITE | INHERIT),
            broker_name: (1, _READ_WRITE | INHERIT),
            f"{CLUSTER}_REPLY_TOPIC": (1, _READ_WRITE),
            f"rmq_sys_REVIVE_LOG_{CLUSTER}": (8, _READ_WRITE),
            f"rmq_sys_SYNC_BROKER_MEMBER_{broker_name}": (1, INHERIT),
        }
        for topic, (queues, permission) in own.items():
            if topic not in self._file.values:
                self._file.put(topic, _topic_config(topic, queues, queues, permission))
        self._file.persist()

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._file.values)

    def find(self, topic: str) -> dict[str, Any] | None:
        """Return the configuration of a topic; None if there is none."""
        found = self._file.values.get(topic)
        return found if isinstance(found, dict) else None

    def get(self, topic: str) -> dict[str, Any]:
        """Return the configuration of a topic; refuse the request if there is none."""
        return self.find(topic) or refuse(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!"
        )

    def create(self, topic: str, read_queues: int, write_queues: int, permission: int = _READ_WRITE) -> None:
        """Make a topic, or change the number of its queues and its permission; durable when it returns."""
        check_topic(topic)
        for queues in (read_queues, write_queues):
            if not 1 <= queues <= MAX_QUEUES:
                refuse(ResponseCode.INVALID_PARAMETER, f"topic[{topic}]: {queues} queues; give 1 to {MAX_QUEUES}")
        before = self._file.values.get(topic)
        values = _topic_config(topic, read_queues, write_queues, permission)
        if isinstance(before, dict):
            values = before | {name: values[name] for name in ("perm", "readQueueNums", "writeQueueNums")}
        self._file.put(topic, values)
        self._file.persist()

    def find_or_create(self, topic: str, default_topic: str, wanted_queues: int) -> dict[str, Any]:
        """Return the configuration of a topic that somebody sends to; make the topic if it may be made.

        Source: `TopicConfigManager.createTopicInSendMessageMethod`.
        """
        found = self.find(topic)
        if found is not None:
            return found
        default = self.find(default_topic)
        if default is None or not default.get("perm", 0) & INHERIT:
            refuse(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, apply first please! There is no topic {default_topic!r:.130}, "
                "or no topic may be made from it",
            )
        queues = min(wanted_queues, default.get("writeQueueNums", 0), MAX_QUEUES)
        self.create(topic, max(queues, 1), max(queues, 1), default["perm"] & ~INHERIT)
        return self.get(topic)


class GroupConfigs:
    """The subscription groups of a broker; a group is made when its first consumer comes.

    Args:
        folder: the store's `config`.
    """

    def __init__(self, folder: Path) -> None:
        self._file = ConfigurationFile(
            folder / "subscriptionGroup.json", "subscriptionGroupTable", {"forbiddenTable": {}}
        )

    def find_or_create(self, group: str) -> dict[str, Any]:
        """Return the configuration of a group; make it if its name may be one."""
        found = self._file.values.get(group)
        if isinstance(found, dict):
            return found
        if not _NAME.fullmatch(group) or len(group) > MAX_NAME_LENGTH:
            refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group:.130}] does not exist")
        self._file.put(group, _group_config(group))
        self._file.persist()
        return self._file.values[group]  # type: ignore[no-any-return]


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
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
