"""`reput progress` while a broker runs on the store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import reput
from broker.remoting import Client
from reput.cli.main import cli
from reput.formats.wire.codes import RequestCode, ResponseCode
from support import golden
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def lag_of(store: Path, group: str) -> dict[int, tuple[Any, Any]]:
    """Return offset and lag by queue, as the command shows them."""
    done = CliRunner().invoke(cli, ["progress", str(store), "-g", group, "-t", "served", "--json"])
    assert done.exception is None or not done.stdout, done.exception
    groups = json.loads(done.stdout)["groups"] if done.stdout else []
    return {one["queue_id"]: (one["offset"], one["lag"]) for found in groups for one in found["queues"]}


@pytest.mark.golden
@pytest.mark.parametrize("name", ["json", "config-v1", "config-v1-single", "config-v2"])
def test_offsets_of_a_running_broker_are_shown(name: str, tmp_path: Path) -> None:
    """A running broker's offsets show its clients' commits and stored messages, wherever it keeps the offsets."""
    store = golden.unpack(name, tmp_path)
    config = reput.StoreConfig(flush_consumer_offset_interval=50)
    with reput.serve(store, topics={"served": 2}, config=config) as broker, Client(broker.address) as client:
        client.make_group("readers")
        for _ in range(5):
            assert client.put("served", queue_id=1).code == ResponseCode.SUCCESS
        asked = {"consumerGroup": "readers", "topic": "served", "queueId": 1}
        for offset in (2, 4):
            client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **asked, commitOffset=offset)
            wait_until(lambda shown={1: (offset, 5 - offset)}: lag_of(store, "readers") == shown)  # type: ignore[misc]
