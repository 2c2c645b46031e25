"""What filters mean: RocketMQ's own table of behaviours, and what follows from its rules for types."""

from __future__ import annotations

from typing import Any

import pytest

from reput.dispatch.sql import compile as compile_filter
from reput.errors import ConfigError

NOTHING: dict[str, Any] = {}

# Filter, properties, answer. The first part is RocketMQ's ExpressionTest, test by test; there None counts as False.
EXPRESSION_TEST = [
    ("value contains 'x'", {"value": "axb"}, True),
    ("value startswith 'ax'", {"value": "axb"}, True),
    ("value endswith 'xb'", {"value": "axb"}, True),
    ("value not contains 'x'", {"value": "axb"}, False),
    ("value not startswith 'ax'", {"value": "axb"}, False),
    ("value not endswith 'xb'", {"value": "axb"}, False),
    ("value contains 'x'", {"value": "abb"}, False),
    ("value startswith 'x'", {"value": "abb"}, False),
    ("value endswith 'x'", {"value": "abb"}, False),
    ("value not contains 'x'", {"value": "abb"}, True),
    ("value not startswith 'x'", {"value": "abb"}, True),
    ("value not endswith 'x'", {"value": "abb"}, True),
    *((f"value {word} ''", {"value": "axb"}, False) for word in ("contains", "startswith", "endswith")),
    *((f"value not {word} ''", {"value": "axb"}, False) for word in ("contains", "startswith", "endswith")),
    *((f"value {word} 'x'", {"value": None}, False) for word in ("contains", "startswith", "endswith")),
    *((f"value not {word} 'x'", {"value": None}, False) for word in ("contains", "startswith", "endswith")),
    *((f"value {word} 'x'", NOTHING, False) for word in ("contains", "startswith", "endswith")),
    *((f"value not {word} 'x'", NOTHING, False) for word in ("contains", "startswith", "endswith")),
    *((f"value {word} 'x'", {"value": 1.23}, False) for word in ("contains", "startswith", "endswith")),
    *((f"value not {word} 'x'", {"value": 1.23}, False) for word in ("contains", "startswith", "endswith")),
    *((f"value {word} 'x'", {"value": True}, False) for word in ("contains", "startswith", "endswith")),
    *((f"value not {word} 'x'", {"value": True}, False) for word in ("contains", "startswith", "endswith")),
    ("'axb' contains 'x'", NOTHING, True),
    ("'axb' startswith 'ax'", NOTHING, True),
    ("'axb' endswith 'xb'", NOTHING, True),
    ("'axb' not contains 'x'", NOTHING, False),
    ("'axb' not startswith 'ax'", NOTHING, False),
    ("'axb' not endswith 'xb'", NOTHING, False),
    *((f"'axb' {word} 'u'", NOTHING, False) for word in ("contains", "startswith", "endswith")),
    *((f"'axb' not {word} 'u'", NOTHING, True) for word in ("contains", "startswith", "endswith")),
    *((f"'axb' {word} ''", NOTHING, False) for word in ("contains", "startswith", "endswith")),
    *((f"' ' {word} ' '", NOTHING, True) for word in ("contains", "startswith", "endswith")),
    *((f"'axb' {word} '.'", NOTHING, False) for word in ("contains", "startswith", "endswith")),
    *((f"'s' {word} '\\'", NOTHING, False) for word in ("contains", "startswith", "endswith")),
    *(
        (
            f"a not in ('4', '4', '5') and b between 3 and 10 and c not {word} 'axbc'",
            {"a": "3", "b": 3, "c": "axbdc"},
            True,
        )
        for word in ("contains", "startswith", "endswith")
    ),
    ("TAGS is not null and TAGS='''''tag'''''", {"TAGS": "''tag''"}, True),
    ("a between up and low", {"a": "3.14"}, None),
    ("a between up and low", {"a": "3.14", "up": "up", "low": "low"}, None),
    ("key is not null and key between 0 and 100", {"key": "con"}, None),
    ("a between 0 and 100", {"a": "abc"}, None),
    ("a=b", {"a": "3.14", "b": "3.14"}, True),
    ("a<>b", {"a": "3.14", "b": "3.14"}, False),
    ("a<>b", {"a": "3.14", "b": "3.141"}, True),
    ("a > 3.1E10", {"a": "3.1415E10"}, True),
    ("a > 3.14", {"a": "3.1415"}, True),
    ("a > b", {"a": "10", "b": "20"}, False),
    ("a > b", {"a": "20", "b": "10"}, True),
    ("a is null OR a='hello'", NOTHING, True),
    ("a is null OR a='hello'", {"a": "hello"}, True),
    ("a is null OR a='hello'", {"a": "abc"}, False),
    ("a=TRUE OR b=FALSE", {"a": "true", "b": "false"}, True),
    ("a=TRUE OR b=FALSE", {"a": "false", "b": "true"}, False),
    ("a is not null and a='hello'", {"a": "hello"}, True),
    ("a is not null and a='hello'", NOTHING, False),
    *(
        ("a=3 and b<>4 And c>5 AND d<=4", {"a": kind(3), "b": kind(5), "c": kind(6), "d": kind(1)}, True)
        for kind in (int, str)
    ),
    *(
        ("a=3 and b<>4 And c>5 AND d<=4", {"a": kind(4), "b": kind(5), "c": kind(6), "d": kind(1)}, False)
        for kind in (int, str)
    ),
    ("a=3 or b<>4 Or c>5 OR d<=4", {"a": 3}, True),
    ("a=3 or b<>4 Or c>5 OR d<=4", {"a": 4, "b": 5}, True),
    ("a=3 or b<>4 Or c>5 OR d<=4", {"a": 4, "b": 4, "c": 6}, True),
    ("a=3 or b<>4 Or c>5 OR d<=4", {"a": 4, "b": 4, "c": 3, "d": 2}, True),
    ("a=3 or b<>4 Or c>5 OR d<=4", {"a": 4, "b": 4, "c": 3, "d": 10}, False),
    *(("a in ('3', '4', '5')", {"a": each}, True) for each in "345"),
    ("a in ('3', '4', '5')", {"a": "8"}, False),
    ("a not in ('3', '4', '5')", {"a": "8"}, True),
    *(("a not in ('3', '4', '5')", {"a": each}, False) for each in "345"),
    *(("a between 2 and 10", {"a": each}, True) for each in ("2", "10", "3")),
    *(("a between 2 and 10", {"a": each}, False) for each in ("1", "11")),
    *(("a not between 2 and 10", {"a": each}, True) for each in ("1", "11")),
    *(("a not between 2 and 10", {"a": each}, False) for each in ("2", "10", "3")),
    ("a is null", {"abc": "2"}, True),
    ("a is null", {"a": "2"}, False),
    ("a is not null", {"a": "2"}, True),
    ("a is not null", {"abc": "2"}, False),
]

RULES = [
    # Beside a whole number a text must be a whole number of Java's int, or of long where the number is no int.
    ("a > 100", {"a": "150.5"}, None),
    ("a > 100.5", {"a": "150"}, True),
    ("a > 100", {"a": "3000000000"}, None),
    ("a > 3000000000", {"a": "3000000001"}, True),
    ("a > 100", {"a": " 150"}, None),
    ("a > 100.5", {"a": " 150 "}, True),
    ("a > 100", {"a": "+150"}, True),
    ("a = 12", {"a": "१२"}, True),
    ("a = 5", {"a": "NaN"}, None),
    ("a > 5.5", {"a": "NaN"}, True),
    ("a > 5.5", {"a": "Infinity"}, True),
    ("a = 16.0", {"a": "0x1p4"}, True),
    ("a = 1.5", {"a": "1.5f"}, True),
    ("a >= -5", {"a": "-5"}, True),
    ("a < b", {"a": "-0.0", "b": "0.0"}, True),
    ("a = b", {"a": "1.0", "b": "1"}, False),
    ("a >= b and a <= b", {"a": "1.0", "b": "1"}, True),
    # An error ends the whole evaluation, unless what stands in front of it has decided.
    ("a = 5 or b = 'x'", {"a": "no", "b": "x"}, None),
    ("b = 'x' or a = 5", {"a": "no", "b": "x"}, True),
    ("b = 'y' and a = 5", {"a": "no", "b": "x"}, False),
    # Unknown: what is not there is on the left unknown, on the right of = different.
    ("a = 'x'", NOTHING, None),
    ("a <> 'x'", NOTHING, None),
    ("'x' = a", NOTHING, False),
    ("'x' <> a", NOTHING, True),
    ("a = b", NOTHING, True),
    ("a in ('x')", NOTHING, None),
    ("a not in ('x')", NOTHING, None),
    ("a = 'x' or b = 'y'", {"b": "y"}, True),
    ("a = 'x' and b = 'y'", {"b": "z"}, False),
    ("NULL or a = 'x'", {"a": "y"}, None),
    # NOT binds tighter than a comparison, and a property is no condition that could be true.
    ("not a = 'x'", {"a": "y"}, None),
    ("not (a = 'x')", {"a": "y"}, True),
    ("a", {"a": "true"}, False),
    ("not a", {"a": "true"}, True),
    ("a", NOTHING, None),
    ("a = true", {"a": "TRUE"}, True),
    ("true = a", {"a": "true"}, None),
    ("(a = 'x') = true", {"a": "x"}, True),
    ("(a = 'x') is null", NOTHING, True),
    ("(a = 'x') = 5", {"a": "x"}, False),
    ("5 = (a = 'x')", {"a": "x"}, False),
    ("a = 'x' = true", {"a": "x"}, True),
    ("-a > 5", {"a": "-6"}, None),
    ("a > - -5", {"a": "6"}, True),
    ("a > +5", {"a": "6"}, True),
    ("TRUE", NOTHING, True),
    ("a = 'é'", {"a": "é"}, True),
    ("a = '\U0001f600'", {"a": "\U0001f600"}, True),
    ("A = 'x'", {"a": "x"}, None),
    ("$a_1 = 'x' -- what else", {"$a_1": "x"}, True),
    ("a /* here */ = 'x'", {"a": "x"}, True),
    ("a = 'it''s'", {"a": "it's"}, True),
    ("a = 9223372036854775807L", {"a": "9223372036854775807"}, True),
]

REFUSED = [
    ("", "it is empty"),
    ("a and between 2 and 10", "character 7"),
    ("a between 10 and 0", "upper bound is below its lower one"),
    ("a between NULL and 5", "character 11 ('NULL"),
    ("a > 100000000000000000000000", "whole numbers go to 9223372036854775807"),
    ("a > 1" + "1" * 400 + ".5", "numbers that no double can hold"),
    ("a > 0.0", "write 0 for zero"),
    ("value contains x", "CONTAINS takes texts in single quotes"),
    ("value not contains 123", "CONTAINS takes texts in single quotes"),
    ("'axb' contains ", "its end"),
    ("a > 'x'", "compares numbers"),
    ("a > true", "compares numbers"),
    ("(a = 1) > 2", "compares numbers"),
    ("a = NULL", "ask with IS NULL"),
    ("NULL <> a", "ask with IS NULL"),
    ("TRUE = 5", "cannot be compared"),
    ("a in (1, 2)", "texts in single quotes"),
    ("a in ()", "texts in single quotes"),
    ("a in ('x'", "is not closed"),
    ("5 in ('x')", "asks for a property"),
    ("a is 5", "must follow IS"),
    ("(a = 1", "is not closed"),
    ("5", "a condition"),
    ("a = 1 and 'x'", "a condition"),
    ("-a", "a condition"),
    ("'x", "is not closed"),
    ("a != 1", "character 3"),
    ("a = 1 b", "the filter ends in front of this"),
    ("a * 2 > 5", "character 3 ('* 2"),
    ("a + 2 > 5", "character 3 ('+ 2"),
    ("a like 'x'", 'character 3 ("like'),
    ("upper(a) = 'X'", "there are no functions"),
    ("a = 012", "no number"),
    ("a = 1; b = 2", "without a semicolon"),
    ('"a" = 1', "character 1"),
    ("é = 1", "character 1"),
    ("contains = 1", "character 1"),
    ("a = 'x\0'", "no filter holds this character"),
    ("(" * 150 + "a = 1" + ")" * 150, "parentheses and signs inside one another"),
    ("a = '" + "x" * 70_000 + "'", "65536 are allowed"),
]


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
