"""docs/findings.md has every rule of `reput check`, as the code has it, and no other page describes one again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reput.pipeline.check.rules import RULES
from support.scripts import load

findings = load("findings")
DOCS = Path(__file__).parents[2] / "docs"
OTHERS = [page for page in DOCS.rglob("*.md") if page.name != "findings.md"]


def test_the_page_is_up_to_date() -> None:
    """The tables are those that the script makes of the code."""
    page = Path(findings.PAGE).read_text("utf-8")
    assert findings.renewed(page) == page, "out of date: make docs"


def test_each_rule_has_one_row() -> None:
    """The page has one row for each rule."""
    rows = re.findall(r"^\| `([a-z-]+)` \|", Path(findings.PAGE).read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(RULES)


def test_remedies_are_of_rules() -> None:
    """Each remedy is one of a rule."""
    assert {*findings.REMEDIES} <= RULES.keys()


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_rule_is_described_once(page: Path) -> None:
    """No table of another page has a row for a rule."""
    named = re.findall(r"^\| `([a-z-]+)`", page.read_text("utf-8"), re.MULTILINE)
    assert not RULES.keys() & {*named}
