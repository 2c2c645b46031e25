"""Filters mean to us what they mean to RocketMQ's own filter, and the Bloom filter has its bits."""

# ruff: noqa: RUF001 - digits of other scripts are numbers to Java
from __future__ import annotations

import functools
import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reput.dispatch.sql import compile as compile_filter
from reput.dispatch.sql.evaluate import NoAnswerError, evaluate
from reput.errors import ConfigError
from support.bloom import BloomFilter
from support.filter_tables import EXPRESSION_TEST, REFUSED, RULES
from support.filters import NAMES, TEXTS, conditions
from support.search import cases

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.peer

FILTERS = cases(40, 1000)
SETS = 30
# RocketMQ stops at what it cannot make part of a filter, and overlooks the rest of the text; a filter cut short by
# mistake then means something else. Here that is refused.
OURS_ALONE = (
    "the filter ends before this",
    "has no such sign",
    "without a semicolon",
    "without an L",
    "there are no functions",
    "are allowed",
    "no filter holds",
    "this is not a number",
    "inside one another",
)
NUMBERS = """
+ - +-5 05 5. .5 . 5e 5e3 5E+3 5e-3 5e400 -5e400 1e-400 5f 5D 5L 0x5 0x5p0 0x.8P1d 0x1p2000 NaN -NaN nan Infinity inf
+Infinity ५ ٥.५ ５ 𝟓 1_000 2147483647 2147483648 -2147483648 -2147483649 9223372036854775807 9223372036854775808
-9223372036854775808 0.1 0.30000000000000004 9007199254740993 4.9E-324 2.2250738585072011e-308 -0 -0.0 0 0.0 TRUE tRuE
"""


def ours(text: str, sets: list[dict[str, str]]) -> dict[str, Any]:
    """Our answer in the peer's form."""
    try:
        tree = compile_filter(text).tree
    except ConfigError as refusal:
        return {"refused": str(refusal)}
    answers: list[Any] = []
    for properties in sets:
        try:
            answers.append(evaluate(tree, properties))
        except NoAnswerError:
            answers.append("error")
    return {"answers": answers}


def compare(peer: ModuleType, asked: list[tuple[str, list[dict[str, str]]]]) -> list[tuple[str, Any, Any]]:
    """The filters that RocketMQ and we answer differently, where no rule above says why."""
    lines = "".join(json.dumps({"sql": text, "sets": sets}) + "\n" for text, sets in asked)
    theirs = peer.run("sql", stdin=lines.encode())
    different = []
    for (text, sets), their in zip(asked, theirs, strict=True):
        our = ours(text, sets)
        if "refused" in our:
            if "refused" not in their and not any(reason in our["refused"] for reason in OURS_ALONE):
                different.append((text, our, their))
        elif our != their:
            different.append((text, our, their))
    return different


@functools.cache
def some_filters() -> list[str]:
    """Filters of all kinds, the same ones in each run."""
    found: list[str] = []

    @settings(max_examples=FILTERS, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.lists(conditions(), min_size=10, max_size=10))
    def collect(texts: list[str]) -> None:
        found.extend(texts)

    collect()
    return sorted(set(found))


def some_sets(chance: random.Random) -> list[dict[str, str]]:
    """Messages' properties."""
    return [{name: chance.choice(TEXTS) for name in NAMES if chance.random() < 0.7} for _ in range(SETS)]


def test_filters_of_all_kinds(peer: ModuleType) -> None:
    """Hundreds of filters give RocketMQ's answer for each of many messages: true, false, unknown or an error."""
    chance = random.Random(1)
    filters = some_filters()
    assert len(filters) > FILTERS
    assert not compare(peer, [(text, some_sets(chance)) for text in filters])


def test_the_tables(peer: ModuleType) -> None:
    """The tables of our own tests are RocketMQ's answers; properties that are no texts are left out."""
    asked = [
        (text, [properties])
        for text, properties, _ in (*EXPRESSION_TEST, *RULES)
        if all(isinstance(value, str) for value in properties.values())
    ]
    assert not compare(peer, asked)
    assert not compare(peer, [(text, []) for text, _ in REFUSED if text])


def test_filters_that_miss_a_word(peer: ModuleType) -> None:
    """A filter without one of its words, or with two of them exchanged, is refused where RocketMQ refuses it."""
    chance = random.Random(2)
    asked = []
    for text in some_filters():
        words = re.findall(r"'[^']*'|\w+(?:\.\w+)?|<>|[<>]=|\S", text)
        first, second = chance.randrange(len(words)), chance.randrange(len(words))
        if chance.random() < 0.5:
            del words[first]
        else:
            words[first], words[second] = words[second], words[first]
        asked.append((" ".join(words), some_sets(chance)[:5]))
    assert not compare(peer, asked)


def test_numbers(peer: ModuleType) -> None:
    """Texts are read as numbers as Java reads them: signs, blanks, exponents, hexadecimals, the digits of scripts."""
    values = NUMBERS.split()
    values += ["", " 5", "5 ", "\t5\n", "\u00a05", "true ", "9" * 25, "0" * 30 + "7", "1" * 17 + ".25"]
    sets = [{"a": value, "b": other} for value in values for other in ("5", "0.0", "NaN")]
    filters = [
        "a = 5",
        "a < 5",
        "a >= 5.0",
        "a > 4000000000",
        "a < b",
        "a >= b",
        "a = b",
        "a = TRUE",
        "a <> FALSE",
        "a = -5",
    ]
    assert not compare(peer, [(text, sets) for text in filters])


def test_bloom(peer: ModuleType) -> None:
    """Number of hashes, number of bits and the bits themselves are RocketMQ's, for any rate and number."""
    chance = random.Random(3)
    asked = [[20, 32, f"group-{n}#topic-{chance.randrange(9)}"] for n in range(300)]
    asked += [[chance.randrange(1, 100), chance.randrange(1, 5000), f"群组-{n}#t\U0001f600"] for n in range(700)]
    theirs = peer.run("bloom", stdin="".join(json.dumps(line) + "\n" for line in asked).encode())
    for (error, expected, text), their in zip(asked, theirs, strict=True):
        bloom = BloomFilter(error, expected)
        assert {"k": bloom.hashes, "m": bloom.bits, "positions": list(bloom.positions(text))} == their
