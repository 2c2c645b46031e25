"""docs/peer-behaviours.md: every behaviour of RocketMQ's own tests has a test of ours or a reason."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.scripts import load

if TYPE_CHECKING:
    from pathlib import Path

behaviours = load("behaviours")


class Numbers(NamedTuple):
    """The size of the list of behaviours."""

    classes: int
    rows: int
    starred: int


LISTED = Numbers(classes=96, rows=458, starred=145)
ROW = {"module": "store", "shown": {"testOne": "One thing."}, "inside": {"testTwo": "Another."}}


def test_the_page_is_up_to_date() -> None:
    """The page is what the list of behaviours and the markers of tests make of it; `make docs` makes it anew."""
    assert behaviours.PAGE.read_text("utf-8") == behaviours.page()


def test_every_marker_and_every_reason_counts_once() -> None:
    """Tests by class or by method, and reasons by class or by method, close a row."""
    page = behaviours.page_of({"PeerTest": {**ROW, "not_shown": {"testTwo": "No."}}}, {"PeerTest.testOne": ["tests/t"]})
    assert "| ★ | `testOne` | One thing. | `t` |" in page
    assert "|  | `testTwo` | Another. | Not applicable: No. |" in page
    page = behaviours.page_of({"PeerTest": ROW}, {"PeerTest.*": ["tests/t"]})
    assert page.count("| `t` |") == 2


@pytest.mark.parametrize(
    ("values", "tests", "problem"),
    [
        ({}, {"PeerTest.testOne": ["t"]}, "PeerTest.testTwo: no test shows it"),
        ({"why_not": "No."}, {"PeerTest.testThree": ["t"]}, "PeerTest.testThree is no row"),
        ({"not_shown": {"testOne": "No."}}, {"PeerTest.*": ["t"]}, "PeerTest.testOne: t shows it: take the reason"),
        ({"why_not": "No.", "not_shown": {"testThree": "No."}}, {}, "PeerTest.testThree: a reason for no row"),
        ({"why_not": "No.", "whynot": "No."}, {}, "PeerTest: whynot is no field"),
    ],
)
def test_an_open_row_is_an_error(values: dict[str, object], tests: dict[str, list[str]], problem: str) -> None:
    """A row without test and reason, a marker or a reason without a row, and both for one row are named."""
    with pytest.raises(behaviours.OpenRowError, match=problem):
        behaviours.page_of({"PeerTest": {**ROW, **values}}, tests)


def test_a_class_like_another_has_its_rows() -> None:
    """The methods of another class, but for those left out, in other circumstances."""
    like = {"module": "store", "like": "PeerTest", "without": ["testTwo"], "with": "in RocksDB", "why_not": "No."}
    page = behaviours.page_of({"PeerTest": {**ROW, "why_not": "No."}, "OtherTest": like}, {})
    assert page.endswith("| ★ | `testOne` | One thing (in RocksDB). | Not applicable: No. |\n")


def test_a_test_that_takes_long_closed_a_row(tmp_path: Path) -> None:
    """Tests that `make test` leaves out show nothing: a row needs another one."""
    for name, decorator in (("long", "@takes_long"), ("skipped", "@pytest.mark.skip(reason='x')"), ("plain", "@given")):
        text = f'@pytest.mark.behaviour("PeerTest.testOne")\n{decorator}\ndef test_{name}(): ...\n'
        (tmp_path / f"test_{name}.py").write_text(text)
    assert behaviours.marked_tests(tmp_path) == {"PeerTest.testOne": [f"{tmp_path.name}/test_plain.py::test_plain"]}


def test_a_row_that_went_with_its_marker_was_not_missed() -> None:
    """The list is as long as it was: no row goes in silence, and a new one is counted."""
    classes = tomllib.loads(behaviours.BEHAVIOURS.read_text("utf-8"))
    rows = list(behaviours.behaviours(classes))
    found = Numbers(len(classes), len(rows), sum(row.is_starred for row in rows))
    assert found == LISTED, (
        f"{behaviours.BEHAVIOURS.name} has {found}, and LISTED in this file has {LISTED}. Bring back a row that is "
        "gone: one that no test shows any more has a reason in [Class.not_shown]. If RocketMQ has no such test any "
        "more, or a row is new, set LISTED to what there is"
    )
