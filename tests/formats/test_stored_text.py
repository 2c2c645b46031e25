"""Names as bytes and as text: any bytes come back, and file names are spelled alike."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.stored_text import shown_text, stored_bytes, stored_text


@given(st.binary(max_size=20))
def test_any_bytes_come_back(data: bytes) -> None:
    """A name of any bytes has a text of its own, that of a file of this name; people see UTF-8."""
    assert stored_bytes(stored_text(data)) == data
    assert stored_text(data) == os.fsdecode(data)
    assert shown_text(data).encode().decode() == shown_text(data)


def test_half_a_character() -> None:
    """Half of a character is no name, unless it is in place of a byte."""
    with pytest.raises(UnicodeEncodeError):
        stored_bytes("\ud800")
