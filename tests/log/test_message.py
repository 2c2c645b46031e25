"""Messages become property bytes that every reader gives back, or are refused with a reason."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import DiskFullError, NoSpaceError, PutError
from reput.formats.log.properties import decode_properties, text_properties
from reput.log.encode.batch import stored_nothing
from reput.log.encode.message import (
    EncodedProperties,
    Message,
    MessageRefusedError,
    PropertyEncoder,
    PutResult,
    PutStatus,
)

texts = st.text(st.characters(exclude_characters="\x01\x02 ", codec="utf-8"), min_size=1, max_size=20)
names = texts.filter(lambda name: name not in {"TAGS", "KEYS", "UNIQ_KEY", "INNER_NUM"})


def message(**values: Any) -> Message:
    """A message with these values."""
    return Message("orders", b"body", **values)


@given(
    st.none() | texts,
    st.none() | texts | st.lists(texts) | st.tuples(texts),
    st.none() | texts,
    st.none() | st.dictionaries(names, texts),
)
def test_readers_get_back_what_was_given(
    tags: str | None, keys: Any, unique_key: str | None, properties: dict[str, str] | None
) -> None:
    """Tags, keys joined by spaces, unique key and properties are read back as they were given."""
    data = PropertyEncoder().encode(message(tags=tags, keys=keys, unique_key=unique_key, properties=properties))
    expected = dict(properties or {})
    if tags:
        expected["TAGS"] = tags
    if keys:
        expected["KEYS"] = keys if isinstance(keys, str) else " ".join(keys)
    if unique_key:
        expected["UNIQ_KEY"] = unique_key

    assert decode_properties(data) == {name.encode(): value.encode() for name, value in expected.items()}


def test_one_key_is_the_same_in_a_text_a_list_and_a_tuple() -> None:
    """The quick way of one key gives the bytes of the general way, up to the longest properties that fit."""
    for length in (1, 3990, 4000, 32767 - len("KEYS") - 2):
        key = "k" * length
        found = {PropertyEncoder().encode(message(keys=keys)) for keys in (key, [key], (key,))}
        assert found == {f"KEYS\x01{key}\x02".encode()}
        with pytest.raises(MessageRefusedError):
            PropertyEncoder().encode(message(keys=(key,), unique_key="u" * 32767))


def test_the_order_is_map_tags_keys_unique_key() -> None:
    """One order, so that the same message gives the same bytes."""
    given = message(tags="t", keys=["a", "b"], unique_key="u", properties={"z": "1", "a": "2"})

    assert PropertyEncoder().encode(given) == b"z\x011\x02a\x012\x02TAGS\x01t\x02KEYS\x01a b\x02UNIQ_KEY\x01u\x02"


def test_empty_tags_and_no_keys_are_none() -> None:
    """Empty tags and an empty list of keys leave no property, as RocketMQ's client has it."""
    assert PropertyEncoder().encode(message(tags="", keys=[])) == b""


@pytest.mark.behaviour("MessageDecoderTest.testNullValueProperty")
@pytest.mark.parametrize(
    "values",
    [
        {"keys": ""}, {"keys": "a b"}, {"keys": "a\x01"}, {"keys": ["a", ""]}, {"keys": ["a b"]}, {"keys": [None]},
        {"keys": b"a"}, {"keys": {"a"}}, {"keys": "\ud800"}, {"keys": ["\ud800"]}, {"tags": "a\x02"}, {"tags": 7},
        {"keys": (None,)}, {"keys": (("a",),)}, {"keys": ("",)}, {"keys": ("a b",)}, {"keys": ("\ud800",)},
        {"tags": "\ud800"}, {"unique_key": ""}, {"unique_key": "a\x01b"}, {"properties": {"": "v"}},
        {"properties": {"n": ""}}, {"properties": {"n": None}}, {"properties": {"n\x01": "v"}},
        {"properties": {"n": "v\x02"}}, {"properties": {7: "v"}}, {"properties": {"n": 7}},
        {"properties": {"TAGS": "x"}, "tags": "y"}, {"properties": {"KEYS": "x"}, "keys": "y"},
        {"properties": {"UNIQ_KEY": "x"}, "unique_key": "y"}, {"properties": {"INNER_NUM": "3"}},
    ],
)  # fmt: skip
def test_what_readers_could_not_give_back_is_refused(values: dict[str, Any]) -> None:
    """Separators, spaces in keys, empty parts, half characters, other kinds and repeats are refused, with a reason."""
    with pytest.raises(MessageRefusedError) as caught:
        PropertyEncoder().encode(message(**values))
    assert caught.value.status is PutStatus.MESSAGE_ILLEGAL
    assert caught.value.reason


def test_reserved_names_may_come_in_the_map() -> None:
    """A message that is passed on keeps its raw properties, several keys in one text among them."""
    given = {"KEYS": "a b", "TAGS": "t", "UNIQ_KEY": "u"}
    assert PropertyEncoder().encode(message(properties=given)) == b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x01u\x02"


@pytest.mark.parametrize(("append_crc", "limit"), [(False, 32767), (True, 32747)])
def test_properties_limit(append_crc: bool, limit: int) -> None:
    """32767 bytes go in, the CRC property's 20 included, one more does not."""
    encoder = PropertyEncoder(append_crc)
    fitting = "v" * (limit - len("n") - 2)
    assert len(encoder.encode(message(properties={"n": fitting}))) == 32767

    with pytest.raises(MessageRefusedError) as caught:
        encoder.encode(message(properties={"n": fitting + "v"}))
    assert caught.value.status is PutStatus.PROPERTIES_SIZE_EXCEEDED


def test_an_old_crc_property_goes() -> None:
    """A message that is passed on gets a CRC property of its own, and none where CRCs are off keeps the old one."""
    given = message(properties={"__CRC32#": "0123456789", "n": "v"})
    assert PropertyEncoder(append_crc=True).encode(given) == b"n\x01v\x02" + bytes(20)
    assert PropertyEncoder().encode(given) == b"__CRC32#\x010123456789\x02n\x01v\x02"


def test_many_tags_do_not_pile_up() -> None:
    """The memory of tags is bounded, and right before and after its bound."""
    encoder = PropertyEncoder()
    for number in range(10_000):
        assert encoder.encode(message(tags=f"t{number}")) == b"TAGS\x01t%d\x02" % number
    assert len(encoder._tags) <= 4096


@pytest.mark.parametrize(("properties", "waits"), [(None, True), ({"WAIT": "true"}, True), ({"WAIT": "false"}, False)])
def test_wait_false_is_seen(properties: dict[str, str] | None, waits: bool) -> None:
    """The property WAIT=false makes a put with sync flush not wait."""
    assert message(properties=properties).waits_for_flush is waits


@pytest.mark.parametrize("status", PutStatus)
def test_raise_for_status(status: PutStatus) -> None:
    """A stored result is returned; any other is an error with status and reason, the same after pickling."""
    for result in (PutResult(status, reason="because"), stored_nothing(status, "because")):
        if status in {PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT}:
            assert result.raise_for_status() is result
            continue
        with pytest.raises(PutError) as raised:
            result.raise_for_status()
        assert isinstance(raised.value, NoSpaceError) == (status is PutStatus.DISK_FULL)
        for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
            assert type(error) is (DiskFullError if status is PutStatus.DISK_FULL else PutError)
            assert (error.status, error.reason, str(error)) == (status, "because", f"{status.value}: because")


TEXT_PAIRS = st.lists(st.tuples(*[st.text("ab\x01\x02é\ud800", max_size=3) | st.sampled_from(["INNER_NUM", "x"])] * 2))


@given(TEXT_PAIRS, st.booleans())
def test_encoded_properties_are_those_of_the_mapping(pairs: list[tuple[str, str]], is_ended: bool) -> None:
    """Text that is taken as it is gives the bytes, and the properties, that the mapping of its pairs gives."""
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + ("\x02" if is_ended else "")
    made = EncodedProperties.of(text)
    if made is not None:
        assert PropertyEncoder().encode(Message("t", b"", properties=made)) == made.data
        assert PropertyEncoder().encode(Message("t", b"", properties=dict(made))) == made.data
        assert dict(made) == text_properties(made.data)


def test_text_that_must_be_looked_at_is_not_taken() -> None:
    """Text with a name twice, with an empty name or value, with half a character, or with a name of the store's."""
    for text in ("", "a", "a\x01", "\x01b", "a\x01b\x01c", "a\x01b\x02a\x01c", "a\x01\ud800", "INNER_NUM\x015"):
        assert EncodedProperties.of(text) is None, text
    assert EncodedProperties.of("a\x01b") == {"a": "b"}
