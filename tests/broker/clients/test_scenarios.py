"""Scenarios of RocketMQ's Java clients, old and new, have the same outcome with RocketMQ's broker and with ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.clients.run import PROGRAMS, SCENARIOS, SEEN

if TYPE_CHECKING:
    from broker.clients.run import Compared

pytestmark = pytest.mark.clients


@pytest.mark.parametrize(("version", "name"), [(version, name) for version in PROGRAMS for name in SCENARIOS[version]])
def test_a_client_sees_what_it_sees_with_rocketmq(compared: dict[str, Compared], name: str, version: str) -> None:
    """The outcome of a scenario is that with RocketMQ's broker."""
    theirs, ours = (one.outcome(name) for one in compared[version])
    assert SEEN[name](theirs), theirs
    assert ours == theirs
