"""The values of a bench: medians, spreads, and how far reput is ahead."""

from __future__ import annotations

import math

import pytest
from lines import Line, Spread, cells, headings


@pytest.mark.parametrize(("unit", "ratio"), [("messages/s", 0.5), ("s", 2.0), ("MiB", 2.0)])
def test_a_ratio_of_two_means_twice_as_good(unit: str, ratio: float) -> None:
    """A rate is better if it is higher; a time and a size are better if they are lower."""
    assert Line("one", unit, ours=[10.0], peer=[20.0]).ratio == ratio


def test_a_ratio_is_that_of_the_medians_and_its_spread_that_of_the_rounds() -> None:
    """A round compares values that were measured one after the other."""
    line = Line("put", "messages/s", ours=[10.0, 20.0, 90.0], peer=[10.0, 40.0, 30.0])
    assert line.ratio_spread == Spread(median=20 / 30, least=0.5, most=3.0)


def test_a_round_that_lacks_a_side_leaves_the_ratio_without_a_spread() -> None:
    """Values that are left cannot be paired by rounds: a median lay outside its spread so."""
    line = Line("put", "messages/s", ours=[20.0, 30.0], peer=[10.0, 20.0, 40.0])

    assert line.ratio == 25 / 20
    assert line.as_json()["ratio"] == {"median": 25 / 20}
    assert cells([line])[0][-2:] == ["1.25", "-"]


def test_a_side_without_values_has_no_ratio() -> None:
    """Its cells are dashes, and its ratio is no number."""
    line = Line("columns", "messages/s", ours=[1.0])
    assert math.isnan(line.ratio)
    assert cells([line]) == [["columns", "messages/s", "-", "-", "1.00", "1.00 to 1.00", "-", "-"]]


def test_a_line_may_name_another_side_to_compare_with() -> None:
    """RocketMQ writes no Parquet: the ratio is over the side that does."""
    line = Line("export", "M messages/s", ours=[1.0, 3.0], others={"on Parquet": [4.0, 4.0]}, against="on Parquet")
    assert (line.ratio, line.ratio_spread) == (0.5, Spread(median=0.5, least=0.25, most=0.75))
    assert Line.from_json(line.as_json()) == line
    assert math.isnan(Line("two", "s", ours=[1.0], others={"Kafka": [1.0]}).ratio)


def test_other_sides_have_columns_of_their_own() -> None:
    """Each line has a cell below each heading, if it has that side or not."""
    given = [Line("a", "s", [1.0], [2.0], {"Kafka": [3.0]}), Line("b", "s", [1.0], [2.0])]
    assert "Kafka" in headings(given)
    assert {len(row) for row in cells(given)} == {len(headings(given))}


def test_a_line_in_json_is_the_line() -> None:
    """Its values, of all sides, come back as they were."""
    line = Line("a", "s", [1.0, 2.0], [2.0, 3.0], {"Kafka": [3.0]})
    assert Line.from_json(line.as_json()) == line
