"""RocketMQ's own broker starts on the store that our broker has served, and goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.clients import brokers
from broker.remoting import Client
from broker.test_broker import bodies
from reput.formats.wire.codes import RequestCode, ResponseCode
from support import stores

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

R = RequestCode
FEW = 32
"""Messages that RocketMQ's store gives at once."""


def test_rocketmq_goes_on_where_our_broker_ended(our_store: Path, tmp_path: Path) -> None:
    """The same queues with the same messages, the same committed offsets; it takes and gives new messages."""
    copy = stores.copy(our_store, tmp_path / "copy")
    with reput.MessageStore.open(our_store, read_only=True) as store:
        queues = {(one.topic, one.queue_id): one for one in store.queues()}
        wanted = {
            place: (
                one.min_offset,
                one.max_offset,
                list(store.get_message(*place, one.min_offset, one.max_offset - one.min_offset).physical_offsets),
            )
            for place, one in queues.items()
        }
        offsets = dict(store.progress.snapshot().offset_table)
    assert len(wanted) > 50
    with brokers.talking_rocketmq(copy, tmp_path / "home") as (serving, process):
        for (topic, queue_id), (begin, end, places) in wanted.items():
            if topic.startswith(("SCHEDULE", "RMQ_SYS", "rmq_sys", "TRANS_")):
                continue  # it works on these at once
            ends = brokers.ask(process, {"queue": [topic, queue_id]})
            assert (ends["min"], ends["max"]) == (begin, end), (topic, queue_id)
            for at in range(begin, end, FEW):
                some = places[at - begin : at - begin + FEW]
                assert brokers.ask(process, {"get": [topic, queue_id, at, len(some)]})["phys"] == some
            assert len(places) == end - begin
        with Client(serving.broker) as client:
            for key, table in offsets.items():
                topic, group = key.split("@")
                for queue_id, offset in table.items():
                    asked = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
                    answer = client.ask(R.QUERY_CONSUMER_OFFSET, **asked)
                    if not group.startswith("CID_RMQ_SYS"):
                        assert answer.fields.get("offset") == str(offset), key
            topic = next(topic for topic, _ in queues if topic.endswith("-send"))
            sent = client.put(topic, b"and on", 2)
            end = wanted[topic, 2][1]
            assert (sent.code, sent.fields["queueOffset"]) == (ResponseCode.SUCCESS, str(end))
            assert bodies(client.pull(topic, 2, end)) == [b"and on"]
