"""Filters and properties of all kinds, made by hypothesis, and properties as the log holds them."""

from __future__ import annotations

from string import Formatter

import pyarrow as pa
from hypothesis import strategies as st

from reput.dispatch.sql.columns import RawProperties, arrow_texts
from reput.formats.log.properties import encode_properties

NAMES = ("a", "b", "c")
TEXTS = (
    "x",
    "xy",
    "yx",
    "true",
    "TRUE",
    "false",
    "5",
    "-5",
    "5.0",
    "5e0",
    "NaN",
    "-0.0",
    "0.0",
    "-0e0",
    "-0f",
    "3000000000",
    " 5",
    "é",
    "१२",
)
NUMBERS = ("5", "0", "-5", "5.5", "12", "3000000000", "7L", "1.5E3", "-2147483648", "+5", "- -5")

PROPERTY_SETS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS))


def raw(sets: list[dict[str, str]]) -> RawProperties:
    """Messages' properties as the log holds them."""
    encoded = [encode_properties({name.encode(): value.encode() for name, value in each.items()}) for each in sets]
    return stored(encoded)


def stored(properties: list[bytes]) -> RawProperties:
    """Properties as the log holds them, of messages one after the other."""
    texts = arrow_texts(pa.array(properties, pa.binary()))
    return RawProperties(texts.data, texts.at, texts.size)


LITERALS = ("(NULL)", "(TRUE)", "(FALSE)")
FORMS = (
    "({0} AND {1})",
    "({0} OR {1})",
    "({0} OR {1} AND {2})",
    "(NOT {0})",
    "({0} = {1})",
    "({0} <> {1})",
    "({0} = {simple})",
    "({simple} = {0})",
    "(-{0} < 5)",
    "(b >= -{0})",
    "({0} CONTAINS 'x')",
    "({0} IS NULL)",
    "({0} IS NOT NULL)",
)
SIMPLE_FORMS = (
    "{numeric} {order} {other}",
    "{either} {equal} {other}",
    "{other} {equal} {either}",
    "{name} {equal} {truth}",
    "{truth} = {name}",
    "{either} IS {no}NULL",
    "{name} {no}IN ({text}, 'xy')",
    "{name} {no}BETWEEN {numeric} AND b",
    "{either} {no}{place} {text}",
    "{name}",
    "{truth}",
    "NULL",
)
_QUOTED = [f"'{text}'" for text in TEXTS]
_NUMERIC = [*NAMES, *NUMBERS, "-a", "-'x'"]
_PARTS = {
    "name": st.sampled_from(NAMES),
    "text": st.sampled_from(_QUOTED),
    "numeric": st.sampled_from(_NUMERIC),
    "other": st.sampled_from([*NAMES, *NUMBERS, "-b"]),
    "either": st.one_of(st.sampled_from(_NUMERIC), st.sampled_from(_QUOTED)),
    "no": st.sampled_from(["", "NOT "]),
    "order": st.sampled_from(["<", "<=", ">", ">="]),
    "equal": st.sampled_from(["=", "<>"]),
    "place": st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]),
    "truth": st.sampled_from(["TRUE", "FALSE"]),
    "simple": st.sampled_from([*NAMES, "'x'", "'true'", "5"]),
}


def _parts_of(form: str) -> set[str]:
    """Return the names of the parts that a form has."""
    return {name for _, name, _, _ in Formatter().parse(form) if name}


@st.composite
def _simple(draw: st.DrawFn) -> str:
    """A condition without another inside."""
    form = draw(st.sampled_from(SIMPLE_FORMS))
    return f"({form.format(**{name: draw(_PARTS[name]) for name in sorted(_parts_of(form))})})"


@st.composite
def _joined(draw: st.DrawFn, inside: st.SearchStrategy[str]) -> str:
    """A condition made of others."""
    form = draw(st.sampled_from(FORMS))
    names = _parts_of(form)
    inner = [draw(inside) for _ in range(sum(name.isdigit() for name in names))]
    # A literal in parentheses is still one: NULL cannot be compared, nor TRUE with a text or a number.
    if ("=" in form or "<>" in form) and any(condition in LITERALS for condition in inner):
        return f"({inner[0]} AND {inner[-1]})"
    return form.format(*inner, simple=draw(_PARTS["simple"]))


def conditions(depth: int = 3) -> st.SearchStrategy[str]:
    """Filters that the grammar allows. Each strategy is made once: making them anew took most of a test's time."""
    found = _simple()
    for _ in range(depth):
        found = st.one_of(_simple(), _joined(found), _joined(found))
    return found
