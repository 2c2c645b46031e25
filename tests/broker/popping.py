"""Frames of pop consumers, for tests."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.remoting import records
from reput.formats.log.properties import text_properties
from reput.formats.topics.pop_topics import retry_topic
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.formats.wire.receipt_handle import decode_handle
from reput.times import now_ms

if TYPE_CHECKING:
    from broker.remoting import Client
    from reput.formats.log.record import Record
    from reput.formats.wire.receipt_handle import ReceiptHandle
    from reput.formats.wire.remoting import RemotingFrame

ANY = -1


class Got(NamedTuple):
    """A message that a pop has given, and its handle."""

    record: Record
    extra: str

    @property
    def body(self) -> bytes:
        """Its body."""
        return self.record.body

    @property
    def handle(self) -> ReceiptHandle:
        """Its handle."""
        decoded = decode_handle(self.extra)
        assert decoded is not None
        return decoded


def pop_fields(topic: str = "orders", queue_id: int = ANY, **further: object) -> dict[str, object]:
    """The header of a pop that does not wait."""
    values: dict[str, object] = {"consumerGroup": "g", "topic": topic, "queueId": queue_id, "maxMsgNums": 32}
    values |= {"invisibleTime": 60_000, "pollTime": 0, "bornTime": now_ms(), "initMode": 0}
    return values | {"expType": "TAG", "exp": "*"} | further


def pop(client: Client, topic: str = "orders", queue_id: int = ANY, **further: object) -> list[Got]:
    """Pop messages; none if there are none now."""
    return got_in(client.ask(RequestCode.POP_MESSAGE, **pop_fields(topic, queue_id, **further)))


def got_in(answer: RemotingFrame) -> list[Got]:
    """The messages of a pop's answer with their handles, made as clients make them."""
    if answer.code in {ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL}:
        assert {"popTime", "invisibleTime", "reviveQid", "restNum"} <= answer.fields.keys()
        return []
    assert answer.code == ResponseCode.SUCCESS, answer
    fields = answer.fields
    starts = {tuple(one.split(" ")[:2]): one.split(" ")[2] for one in fields["startOffsetInfo"].split(";")}
    given = {tuple(one.split(" ")[:2]): one.split(" ")[2].split(",") for one in fields["msgOffsetInfo"].split(";")}
    messages = []
    for record in records(answer):
        extra = text_properties(record.properties).get("POP_CK")
        if extra is None:
            key = ("0", str(record.queue_id))
            assert str(record.queue_offset) in given[key]
            words = [starts[key], fields["popTime"], fields["invisibleTime"], fields["reviveQid"], "0", "reput"]
            extra = " ".join([*words, str(record.queue_id), str(record.queue_offset)])
        messages.append(Got(record, extra))
    return messages


def handle_fields(got: Got, **further: object) -> dict[str, object]:
    """The header of a request about a message that a pop has given."""
    handle = got.handle
    topic = retry_topic(got.record.topic.decode(), "g", handle.kind)
    values: dict[str, object] = {"consumerGroup": "g", "topic": topic, "queueId": handle.queue_id}
    return values | {"offset": handle.queue_offset, "extraInfo": got.extra} | further


def ack(client: Client, got: Got, **further: object) -> int:
    """Ack a message; return the code of the answer."""
    return client.ask(RequestCode.ACK_MESSAGE, **handle_fields(got, **further)).code


def change(client: Client, got: Got, invisible_ms: int, **further: object) -> RemotingFrame:
    """Let a message come again a time from now on."""
    fields = handle_fields(got, invisibleTime=invisible_ms, **further)
    return client.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **fields)


def renewed(got: Got, answer: RemotingFrame) -> Got:
    """The message with the handle that the answer to a change gives, as clients make it."""
    fields, handle = answer.fields, got.handle
    words = [handle.queue_offset, fields["popTime"], fields["invisibleTime"], fields["reviveQid"], handle.kind]
    return got._replace(extra=" ".join(map(str, [*words, "reput", handle.queue_id, handle.queue_offset])))


def batch_ack(client: Client, *acks: dict[str, Any], broker_name: str = "reput") -> int:
    """Ack several messages; return the code of the answer."""
    body = json.dumps({"acks": list(acks), "brokerName": broker_name}).encode()
    return client.ask(RequestCode.BATCH_ACK_MESSAGE, body).code


def batch_entry(got: list[Got]) -> dict[str, Any]:
    """The entry of a batch of acks for messages of one pop and queue."""
    first = got[0].handle
    bits = sum(1 << (one.handle.queue_offset - first.start_offset) for one in got)
    text = base64.b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little")).decode()
    about = {"c": "g", "t": got[0].record.topic.decode(), "r": str(first.kind), "so": first.start_offset}
    about |= {"q": first.queue_id, "rq": first.revive_queue, "pt": first.pop_time, "it": first.invisible_time}
    return {**about, "b": text}
