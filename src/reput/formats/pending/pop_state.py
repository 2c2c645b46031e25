"""Checkpoints and acks of pop consumers, as messages of the topics rmq_sys_REVIVE_LOG_*.

A pop puts a checkpoint (tag `ck`), which is due a second before its messages become visible again. An ack puts a
message with tag `ack`, several acks one with tag `bAck`, due when they do. Until then they wait as timer messages.
The bodies are JSON with short names; numbers that are 0 may be missing.

    ck      t topic, c group, q queue, so first offset, n messages, d their distances from it, bm bits of those that are
            acked, pt pop time, it invisible time, bn broker, rp how often it was put again, sp suspended
    ack     t, c, q, so, pt, bn of the checkpoint, ao the offset
    bAck    the same, aol the offsets

Source: `PopCheckPoint`, `AckMsg`, `BatchAckMsg`, `PopReviveService`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from reput.formats.java.fastjson import write_fastjson
from reput.formats.java.java_numbers import parse_whole
from reput.formats.layout import INT64_MAX

CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
MOST_MESSAGES = 127
"""The number of messages is a signed byte."""
_NOT_A_NUMBER = 127
"""The count for an `rp` that cannot be parsed (`PopCheckPoint.parseRePutTimes`)."""


class PopKey(NamedTuple):
    """The key by which acks find their checkpoint; a broker compares its own name, too."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int


class PopCheckpoint(NamedTuple):
    """A checkpoint: messages that a pop has given to a group; times in ms."""

    key: PopKey
    invisible_time: int
    message_count: int
    distances: tuple[int, ...]
    acked_bits: int
    put_again: int
    broker_name: str = ""
    is_suspended: bool = False
    """True if a try that ends without an ack does not count."""

    @property
    def visible_time(self) -> int:
        """The time (ms) from which the messages are given again, if no ack comes."""
        return self.key.pop_time + self.invisible_time

    @property
    def offsets(self) -> list[int]:
        """The queue offsets of the messages that the checkpoint itself does not call acked."""
        return [offset for number, offset in enumerate(self.all_offsets) if not self.acked_bits >> number & 1]

    @property
    def all_offsets(self) -> list[int]:
        """The queue offsets of all its messages."""
        distances = self.distances[: self.message_count] or tuple(range(self.message_count))
        return [self.key.start_offset + distance for distance in distances]


class PopAck(NamedTuple):
    """Acks of messages of one checkpoint."""

    key: PopKey
    offsets: tuple[int, ...]
    broker_name: str = ""


class StateMessage(NamedTuple):
    """A checkpoint or acks as a message of a revive topic."""

    tag: str
    body: bytes
    unique_key: str


def encode_pop_checkpoint(checkpoint: PopCheckpoint) -> StateMessage:
    """Return the message of a checkpoint, as a broker puts it (`PopMessageProcessor.buildCkMsg`)."""
    key = checkpoint.key
    values: dict[str, Any] = {
        "bm": checkpoint.acked_bits,
        "bn": checkpoint.broker_name,
        "c": key.group,
        "d": list(checkpoint.distances),
        "it": checkpoint.invisible_time,
        "n": checkpoint.message_count,
        "pt": key.pop_time,
        "q": key.queue_id,
        "reviveTime": checkpoint.visible_time,
        "ro": 0,
        "so": key.start_offset,
        "sp": checkpoint.is_suspended,
        "t": key.topic,
    }
    if checkpoint.put_again:
        values["rp"] = str(checkpoint.put_again)
    names = (key.topic, key.queue_id, key.start_offset, key.group, key.pop_time, checkpoint.broker_name, CHECKPOINT_TAG)
    return StateMessage(CHECKPOINT_TAG, write_fastjson(values), _unique_key(names))


def encode_pop_ack(ack: PopAck) -> StateMessage:
    """Return the message of one ack, or of several (`AckMessageProcessor.appendAck`)."""
    key, is_one = ack.key, len(ack.offsets) == 1
    values: dict[str, Any] = {"ao": ack.offsets[0] if is_one else -1}
    if not is_one:
        values["aol"] = list(ack.offsets)
    values |= {"bn": ack.broker_name, "c": key.group, "pt": key.pop_time, "q": key.queue_id, "so": key.start_offset}
    values["t"] = key.topic
    offset = ack.offsets[0] if is_one else -1
    # As in RocketMQ the key of several acks is that of one with the offset -1.
    names = (key.topic, key.queue_id, offset, key.group, key.pop_time, ack.broker_name, ACK_TAG)
    return StateMessage(ACK_TAG if is_one else BATCH_ACK_TAG, write_fastjson(values), _unique_key(names))


def _unique_key(names: tuple[object, ...]) -> str:
    return "@".join(map(str, names))


def decode_pop_checkpoint(body: bytes) -> PopCheckpoint | None:
    """Return the checkpoint in a body; None if there is none."""
    values = _object(body)
    key = None if values is None else _key(values)
    if values is None or key is None:
        return None
    count, distances = _number(values, "n"), values.get("d") or []
    if not 0 <= count <= MOST_MESSAGES or not _are_numbers(distances) or len(distances) > MOST_MESSAGES:
        return None
    again = values.get("rp")
    text = again if isinstance(again, str) else "0"
    put_again = parse_whole(text, 32)
    put_again = _NOT_A_NUMBER if put_again is None else put_again
    return PopCheckpoint(
        key,
        _number(values, "it"),
        count,
        tuple(distances),
        _number(values, "bm"),
        put_again,
        _text(values, "bn", "brokerName"),
        values.get("sp") is True,
    )


def decode_pop_ack(body: bytes, tag: str) -> PopAck | None:
    """Return the acks in a body with one of the tags of acks; None if there are none."""
    values = _object(body)
    key = None if values is None else _key(values)
    if values is None or key is None:
        return None
    broker_name = _text(values, "bn", "brokerName")
    if tag == ACK_TAG:
        return PopAck(key, (_number(values, "ao", "ackOffset"),), broker_name)
    offsets = values.get("aol") or values.get("ackOffsetList") or []
    return PopAck(key, tuple(offsets), broker_name) if _are_numbers(offsets) else None


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _key(values: dict[str, Any]) -> PopKey | None:
    # Older versions of acks have the long names.
    topic = values.get("t", values.get("topic"))
    group = values.get("c", values.get("consumerGroup"))
    if not isinstance(topic, str) or not isinstance(group, str):
        return None
    return PopKey(
        topic,
        group,
        _number(values, "q", "queueId"),
        _number(values, "so", "startOffset"),
        _number(values, "pt", "popTime"),
    )


def _number(values: dict[str, Any], name: str, long_name: str = "") -> int:
    value = values.get(name, values.get(long_name, 0))
    is_number = isinstance(value, int) and not isinstance(value, bool) and -INT64_MAX <= value <= INT64_MAX
    return value if is_number else 0


def _text(values: dict[str, Any], name: str, long_name: str) -> str:
    value = values.get(name, values.get(long_name))
    return value if isinstance(value, str) else ""


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and -INT64_MAX <= value <= INT64_MAX for value in values
    )
