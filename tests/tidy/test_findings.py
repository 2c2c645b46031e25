"""The rules of `check` have one table: what the code reports is in it, and all that is in it the code reports."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from reput.pipeline.check.rules import DAMAGE, LEFTOVER, RULES, Group
from tidy.source import PACKAGE, dotted, parsed, walked

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECK = PACKAGE / "pipeline" / "check"
NO_RULES = {"index-database", "missing-keys"}
"""Words with a dash in the modules of `check` that are no rule: the beginning of some, and a kind of part files."""
BY_METHOD = {"damage": {DAMAGE}, "after_crash": {DAMAGE, LEFTOVER}, "out_of_date": {DAMAGE, LEFTOVER}}
"""The severities that a report gives by itself."""


def words_of(tree: ast.Module) -> set[str]:
    """The texts of a module that look like a rule: words with dashes between."""
    texts = {node.value for node in walked(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if re.fullmatch(r"[a-z]+(-[a-z]+)+", text)}


def findings_of(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """The rules that a module reports by name, with the severities of the call."""
    for node in walked(tree):
        if not isinstance(node, ast.Call):
            continue
        method, given = dotted(node.func).rpartition(".")[2], [ast.unparse(one) for one in node.args[:2]]
        if method in BY_METHOD and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value), BY_METHOD[method]
        elif method == "remark" and isinstance(node.args[1], ast.Constant):
            yield str(node.args[1].value), {given[0].lower()}


def test_every_rule_is_in_the_table_and_reported() -> None:
    """The names of rules in the modules of `check` are those of the table: none is unknown, and none is idle."""
    found = [words_of(parsed(path)) for path in CHECK.glob("*.py") if path.name != "rules.py"]
    assert set().union(*found) - NO_RULES == RULES.keys()
    rows = [node for node in walked(parsed(CHECK / "rules.py")) if isinstance(node, ast.Call)]
    assert sum(dotted(node.func) == "CheckRule" for node in rows) == len(RULES), "two rows have one name"


def test_the_table_has_every_severity() -> None:
    """A rule has in the table each severity with which a module reports it."""
    found = [one for path in CHECK.glob("*.py") for one in findings_of(parsed(path))]
    assert len(found) > len(RULES) / 2
    assert not [(name, severities) for name, severities in found if not severities <= {*RULES[name].severities}]


@pytest.mark.parametrize("group", Group)
def test_a_group_has_rules_that_say_what_they_mean(group: Group) -> None:
    """Each group has rules, and each rule has a meaning of one sentence, which no other rule has."""
    assert [rule for rule in RULES.values() if rule.group is group]
    meanings = [rule.meaning for rule in RULES.values()]
    assert len(set(meanings)) == len(meanings)
    assert not [text for text in meanings if not text or text.endswith(".") or ". " in text or "|" in text]


def test_rules_in_source_are_seen() -> None:
    """The laws above find a name in a call, in a variable and in a table, and the severity of a call."""
    text = 'r.damage("a-b", f)\nx = "c-d-e"\nr.remark(NOTE, "f-g", y)\nr.remark(NOTE, x, y)\nz = "A-B", "a b", f"{i}-j"'
    assert words_of(ast.parse(text)) == {"a-b", "c-d-e", "f-g"}
    assert list(findings_of(ast.parse(text))) == [("a-b", {"damage"}), ("f-g", {"note"})]
