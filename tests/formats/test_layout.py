"""Layouts: one list of fields gives struct, offsets, dtype and table."""

from __future__ import annotations

import numpy as np
import pytest

from reput.formats.layout import Field, Layout
from support.layouts import every_layout

LAYOUTS = every_layout()


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.title)
def test_fields_follow_one_another(layout: Layout) -> None:
    """Fields follow one another without holes, and the last one ends the layout."""
    position = 0
    for offset, size, name, meaning in layout.rows():
        assert layout.offsets[name] == int(offset) == position
        assert meaning
        position += int(size)

    assert position == layout.size


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.title)
def test_the_dtype_is_the_struct(layout: Layout) -> None:
    """The numpy dtype reads what the struct writes, at the same offsets."""
    values = tuple(
        b"%d" % number if field.code.endswith("s") else number for number, field in enumerate(layout.fields, 1)
    )
    read = np.frombuffer(layout.struct.pack(*values), dtype=layout.dtype)[0]

    assert layout.dtype.itemsize == layout.size
    assert read.tolist() == values
    assert {name: layout.dtype.fields[name][1] for name in layout.dtype.names} == layout.offsets


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.title)
def test_every_layout_says_where_it_comes_from(layout: Layout) -> None:
    """A layout names its source, and its fields have names of their own."""
    assert layout.title
    assert layout.source
    assert len({field.name for field in layout.fields}) == len(layout.fields)


def test_byte_order_and_bytes_fields() -> None:
    """A layout is big-endian unless it says otherwise, and may hold fields of bytes."""
    fields = [Field("number", "i", "a number"), Field("text", "3s", "some bytes")]
    big, little = Layout("big", "a test", fields), Layout("little", "a test", fields, byte_order="<")

    assert big.struct.pack(1, b"abc") == b"\0\0\0\1abc"
    assert little.struct.pack(1, b"abc") == b"\1\0\0\0abc"
    assert np.frombuffer(little.struct.pack(1, b"abc"), dtype=little.dtype)[0].tolist() == (1, b"abc")
    assert big.rows() == [("0", "4", "number", "a number"), ("4", "3", "text", "some bytes")]
    assert (big.codes(), big.codes(since="text"), big.codes(before="text")) == ("i3s", "3s", "i")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.title)
def test_one_field_is_read_alone(layout: Layout) -> None:
    """A field's own struct, and its column, read at any place what the whole layout has there."""
    values = tuple(
        bytes([number]) if field.code.endswith("s") else number for number, field in enumerate(layout.fields)
    )
    data = bytes(5) + layout.struct.pack(*values) + bytes(3) + layout.struct.pack(*values)
    whole = layout.struct.unpack_from(data, 5)
    places = np.array([8 + layout.size, 5])
    for field, value in zip(layout.fields, whole, strict=True):
        assert layout.struct_of(field.name).unpack_from(data, 5 + layout.offsets[field.name]) == (value,)
        if not field.code.endswith("s"):
            assert layout.taken(np.frombuffer(data, dtype=np.uint8), places, field.name).tolist() == [value, value]
