"""Names as bytes and as text: any bytes come back, and file names are spelled alike."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.stored_text import stored_bytes, stored_text


@given(st.binary(max_size=20))
def test_any_bytes_come_back(data: bytes) -> None:
    """A name of any bytes has a text of its own, which is that of a file of this name."""
    assert stored_bytes(stored_text(data)) == data
    assert stored_text(data) == os.fsdecode(data)


def test_half_a_character() -> None:
    """A half of a character that no byte stands for is no name."""
    with pytest.raises(UnicodeEncodeError):
        stored_bytes("\ud800")
