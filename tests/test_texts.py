"""Sizes and times for people: one form in commands, notes and the broker's answers."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.texts import size_text, time_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 40, "5.0 TiB"),
        (5 << 50, "5.0 PiB"),
        (1 << 70, "1024.0 EiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    """A size has the largest unit that leaves a number of at least 1."""
    assert size_text(size) == text


@given(st.integers(0, 250_000_000_000_000))
def test_a_time_names_its_moment(time_ms: int) -> None:
    """The text of a time, zone included, is that very millisecond."""
    moment = datetime.fromisoformat(time_text(time_ms))
    assert round(moment.timestamp() * 1000) == time_ms


@pytest.mark.parametrize("time_ms", [1 << 62, -(1 << 62)])
def test_a_number_that_is_no_date(time_ms: int) -> None:
    """A time from a damaged file may be no date: its number is shown."""
    assert time_text(time_ms) == str(time_ms)
