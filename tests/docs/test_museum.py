"""The museum's page and its tests have the same exhibits."""

from __future__ import annotations

import re
from pathlib import Path

from support import museum
from support.scripts import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "museum.md").read_text("utf-8")
TESTS = sorted((ROOT / "tests" / "museum").glob("test_*.py"))
LEAST = 20


def exhibits() -> dict[str, str]:
    """The sections of the page, by number of their issue."""
    sections = re.split(r"^## (?=\d)", PAGE, flags=re.MULTILINE)[1:]
    found = {section.partition(":")[0]: section for section in sections}
    assert len(found) == len(sections), "an issue has two sections"
    return found


def numbers_of_tests() -> set[str]:
    """The numbers in the names of the tests."""
    names = [name for path in TESTS for name in re.findall(r"^def test_((?:\d+_)+)", path.read_text(), re.MULTILINE)]
    return {number for name in names for number in name.rstrip("_").split("_")}


def test_each_exhibit_has_a_test() -> None:
    """An exhibit of the page has a test with its number, and no test is of an issue that the page does not show."""
    assert numbers_of_tests() == exhibits().keys()
    assert len(exhibits()) >= LEAST


def test_each_exhibit_links_its_issue() -> None:
    """A section links the public issue of its number, in the list of contents, too."""
    contents = PAGE.partition("\n## ")[0]
    for number, section in exhibits().items():
        assert re.search(rf"\(https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/{number}\)", section), number
        assert f"[{number}](#{number}-" in contents


def test_each_state_is_shown() -> None:
    """A state that is made here is one that the page's commands run on."""
    pages = load("pages")
    shown = set(re.findall(rf"<!-- store: {pages.EXHIBIT}(\d+) -->", PAGE))
    assert shown == museum.EXHIBITS.keys()
