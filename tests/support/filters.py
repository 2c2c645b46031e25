"""Filters and properties of all kinds, made by hypothesis, and properties as the log holds them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from reput.dispatch.sql.columns import RawProperties, arrow_texts
from reput.formats.properties import encode_properties

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
    return RawProperties(*arrow_texts(pa.array(properties, pa.binary())).places)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> str:
    """Filters, each right by the grammar."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return f"({_simple(draw)})"
    inner = [draw(conditions(depth=depth - 1)) for _ in range(3)]
    form = draw(st.sampled_from(FORMS))
    # A literal in parentheses is still one: NULL cannot be compared, nor TRUE with a text or a number.
    if ("=" in form or "<>" in form) and any(inner[n] in LITERALS for n in range(3)):
        form = "({0} AND {1})"
    return form.format(*inner, draw(st.sampled_from([*NAMES, "'x'", "'true'", "5"])))


LITERALS = ("(NULL)", "(TRUE)", "(FALSE)")
FORMS = (
    "({0} AND {1})",
    "({0} OR {1})",
    "({0} OR {1} AND {2})",
    "(NOT {0})",
    "({0} = {1})",
    "({0} <> {1})",
    "({0} = {3})",
    "({3} = {0})",
    "(-{0} < 5)",
    "(b >= -{0})",
    "({0} CONTAINS 'x')",
    "({0} IS NULL)",
    "({0} IS NOT NULL)",
)


def _simple(draw: st.DrawFn) -> str:
    """A condition without another inside."""
    name, text = draw(st.sampled_from(NAMES)), f"'{draw(st.sampled_from(TEXTS))}'"
    numeric = draw(st.sampled_from([*NAMES, *NUMBERS, "-a", "-'x'"]))
    other = draw(st.sampled_from([*NAMES, *NUMBERS, "-b"]))
    no = draw(st.sampled_from(["", "NOT "]))
    order, equal = draw(st.sampled_from(["<", "<=", ">", ">="])), draw(st.sampled_from(["=", "<>"]))
    place, truth = (
        draw(st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"])),
        draw(st.sampled_from(["TRUE", "FALSE"])),
    )
    either = draw(st.sampled_from([numeric, text]))
    simple = (
        f"{numeric} {order} {other}",
        f"{either} {equal} {other}",
        f"{other} {equal} {either}",
        f"{name} {equal} {truth}",
        f"{truth} = {name}",
        f"{either} IS {no}NULL",
        f"{name} {no}IN ({text}, 'xy')",
        f"{name} {no}BETWEEN {numeric} AND b",
        f"{either} {no}{place} {text}",
        name,
        truth,
        "NULL",
    )
    return draw(st.sampled_from(simple))
