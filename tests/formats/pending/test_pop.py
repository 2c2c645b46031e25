"""Checkpoints and acks of pop consumers, as JSON and in RocksDB."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.pending.pop_database import PopRecord, decode_pop_record, pop_key
from reput.formats.pending.pop_state import (
    ACK_TAG,
    BATCH_ACK_TAG,
    PopAck,
    PopCheckpoint,
    PopKey,
    decode_pop_ack,
    decode_pop_checkpoint,
    encode_pop_ack,
    encode_pop_checkpoint,
)
from support.encoders import encode_pop_record

times = st.integers(0, 1 << 52)
names = st.text(st.characters(exclude_characters="@", exclude_categories=["Cs"]), min_size=1, max_size=20)
records = st.builds(
    PopRecord, names, names, st.integers(0, 1 << 30), st.integers(0, 1 << 60), times, times, st.integers(0, 99)
)

KEY = PopKey("orders", "billing", 2, 40, 1_795_321_005_000)


@given(records)
def test_record_round_trip(record: PopRecord) -> None:
    """A record decodes to what was encoded."""
    assert decode_pop_record(pop_key(record), encode_pop_record(record)) == record


@given(records, records)
def test_a_value_belongs_to_its_key(one: PopRecord, other: PopRecord) -> None:
    """A value under the key of another message is refused."""
    found = decode_pop_record(pop_key(other), encode_pop_record(one))

    assert found is None or pop_key(one) == pop_key(other)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_garbage_is_no_record(key: bytes, value: bytes) -> None:
    """Other bytes are no record, no checkpoint and no ack, and raise nothing."""
    assert decode_pop_record(key, value) is None
    assert decode_pop_checkpoint(value) is None
    assert decode_pop_ack(value, ACK_TAG) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_values_of_wrong_types_raise_nothing(value: object) -> None:
    """Each value of a checkpoint may be anything."""
    for name in ("t", "c", "q", "so", "pt", "it", "n", "d", "bm", "rp", "ao", "aol"):
        body = json.dumps({"t": "orders", "c": "billing", "n": 3, name: value}).encode()
        checkpoint = decode_pop_checkpoint(body)
        assert checkpoint is None or len(checkpoint.offsets) <= 127
        for tag in (ACK_TAG, BATCH_ACK_TAG):
            ack = decode_pop_ack(body, tag)
            assert ack is None or all(isinstance(offset, int) for offset in ack.offsets)


def test_a_checkpoint_names_its_offsets() -> None:
    """The offsets are distances from the first one; older versions have none and count on. Set bits are acked."""
    body = b'{"bm":2,"bn":"b","c":"billing","d":[0,1,5],"it":60000,"n":3,"pt":1795321005000,"q":2,"so":40,"t":"orders"}'
    checkpoint = decode_pop_checkpoint(body)

    assert checkpoint == PopCheckpoint(KEY, 60_000, 3, (0, 1, 5), 2, 0, "b")
    assert checkpoint.offsets == [40, 45]
    assert checkpoint.visible_time == KEY.pop_time + 60_000
    older = decode_pop_checkpoint(body.replace(b'"d":[0,1,5],', b"").replace(b'"bm":2,', b'"rp":"2",'))
    assert older is not None
    assert (older.offsets, older.put_again) == ([40, 41, 42], 2)


def test_acks_name_their_checkpoint() -> None:
    """One ack has one offset, several in one message have a list; older versions have long names."""
    begin = b'{"bn":"b","c":"billing","pt":1795321005000,"q":2,"so":40,"t":"orders",'
    older = b'{"consumerGroup":"billing","popTime":1795321005000,"queueId":2,"startOffset":40,"topic":"orders",'

    assert decode_pop_ack(begin + b'"ao":41}', ACK_TAG) == PopAck(KEY, (41,), "b")
    assert decode_pop_ack(begin + b'"ao":0,"aol":[40,45]}', BATCH_ACK_TAG) == PopAck(KEY, (40, 45), "b")
    assert decode_pop_ack(older + b'"ackOffset":41}', ACK_TAG) == PopAck(KEY, (41,))


@pytest.mark.behaviour(
    "AckMsgTest.testSerializeAndDeSerialize",
    "BatchAckMsgTest.testSerializeAndDeSerialize",
)
@given(st.integers(0, 126), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=32, unique=True), st.booleans())
def test_checkpoints_and_acks_round_trip(again: int, distances: list[int], is_suspended: bool) -> None:
    """A checkpoint, and its acks, are read as they were written."""
    checkpoint = PopCheckpoint(KEY, 60_000, len(distances), tuple(distances), 0, again, "b", is_suspended)
    assert decode_pop_checkpoint(encode_pop_checkpoint(checkpoint).body) == checkpoint
    ack = PopAck(KEY, tuple(checkpoint.offsets), "b")
    made = encode_pop_ack(ack)
    assert decode_pop_ack(made.body, made.tag) == ack


def test_keys_of_checkpoints_and_acks_are_those_of_rocketmq() -> None:
    """The unique key names what it is about (`genCkUniqueId`, `genAckUniqueId`)."""
    checkpoint = PopCheckpoint(KEY, 60_000, 1, (0,), 0, 0, "b")
    assert encode_pop_checkpoint(checkpoint).unique_key == "orders@2@40@billing@1795321005000@b@ck"
    assert encode_pop_ack(PopAck(KEY, (41,), "b")).unique_key == "orders@2@41@billing@1795321005000@b@ack"
