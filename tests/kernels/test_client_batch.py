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
from reput.kernels import client_kernels
from reput.kernels.layouts.client_batch import BROKEN, SPLIT, SPLIT_LAYOUT, UNUSUAL, SplitAt, most_rows
from reput.kernels.layouts.records import address_of, vector_of
from support.twins import TWINS

USUAL = (b"", b"a\x01b", b"a\x01b\x02", b"TAGS\x01t\x02KEYS\x01k", b"DEL\x01x", b"\xff\x01\xfe")
ODD = (
    b"\x02",
    b"a",
    b"a\x01",
    b"\x01b",
    b"a\x01b\x01c",
    b"a\x01b\x02\x02",
    b"DELAY\x013",
    b"x\x01y\x02TIMER_DELAY_MS\x011",
)
MESSAGES = st.builds(
    InnerMessage, st.integers(-INT32_MAX - 1, INT32_MAX), st.binary(max_size=20), st.sampled_from(USUAL + ODD)
)


class Columns(NamedTuple):
    """The answer of a twin, and the messages that its columns hold."""

    answer: int
    messages: list[InnerMessage]


def split(twin: str, data: bytes) -> Columns:
    """The answer of a twin."""
    rows = most_rows(len(data))
    body, offsets = np.frombuffer(data, dtype=np.uint8), np.zeros((2, rows + 1), dtype=np.int64)
    texts, flags = np.zeros((2, max(len(data), 1)), dtype=np.uint8), np.zeros(max(rows, 1), dtype=np.int32)
    record = vector_of(
        SPLIT_LAYOUT,
        data_at=address_of(body),
        size=len(data),
        rows=0,
        body_offsets_at=address_of(offsets[0]),
        bodies_at=address_of(texts[0]),
        property_offsets_at=address_of(offsets[1]),
        properties_at=address_of(texts[1]),
        flags_at=address_of(flags),
    )
    answer = client_kernels(twin).split_batch(address_of(record))
    if answer != SPLIT:
        return Columns(answer, [])
    count = int(record[SplitAt.rows])
    bodies, properties = (
        [column[begin:end].tobytes() for begin, end in pairwise(at[: count + 1])]
        for column, at in zip(texts, offsets.tolist(), strict=True)
    )
    return Columns(answer, list(map(InnerMessage, flags[:count].tolist(), bodies, properties)))


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
    assert found == Columns(SPLIT, expected)


@pytest.mark.parametrize("twin", TWINS)
@given(data=st.binary(max_size=80))
def test_what_is_no_batch_is_broken(twin: str, data: bytes) -> None:
    """A body is broken if and only if `decode_messages` says so."""
    assert (split(twin, data).answer == BROKEN) == (decode_messages(data) is None)
