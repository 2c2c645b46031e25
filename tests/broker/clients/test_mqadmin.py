"""mqadmin shows of our broker what it shows of RocketMQ's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.clients import mqadmin
from broker.clients.run import prefix_of

if TYPE_CHECKING:
    from broker.clients.run import Compared

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("name", [name for name in mqadmin.commands("") if name != "brokerStatus"])
def test_a_command_shows_what_it_shows_of_rocketmq(compared: dict[str, Compared], name: str) -> None:
    """The lines of a command's output are those with RocketMQ's broker."""
    theirs, ours = (mqadmin.lines_of(one.commands[name]) for one in compared[mqadmin.VERSION])
    assert theirs
    assert ours == theirs


def test_a_group_has_read_its_topic(compared: dict[str, Compared]) -> None:
    """The lines that are compared have the topic, its queues and the offsets."""
    lines = mqadmin.lines_of(compared[mqadmin.VERSION].ours.commands["consumerProgress -t"])
    topic = f"{prefix_of(mqadmin.VERSION)}admin"
    assert len([line for line in lines if line.startswith(topic) and " 5 5 0 " in line]) == 2


def test_the_status_of_a_broker_has_names_of_rocketmq(compared: dict[str, Compared]) -> None:
    """Values that we show have RocketMQ's names; those of thread pools and times that we do not have are left out."""
    theirs, ours = (mqadmin.names_of(one.commands["brokerStatus"]) for one in compared[mqadmin.VERSION])
    assert {"brokerVersionDesc", "putTps", "msgPutTotalTodayNow", "commitLogMaxOffset"} <= ours <= theirs
