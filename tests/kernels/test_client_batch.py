"""The kernel of clients' batches: the columns of a body, by both twins."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.layout import INT32_MAX
from reput.formats.log.client_batch import InnerMessage, decode_messages, encode_messages
from reput.formats.log.record import encode_message_id
from reput.kernels import client_kernels
from reput.kernels.layouts.client_batch import BROKEN, UNUSUAL, column_sizes
from reput.kernels.layouts.vectors import address_of
from support.twins import TWINS

LONG = b"x" * 150
USUAL = (
    b"",
    b"a\x01b",
    b"a\x01b\x02",
    b"TAGS\x01t\x02KEYS\x01k",
    b"DEL\x01x",
    b"\xff\x01\xfe",
    b"a\x01" + LONG,
    LONG + b"\x01b",
)
ODD = (
    b"\x02",
    b"a",
    b"a\x01",
    b"\x01b",
    b"a\x01b\x01c",
    b"a\x01b\x02\x02",
    b"DELAY\x013",
    b"x\x01y\x02TIMER_DELAY_MS\x011",
    LONG,
    LONG + b"\x02a\x01b",
    b"a\x01" + LONG + b"\x01b",
    b"a\x01" + LONG + b"\x02DELAY\x013",
)
MESSAGES = st.builds(
    InnerMessage, st.integers(-INT32_MAX - 1, INT32_MAX), st.binary(max_size=20), st.sampled_from(USUAL + ODD)
)


TOPIC, QUEUE_ID, BORN = b"orders", 7, 1_700_000_000_000


class Columns(NamedTuple):
    """The answer of a twin, and the messages that its columns hold."""

    answer: int
    messages: list[InnerMessage]


def split(twin: str, data: bytes) -> Columns:
    """The answer of a twin."""
    sizes = column_sizes(len(data), len(TOPIC))
    columns = {name: np.zeros(size, dtype=np.uint8) for name, size in sizes.items()}
    record = np.array([address_of(column) for column in columns.values()], dtype=np.int64)
    rows = client_kernels(twin).split_batch(address_of(record), data, TOPIC, QUEUE_ID, BORN)
    if rows <= 0:
        return Columns(rows, [])

    def texts(offsets: str, column: str) -> list[bytes]:
        places = columns[offsets].view(np.int64)[: rows + 1].tolist()
        return [columns[column][begin:end].tobytes() for begin, end in pairwise(places)]

    assert texts("topic_offsets_at", "topics_at") == [TOPIC] * rows
    assert columns["queue_ids_at"].view(np.int64)[:rows].tolist() == [QUEUE_ID] * rows
    assert columns["born_at"].view(np.int64)[:rows].tolist() == [BORN] * rows
    flags = columns["flags_at"].view(np.int32)[:rows].tolist()
    bodies, properties = texts("body_offsets_at", "bodies_at"), texts("property_offsets_at", "properties_at")
    return Columns(rows, list(map(InnerMessage, flags, bodies, properties)))


@given(st.lists(MESSAGES, max_size=6), st.data())
def test_both_twins_split_any_body_alike(messages: list[InnerMessage], data: st.DataObject) -> None:
    """Whole bodies, bodies that are cut, and those in which a byte differs."""
    body = bytearray(encode_messages(messages))
    if body and data.draw(st.booleans()):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(body[: data.draw(st.integers(0, len(body)))])
    assert split("reference", whole) == split("compiled", whole)


@pytest.mark.parametrize("twin", TWINS)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=6))
def test_the_columns_hold_the_messages(twin: str, messages: list[InnerMessage]) -> None:
    """Each message is there with its flag and body; its properties end with a separator."""
    found = split(twin, encode_messages(messages))
    if any(message.properties in ODD for message in messages):
        assert found.answer == UNUSUAL
        return
    ends = [b"\x02" if message.properties and message.properties[-1:] != b"\x02" else b"" for message in messages]
    expected = [one._replace(properties=one.properties + end) for one, end in zip(messages, ends, strict=True)]
    assert found == Columns(len(messages), expected)


@pytest.mark.parametrize("twin", TWINS)
@given(data=st.binary(max_size=80))
def test_what_is_no_batch_is_broken(twin: str, data: bytes) -> None:
    """A body is broken if and only if `decode_messages` says so."""
    assert (split(twin, data).answer == BROKEN) == (decode_messages(data) is None)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("host", [b"\xff\0\x0a\x9f\0\0\x2a\x9f", bytes(15) + b"\x9a" + bytes(4)], ids=["v4", "v6"])
@given(offsets=st.lists(st.integers(0, (1 << 63) - 1), max_size=4))
def test_ids_are_joined(twin: str, host: bytes, offsets: list[int]) -> None:
    """They are those of the messages one by one, with commas between."""
    out = np.zeros(len(offsets) * (2 * (len(host) + 8) + 1), dtype=np.uint8)
    places = np.array(offsets, dtype=np.int64)
    size = client_kernels(twin).join_ids(host, address_of(places), len(offsets), address_of(out))
    assert out[:size].tobytes().decode() == ",".join(encode_message_id(host, offset) for offset in offsets)
