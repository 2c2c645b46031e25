"""A broker with topics, on a store that is checked when the test is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {
    "messageDelayLevel": "1s 1s 1s 1s",
    "transactionTimeOut": "100",
    "transactionCheckInterval": "200",
    "recallMessageEnable": "true",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[reput.RunningBroker]:
    """A broker with the topic `orders` of 4 queues, and `line` of one."""
    path, config = tmp_path / "store", reput.StoreConfig.from_properties(SETTINGS)
    with reput.serve(path, topics={"orders": 4, "line": 1}, config=config) as running:
        yield running
    assert_sound(path, config)


@pytest.fixture
def producer(broker: reput.RunningBroker) -> Iterator[reput.Producer]:
    """A producer of that broker."""
    with reput.Producer("senders", broker.address) as made:
        yield made
