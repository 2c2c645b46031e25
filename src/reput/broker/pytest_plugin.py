"""Fixtures for pytest: a RocketMQ broker for a whole run, and topics for each test.

    import reput

    def test_orders(rocketmq_broker, rocketmq_topic):
        with reput.Producer("senders", rocketmq_broker.address) as producer:
            producer.send(reput.Message(rocketmq_topic, b"paid"))

pytest finds this module by its entry point. It loads nothing of reput until a test asks for a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reput.broker.serve import RunningBroker

_OTHER = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST = 90
_numbers = count(1)


@pytest.fixture(scope="session")
def rocketmq_broker() -> Iterator[RunningBroker]:
    """A broker on a temporary store, for the whole run. `rocketmq_broker.address` is the name server of clients."""
    from reput.broker.serve import serve

    with serve() as broker:
        yield broker


@pytest.fixture
def rocketmq_topics(rocketmq_broker: RunningBroker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """A function that makes a topic of this test's own and returns its name: `rocketmq_topics("orders", queues=8)`."""

    def make(name: str = "topic", queues: int = 4) -> str:
        words = _OTHER.sub("-", f"{request.node.name}-{name}")[:_LONGEST]
        topic = f"{words}-{next(_numbers)}"
        rocketmq_broker.create_topic(topic, queues)
        return topic

    return make


@pytest.fixture
def rocketmq_topic(rocketmq_topics: Callable[..., str]) -> str:
    """The name of a new topic of four queues that no other test has."""
    return rocketmq_topics()
