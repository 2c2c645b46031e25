"""Whole numbers in texts, as Java reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.java.java_numbers import parse_whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("00000000000000000000000000000042", 42),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("-2147483648", -2147483648),
        ("-2147483649", None),
        ("٣", 3),
        ("\u0660" * 30 + "٣", 3),
        ("1" * 5000, None),
        ("", None),
        ("+", None),
        ("1_0", None),
        (" 1", None),
        ("1.0", None),
        ("\U0001d7cf", None),  # a digit beyond the first plane
    ],
)
def test_texts(text: str, value: int | None) -> None:
    """A sign and digits of any length count, and nothing else."""
    assert parse_whole(text, 32) == value


def test_bytes_have_digits_of_ascii_alone() -> None:
    """Bytes are read as a kernel reads them."""
    assert parse_whole(b"-12", 32) == -12
    assert parse_whole("٣".encode(), 32) is None


@given(st.integers(-(1 << 65), 1 << 65), st.sampled_from([32, 64]))
def test_every_number(number: int, bits: int) -> None:
    """A number comes back if it fits."""
    fits = -(1 << (bits - 1)) <= number < 1 << (bits - 1)
    assert parse_whole(str(number), bits) == (number if fits else None)
