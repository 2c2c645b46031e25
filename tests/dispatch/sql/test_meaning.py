"""What filters mean: RocketMQ's own table of behaviours, and what follows from its rules for types."""

from __future__ import annotations

from typing import Any

import pytest

from reput.dispatch.sql import compile as compile_filter
from reput.errors import ConfigError
from support.filter_tables import EXPRESSION_TEST, REFUSED, RULES


@pytest.mark.parametrize(("text", "properties", "answer"), EXPRESSION_TEST)
def test_rocketmqs_own_table(text: str, properties: dict[str, Any], answer: bool | None) -> None:
    """RocketMQ's ExpressionTest holds here, line by line (it takes unknown for false)."""
    assert (compile_filter(text).matches(properties) or False) == (answer or False)


@pytest.mark.parametrize(("text", "properties", "answer"), RULES)
def test_rules(text: str, properties: dict[str, Any], answer: bool | None) -> None:
    """What RocketMQ's rules for types and for what is unknown come to."""
    assert compile_filter(text).matches(properties) is answer


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refused(text: str, reason: str) -> None:
    """What is no filter is refused, with the place and the reason."""
    with pytest.raises(ConfigError) as refusal:
        compile_filter(text)
    assert reason in str(refusal.value)
    assert str(refusal.value).startswith("SQL92 filter")


def test_names() -> None:
    """A filter tells which properties it looks at, each once."""
    assert compile_filter("a > 5 and (b in ('x') or not c = a) and d is null").names == ("a", "b", "c", "d")
