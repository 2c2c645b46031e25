"""Messages as they are sent: the properties, flags and header of the Java client."""

from __future__ import annotations

import re
import zlib

import pytest

import reput
from reput.client.outgoing import BATCH_BYTES, Delivery, OutgoingEncoder
from reput.formats.log.client_batch import decode_messages
from reput.formats.log.properties import text_properties
from reput.formats.wire.bodies import QueueName
from reput.log.encode.unique_keys import UniqueKeys

KEY = re.compile(r"7F000001[0-9A-F]{24}")
MOST = 4 << 20


@pytest.fixture
def encoder() -> OutgoingEncoder:
    """An encoder with the Java client's defaults."""
    return OutgoingEncoder("senders", UniqueKeys(b"\x7f\0\0\1"), MOST, 4096)


def properties_of(text: str) -> dict[str, str]:
    """The properties of a text."""
    return text_properties(text.encode())


def test_a_message_has_what_the_java_client_sends(encoder: OutgoingEncoder) -> None:
    """Its own properties, WAIT, and a unique key of Java's form; the header has all fields of the second version."""
    message = reput.Message(
        "orders", b"body", tags="paid", keys=("a", "b"), properties={"region": "eu"}, flag=7, born_timestamp=99
    )
    sent = encoder.single(message)
    found = properties_of(sent.properties)
    assert KEY.fullmatch(found.pop("UNIQ_KEY"))
    assert found == {"region": "eu", "TAGS": "paid", "KEYS": "a b", "WAIT": "true"}
    fields = sent.fields("senders", QueueName("b-a", 3, "orders"), 4)
    assert fields.pop("i") == sent.properties
    wanted = {"a": "senders", "b": "orders", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "99", "h": "7"}
    assert fields == {**wanted, "j": "0", "k": "false", "m": "false", "n": "b-a"}


def test_keys_of_the_application_stay(encoder: OutgoingEncoder) -> None:
    """A unique key and WAIT that a message has are sent as they are."""
    sent = encoder.single(reput.Message("orders", b"", unique_key="mine", properties={"WAIT": "false"}))
    assert properties_of(sent.properties) == {"UNIQ_KEY": "mine", "WAIT": "false"}
    assert sent.keys == ("mine",)


def test_bodies_from_4_kib_on_are_compressed(encoder: OutgoingEncoder) -> None:
    """The form is the Java client's: zlib, with the flags of compression and of its type."""
    long, short = (encoder.single(reput.Message("orders", b"x" * size)) for size in (4096, 4095))
    assert (long.sys_flag, zlib.decompress(long.body)) == (0x301, b"x" * 4096)
    assert (short.sys_flag, short.body) == (0, b"x" * 4095)
    ready = zlib.compress(b"x" * 9000, 0)
    assert encoder.single(reput.Message("orders", ready, sys_flag=1)).body == ready


@pytest.mark.parametrize(
    ("delivery", "wanted"),
    [
        (Delivery(delay_level=3), {"DELAY": "3"}),
        (Delivery(deliver_at_ms=1_800_000_000_000), {"TIMER_DELIVER_MS": "1800000000000"}),
        (Delivery(delay_ms=1500), {"TIMER_DELAY_MS": "1500"}),
    ],
)
def test_delays_are_properties(encoder: OutgoingEncoder, delivery: Delivery, wanted: dict[str, str]) -> None:
    """A delay level, a time and a delay each have RocketMQ's property."""
    assert wanted.items() <= properties_of(encoder.single(reput.Message("orders", b""), delivery).properties).items()


def test_a_half_message_names_its_group(encoder: OutgoingEncoder) -> None:
    """It has TRAN_MSG and PGROUP, and the flag of a prepared message."""
    sent = encoder.single(reput.Message("orders", b""), is_half=True)
    found = properties_of(sent.properties)
    assert (found["TRAN_MSG"], found["PGROUP"], sent.sys_flag) == ("true", "senders", 4)


def test_batches_are_of_one_topic_and_bounded(encoder: OutgoingEncoder) -> None:
    """Messages keep their places; a batch has one topic and about 1 MiB, and each message a key of its own."""
    big = b"x" * (BATCH_BYTES // 2)
    messages = [reput.Message(topic, big, tags=str(n)) for n, topic in enumerate(["a", "b", "a", "a"])]
    batches = encoder.batches(messages)
    assert sorted(place for places, _ in batches for place in places) == [0, 1, 2, 3]
    keys = []
    for places, sent in batches:
        assert sent.is_batch
        assert properties_of(sent.properties).keys() == {"WAIT", "UNIQ_KEY"}
        inner = decode_messages(sent.body)
        assert inner is not None
        found = [text_properties(one.properties) for one in inner]
        assert [one["TAGS"] for one in found] == [str(place) for place in places]
        assert [one["UNIQ_KEY"] for one in found] == list(sent.keys)
        assert {messages[place].topic for place in places} == {sent.topic}
        keys += sent.keys
    assert len(set(keys)) == 4


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (reput.Message("", b""), "blank"),
        (reput.Message("no spaces", b""), "illegal characters"),
        (reput.Message("orders", b"x" * (MOST + 1)), "max_message_size"),
        (reput.Message("orders", "text"), "give bytes"),  # type: ignore[arg-type]
        (reput.Message(5, b""), "give a text"),  # type: ignore[arg-type]
        (reput.Message("orders", b"", keys="a b"), "a key is not empty and holds no space"),
        (reput.Message("orders", b"", properties={"a": "x" * 32767}), "32767"),
        (reput.Message("orders", b"", properties={"DELAY": "3"}), "given twice"),
    ],
)
def test_what_no_broker_takes_is_not_sent(encoder: OutgoingEncoder, message: reput.Message, words: str) -> None:
    """A wrong topic, body, key or property is a PutError that says which."""
    with pytest.raises(reput.PutError, match=words):
        encoder.single(message, Delivery(delay_level=1))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (reput.Message("orders", b"", properties={"DELAY": "3"}), "message 1 of the batch: property DELAY"),
        (reput.Message("%RETRY%g", b""), "retry topic"),
        (reput.Message("orders", b"", sys_flag=1), "sys_flag 0x1"),
    ],
)
def test_what_cannot_be_in_a_batch_is_refused(encoder: OutgoingEncoder, message: reput.Message, words: str) -> None:
    """Delays, retries and messages with flags of their own are refused by their number."""
    with pytest.raises(reput.PutError, match=words):
        encoder.batches([reput.Message("orders", b""), message])


def test_two_delays_contradict(encoder: OutgoingEncoder) -> None:
    """A message has one time."""
    with pytest.raises(reput.ConfigError, match="at most one"):
        encoder.single(reput.Message("orders", b""), Delivery(delay_level=1, delay_ms=5))
