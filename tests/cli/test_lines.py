"""Lines written from columns are the lines that are made of one record at a time."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.cli.get.format import format_form
from reput.cli.shared import output
from reput.cli.shared.lines import LineForm, LineWriter, body_form, cells_form, json_form, raw_form
from reput.cli.shared.parts import record_cells, record_values
from reput.errors import DamagedLogError
from reput.formats.log.properties import decode_properties
from reput.formats.log.record import Record, decode_record, encode_record
from reput.kernels import SWITCH
from reput.kernels.layouts.lines import MOST_PAIRS, WHOLE
from support.records import LogBuilder, Placed, records
from support.twins import as_buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

bodies = st.one_of(
    st.text(st.sampled_from('ab"\\\n\t\r\0\x1f\x7f\x85é订😀\u2028\u200b'), max_size=40).map(str.encode),
    st.binary(max_size=40),
)
parts = st.sampled_from(["a", "KEYS", "TAGS", "UNIQ_KEY", "two words", " ", "ü\n", "\x7f", "订\t", '"', "\xad"])
pairs = st.lists(st.tuples(parts, parts), max_size=6).map(
    lambda found: "".join(f"{name}\x01{value}\x02" for name, value in found).encode()
)
messages = st.builds(
    lambda record, body, properties: record._replace(body=body, properties=properties or record.properties),
    records(),
    bodies,
    pairs,
)


@contextmanager
def stdout() -> Iterator[io.BytesIO]:
    """The bytes that go to stdout, as a pipe gets them."""
    raw = io.BytesIO()
    with mock.patch.object(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8")):
        yield raw
        sys.stdout.flush()


def log_of(found: list[Record]) -> tuple[bytes, list[Placed]]:
    """A log of these records."""
    log = LogBuilder(1 << 20)
    for record in found:
        log.record(record)
    return bytes(log), log.placed


def written(form: LineForm, data: bytes, placed: list[Placed]) -> bytes:
    """The lines of the records of a log, made at once."""
    position = np.array([one.offset for one in placed], dtype=np.int64)
    size = np.array([one.size for one in placed], dtype=np.int32)
    with stdout() as raw:
        LineWriter(form).write(as_buffer(data), 0, position, size)
        sys.stdout.flush()
        return raw.getvalue()


def one_at_a_time(placed: list[Placed], show: Callable[[Record], None]) -> bytes:
    """The same lines, made as a verb makes those of single records."""
    with stdout() as raw:
        for one in placed:
            show(decode_record(one.data))
            sys.stdout.flush()
        return raw.getvalue()


def show_cells(body_bytes: int | None) -> Callable[[Record], None]:
    """Shows a record as a line of cells."""
    return lambda record: output.show("\t".join((str(record.physical_offset), *record_cells(record, body_bytes))))


def show_body(record: Record) -> None:
    """Shows a body as a line."""
    try:
        output.show(record.body.decode().replace("\n", "\\n"))
    except UnicodeDecodeError:
        output.show(f"base64:{base64.b64encode(record.body).decode()}")


def show_raw(record: Record) -> None:
    """Shows a body as it is."""
    output.show_bytes(record.body + b"\0;")


def show_letters(record: Record) -> None:
    """Shows a record as `--format` with all letters does."""
    named = decode_properties(record.properties)
    headers = b",".join(name + b"=" + value for name, value in named.items())
    key = named.get(b"KEYS", b"")
    numbers = b"%d|%d|%d|%d|%d|%%" % (
        record.queue_id, record.queue_offset, len(key), len(record.body), record.store_timestamp,
    )  # fmt: skip
    output.show_bytes(b"|".join((record.topic, numbers, key, record.body, headers)) + b"\0\xff")


FORMS: list[tuple[LineForm, Callable[[Record], None]]] = [
    (json_form(), lambda record: output.emit_json(record_values(record))),
    (json_form(7), lambda record: output.emit_json(record_values(record, 7))),
    (cells_form(None), show_cells(None)),
    (cells_form(5), show_cells(5)),
    (cells_form(WHOLE), lambda record: show_cells(len(record.body))(record)),
    (body_form(), show_body),
    (raw_form(b"\0;"), show_raw),
    (format_form("%t|%p|%o|%K|%S|%T|%%|%k|%s|%h\\0\\xFF"), show_letters),
]


@settings(max_examples=80, deadline=None)
@given(found=st.lists(messages, max_size=8), kernels=st.sampled_from(["compiled", "reference"]))
def test_lines_from_columns_are_those_of_single_records(found: list[Record], kernels: str) -> None:
    """Lines from columns are those that are made of one record at a time, in each form and for any messages."""
    data, placed = log_of(found)
    with mock.patch.dict(os.environ, {SWITCH: kernels}):
        for form, show in FORMS:
            assert written(form, data, placed) == one_at_a_time(placed, show)


def test_records_that_the_kernel_leaves_keep_their_place() -> None:
    """Records with text that is no UTF-8, or with very many properties, come in their turn."""
    many = b"".join(b"n%d\x01v\x02" % n for n in range(MOST_PAIRS + 1))
    odd = [Record(b"t", b"one", b"TAGS\x01\xff\x02"), Record(b"t", b"two", many), Record(b"\xff", b"three")]
    data, placed = log_of([Record(b"t", b"first"), *odd, Record(b"t", b"last"), *odd])
    for form, show in FORMS:
        assert written(form, data, placed) == one_at_a_time(placed, show)


def test_a_long_record_fits() -> None:
    """A record that is longer than the room for lines is written whole."""
    data, placed = log_of([Record(b"t", bytes(300_000)), Record(b"t", b"short")])
    lines = written(json_form(), data, placed).splitlines()
    assert [json.loads(line)["body_length"] for line in lines] == [300_000, 5]


def test_lines_before_a_damaged_record_are_written() -> None:
    """The error of a record whose lengths do not add up comes after the lines before it."""
    data, placed = log_of([Record(b"t", b"first"), Record(b"t", b"damaged"), Record(b"t", b"last")])
    broken = bytearray(data)
    broken[placed[1].offset + 84 : placed[1].offset + 88] = b"\x7f\xff\xff\xff"
    with stdout() as raw:
        position = np.array([one.offset for one in placed], dtype=np.int64)
        size = np.array([one.size for one in placed], dtype=np.int32)
        with pytest.raises(DamagedLogError, match=f"at {placed[1].offset} "):
            LineWriter(body_form()).write(as_buffer(bytes(broken)), 0, position, size)
        sys.stdout.flush()
        assert raw.getvalue() == b"first\n"


def test_a_record_of_another_place_is_shown() -> None:
    """A queue's entry that leads to a record which names another place shows it, as it did one at a time."""
    record = Record(b"t", b"body", physical_offset=77)
    data = encode_record(record)
    placed = [Placed(0, len(data), record, data)]
    assert written(body_form(), data, placed) == b"body\n"
    assert json.loads(written(json_form(), data, placed))["physical_offset"] == 77


def test_lines_on_a_stdout_of_another_encoding() -> None:
    """Text goes out in stdout's own encoding, JSON in UTF-8."""
    data, placed = log_of([Record(b"t", "größe".encode())])
    position, size = np.array([0], dtype=np.int64), np.array([placed[0].size], dtype=np.int32)
    raw = io.BytesIO()
    with mock.patch.object(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1")):
        LineWriter(body_form()).write(as_buffer(data), 0, position, size)
        sys.stdout.flush()
        LineWriter(json_form()).write(as_buffer(data), 0, position, size)
        sys.stdout.flush()
        text, as_json = raw.getvalue().split(b"\n")[:2]
    assert text.decode("latin-1") == "größe"
    assert json.loads(as_json)["body"] == "größe"
