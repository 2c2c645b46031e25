"""Near names: what an error about an unknown name lists is short, in order, and can be typed unchanged."""

from __future__ import annotations

import pytest

from reput.nearest import near, similar, some, unknown_topic

SERIES = [f"orders-{number}" for number in (*range(1, 12), 20, 100)]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("order", "Near it: orders, orders-1 to orders-100 (13 names)"),
        ("orders-300", "Near it: orders-1 to orders-100 (13 names), orders"),
        ("oders-20", "Near it: orders-20, orders"),
        ("ORDERS", "Near it: orders, orders-1 to orders-100 (13 names)"),
        ("mytopic", "Near it: 'my topic'"),
        ("my  topik", "Near it: 'my topic'"),
        ("orders-3 ", "Near it: orders-3, orders"),
        ("billing", "There are: orders, 'my topic', orders-1, orders-2"),
    ],
)
def test_numbered_topics_and_blanks(name: str, hint: str) -> None:
    """Names that differ in their numbers alone are named once, first to last, and blanks are seen."""
    series = SERIES if "Near" in hint else SERIES[:2]
    assert near(name, ["orders", "my topic", *series]) == hint


def test_many_names_are_shortened() -> None:
    """A list that is too long names a series once, and counts what it leaves out."""
    assert some([f"t{number:03d}" for number in range(300)]) == "t000 to t299 (300 names)"
    assert some([str(number) for number in range(30)], 3) == "0, 1, 2 and 27 more"
    assert some([]) == "none"


def test_the_closest_name_comes_first() -> None:
    """The member of a series that has the number asked for comes before the others."""
    assert similar("order-20", ["orders-100", "orders-20", "orders-3"])[0] == "orders-20"


def test_odd_names_are_in_quotes() -> None:
    """A name that is empty, or has a line end, is seen as it is; a very long number is no trouble."""
    assert unknown_topic("/s", "", []) == "/s: no topic ''. There are none"
    assert unknown_topic("/s", "a\nb", ["ab"]) == "/s: no topic 'a\\nb'. Near it: ab"
    assert "Near it" in near("a" + "9" * 5000, ["a" + "8" * 5000])
