"""The names of a broker, and the topics that bear them.

Source: `BrokerIdentity`, `TopicConfigManager.init`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.formats.topics.permissions import INHERIT, READ, WRITE
from reput.formats.topics.system_topics import MEMBER_TOPIC_PREFIX, REVIVE_TOPIC_PREFIX
from reput.formats.topics.topic_names import topic_fault

DEFAULT_NAME: Final = "reput"
"""The name of a broker without `brokerName`; RocketMQ takes the machine's name."""
DEFAULT_CLUSTER: Final = "DefaultCluster"
"""The name of the cluster of a broker without `brokerClusterName`."""


class BrokerIdentity(NamedTuple):
    """The name of a broker in routes, and that of its cluster."""

    name: str
    cluster: str

    @classmethod
    def of(cls, config: StoreConfig) -> BrokerIdentity:
        """Return the names that settings give, or the default ones.

        Raises:
            ConfigError: RocketMQ's topics may not have such a name.
        """
        identity = cls(config.broker_name or DEFAULT_NAME, config.broker_cluster_name or DEFAULT_CLUSTER)
        for setting, names in (
            ("brokerName", identity._topics_of_broker()),
            ("brokerClusterName", identity._topics_of_cluster()),
        ):
            for topic in names:
                if (fault := topic_fault(topic)) is not None:
                    raise ConfigError(f"{setting}: a topic of RocketMQ's would be called {topic!r:.160}: {fault}")
        return identity

    @property
    def revive_topic(self) -> str:
        """The topic of the cluster's pops and their acks."""
        return f"{REVIVE_TOPIC_PREFIX}{self.cluster}"

    def topics(self) -> dict[str, tuple[int, int]]:
        """Return the topics that the broker makes under its names: the queues and the permission of each."""
        return {**self._topics_of_cluster(), **self._topics_of_broker()}

    def _topics_of_cluster(self) -> dict[str, tuple[int, int]]:
        return {
            self.cluster: (16, READ | WRITE | INHERIT),
            f"{self.cluster}_REPLY_TOPIC": (1, READ | WRITE),
            self.revive_topic: (8, READ | WRITE),
        }

    def _topics_of_broker(self) -> dict[str, tuple[int, int]]:
        return {self.name: (1, READ | WRITE | INHERIT), f"{MEMBER_TOPIC_PREFIX}{self.name}": (1, INHERIT)}
