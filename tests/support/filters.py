"""Filters and properties of all kinds, made by hypothesis, and properties as the log holds them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from reput.dispatch.sql.columns import RawProperties
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
    return RawProperties.of_arrow(pa.array(encoded, pa.binary()))


def conditions() -> st.SearchStrategy[str]:
    """Filters, each right by the grammar."""
    names = st.sampled_from(NAMES)
    texts = st.sampled_from(TEXTS).map(lambda text: f"'{text}'")
    numeric = st.one_of(names, st.sampled_from(NUMBERS), names.map(lambda name: f"-{name}"), st.just("-'x'"))
    either = st.one_of(numeric, texts)
    no = st.sampled_from(["", "NOT "])
    simple = st.one_of(
        st.builds("{} {} {}".format, numeric, st.sampled_from(["<", "<=", ">", ">="]), numeric),
        st.builds("{} {} {}".format, either, st.sampled_from(["=", "<>"]), either),
        st.builds("{} {} {}".format, names, st.sampled_from(["=", "<>"]), st.sampled_from(["TRUE", "FALSE"])),
        st.builds("{} = {}".format, st.sampled_from(["TRUE", "FALSE"]), names),
        st.builds("{} IS {}NULL".format, either, no),
        st.builds("{} {}IN ({}, {})".format, names, no, texts, texts),
        st.builds("{} {}BETWEEN {} AND b".format, names, no, numeric),
        st.builds("{} {}{} {}".format, either, no, st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]), texts),
        st.sampled_from([*NAMES, "TRUE", "FALSE", "NULL"]),
    )
    return st.recursive(
        simple.map(lambda text: f"({text})"),
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("{} OR {} AND {}".format, inner, inner, inner).map(lambda text: f"({text})"),
            inner.map(lambda text: f"(NOT {text})"),
            st.builds("({} {} {})".format, inner, st.sampled_from(["=", "<>"]), inner).filter(_comparable),
            st.builds("({} = {})".format, inner, st.one_of(names, texts, st.just("5"))).filter(_comparable),
            st.builds("({} = {})".format, st.one_of(names, texts, st.just("5")), inner).filter(_comparable),
            inner.map(lambda text: f"(-{text} < 5)"),
            st.builds("({} CONTAINS 'x')".format, inner),
            st.builds("({} IS NULL)".format, inner),
        ),
        max_leaves=6,
    )


def _comparable(text: str) -> bool:
    # A literal in parentheses is still one: NULL cannot be compared, nor TRUE with a text or a number.
    return not any(f"({word})" in text for word in ("NULL", "TRUE", "FALSE"))
