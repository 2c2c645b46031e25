"""The search by halves: it finds what a walk finds, in a few steps, over gaps, too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reput.halving import first_where, first_where_found

LOW = 100
"""The first number, so that no answer is right by chance."""


@given(st.integers(0, 1 << 40), st.data())
def test_the_first_number_that_holds_in_few_steps(count: int, data: st.DataObject) -> None:
    """The answer is the first number that holds, or the end; the steps are the binary digits of the range."""
    first, asked = LOW + data.draw(st.integers(0, count)), list[int]()

    def holds(number: int) -> bool:
        asked.append(number)
        return number >= first

    assert first_where(LOW, LOW + count, holds) == first
    assert all(LOW <= number < LOW + count for number in asked)
    assert len(asked) <= count.bit_length()


def test_no_numbers() -> None:
    """A range without numbers gives its begin, and nothing is asked."""
    assert first_where(7, 7, lambda _: 1 // 0 == 0) == first_where(7, 3, lambda _: 1 // 0 == 0) == 7
    assert first_where_found(7, 3, lambda begin, _: (begin, 1 // 0), lambda _: True) == 7


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 40))
def test_a_gap_counts_as_the_next_number_with_a_value(present: list[bool], first: int) -> None:
    """A number without a value holds if the next one with a value does, or if none follows before the end."""

    def find(begin: int, end: int) -> tuple[int, str] | None:
        assert LOW <= begin < end <= LOW + len(present)
        return next(((number, f"value {number}") for number in range(begin, end) if present[number - LOW]), None)

    walked = next(
        (
            at
            for at in range(len(present))
            if all(not present[after] or after >= first for after in range(at, len(present)))
        ),
        len(present),
    )
    found = first_where_found(
        LOW, LOW + len(present), find, lambda value: int(value.removeprefix("value ")) >= LOW + first
    )
    assert found == LOW + walked
