"""The meaning of filters: RocketMQ's own table of behaviours, and what follows from its rules for types."""

from __future__ import annotations

from typing import Any

import pytest

from reput.dispatch.sql import compile as compile_filter
from reput.errors import ConfigError
from support.filter_tables import EXPRESSION_TEST, REFUSED, RULES


@pytest.mark.behaviour("ExpressionTest.*")
@pytest.mark.parametrize(("text", "properties", "answer"), EXPRESSION_TEST)
def test_rocketmqs_own_table(text: str, properties: dict[str, Any], answer: bool | None) -> None:
    """RocketMQ's ExpressionTest holds here, line by line (it takes unknown for false)."""
    assert (compile_filter(text).matches(properties) or False) == (answer or False)


@pytest.mark.parametrize(("text", "properties", "answer"), RULES)
def test_rules(text: str, properties: dict[str, Any], answer: bool | None) -> None:
    """RocketMQ's rules for types and for unknown values decide the result."""
    assert compile_filter(text).matches(properties) is answer


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refused(text: str, reason: str) -> None:
    """A text that is no filter is refused, with the place and the reason."""
    with pytest.raises(ConfigError) as refusal:
        compile_filter(text)
    assert reason in str(refusal.value)
    assert str(refusal.value).startswith("SQL92 filter")


HINTS = [
    ('region = "eu"', "single quotes: 'eu'"),
    ("\"region\" = 'eu'", "write region"),
    ('region IN ("eu")', "single quotes: 'eu'"),
    ("region = `eu`", "single quotes: 'eu'"),
    ('a = "it\'s"', "a quote inside is two"),
    ("a != 1", "<>"),
    ("a NOT = 1", "<>"),
    ("a == 1", "one ="),
    ("a => 1", ">="),
    ("a =< 1", "<="),
    ("a eq 1", "write ="),
    ("a = 1 && b = 2", "AND"),
    ("a = 1 || b = 2", "OR"),
    ("a = 1 XOR b = 2", "no XOR"),
    ("!(a = 1)", "NOT (a = 'x')"),
    ("a LIKE 'x%'", "STARTSWITH 'x'"),
    ("a LIKE '%x'", "ENDSWITH 'x'"),
    ("a NOT LIKE '%x%'", "NOT CONTAINS 'x'"),
    ("a LIKE 'x'", "= 'x'"),
    ("a LIKE 'x_y%'", "CONTAINS, STARTSWITH or ENDSWITH"),
    ("a ILIKE '%x%'", "CONTAINS 'x'"),
    ("a REGEXP 'x.*'", "CONTAINS, STARTSWITH or ENDSWITH"),
    ("a =~ 'x'", "CONTAINS, STARTSWITH or ENDSWITH"),
    ("a STARTS WITH 'x'", "STARTSWITH 'text'"),
    ("a CONTAINS x", "single quotes: 'x'"),
    ("a CONTAINS ('x')", "without parentheses"),
    ("CONTAINS(a, 'x')", "name CONTAINS 'text'"),
    ("lower(a) = 'x'", "no functions"),
    ("a = 1 AND NOT IN ('x')", "name NOT IN"),
    ("NOT a IN ('x')", "a NOT IN"),
    ("NOT a > 5", "NOT (a > ...)"),
    ("NOT a BETWEEN 1 AND 3", "a NOT BETWEEN"),
    ("a BETWEEN 1, 3", "AND between the two bounds"),
    ("a IN (1, 2)", "write '1'"),
    ("a IN 'x'", "in parentheses"),
    ("a IN ['x']", "in parentheses"),
    ("a = 1)", "no parenthesis is open"),
    ("a IS TRUE", "write = TRUE"),
    ("a IS NOT 'x'", "write <> 'x'"),
    ("a = NULL", "IS NULL"),
    ("a > '5'", "write 5"),
    ("day > '2024-01-01'", "use = or <>"),
    ("a * 2 > 5", "no arithmetic"),
    ("my-name = 1", "letters, digits, _ and $"),
    ("WHERE a = 1", "without WHERE"),
]


@pytest.mark.parametrize(("text", "instead"), HINTS)
def test_usual_mistakes_are_answered_with_what_to_write(text: str, instead: str) -> None:
    """Usual mistakes from another SQL are refused with what to write instead."""
    with pytest.raises(ConfigError) as refusal:
        compile_filter(text)
    assert instead in str(refusal.value).split("): ", 1)[1]


def test_names() -> None:
    """A filter lists the properties that it looks at, each once."""
    assert compile_filter("a > 5 and (b in ('x') or not c = a) and d is null").names == ("a", "b", "c", "d")


@pytest.mark.parametrize("link", [" IS NULL", " IS NOT NULL", " = b", " CONTAINS 'x'"])
def test_a_long_chain_of_comparisons_is_refused(link: str) -> None:
    """Comparisons of comparisons have a bound, however they are spread: many of them ended in a RecursionError."""
    assert compile_filter(f"a{link * 100}").matches({"a": "x"}) in (True, False, None)
    for text in (f"a{link * 2000}", " AND ".join([f"a{link * 60}"] * 3)):
        with pytest.raises(ConfigError, match="more than 100 comparisons of comparisons"):
            compile_filter(text)
    assert compile_filter(" AND ".join([f"a{link}"] * 1000)).names[0] == "a"
