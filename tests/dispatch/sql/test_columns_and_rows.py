"""The vectorised evaluation says of each message what the evaluation of one message says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.dispatch import sql
from reput.dispatch.sql import compile as compile_filter
from reput.dispatch.sql.columns import ArrowProperties, property_rows
from reput.dispatch.sql.evaluate import NoAnswerError, evaluate
from reput.dispatch.sql.select import FALSE, NO_ANSWER, TRUE, UNKNOWN, select_codes
from reput.errors import ConfigError
from reput.kernels import SWITCH, filter_kernels
from support.filters import PROPERTY_SETS, conditions, raw, stored
from support.search import cases
from support.twins import TWINS

CODES = {True: TRUE, False: FALSE, None: UNKNOWN}


def code_of(node: Any, properties: dict[str, str]) -> int:
    """Evaluate one message to a code."""
    try:
        return int(CODES[evaluate(node, properties)])
    except NoAnswerError:
        return int(NO_ANSWER)


@pytest.fixture(params=TWINS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of kernel; few messages take it, too."""
    monkeypatch.setattr(sql, "_COLUMN_COST", 0)
    monkeypatch.setenv(SWITCH, request.param)
    filter_kernels.cache_clear()
    return str(request.param)


@settings(max_examples=cases(100, 1000), deadline=None)
@given(text=conditions(), sets=st.lists(PROPERTY_SETS, min_size=1, max_size=12))
def test_select_is_evaluate(text: str, sets: list[dict[str, str]]) -> None:
    """For any filter and any messages, many at once get the codes that each one gets alone."""
    node = compile_filter(text).tree
    expected = [code_of(node, properties) for properties in sets]
    assert select_codes(node, raw(sets)).tolist() == expected
    columns = {name: pa.array([properties.get(name) for properties in sets], pa.string()) for name in "abc"}
    assert select_codes(node, ArrowProperties(columns, len(sets))).tolist() == expected


@settings(max_examples=cases(60, 500), deadline=None)
@given(text=conditions(), sets=st.lists(PROPERTY_SETS, min_size=1, max_size=4))
def test_a_few_messages_are_evaluated_one_by_one(text: str, sets: list[dict[str, str]]) -> None:
    """For any filter, messages of each source match one by one as they do together."""
    wanted = compile_filter(text)
    columns = {name: pa.array([properties.get(name) for properties in sets], pa.string()) for name in "abc"}
    for source in (raw(sets), ArrowProperties(columns, len(sets))):
        together = [code == TRUE for code in select_codes(wanted.tree, source)]
        assert [wanted.matches(row) is True for row in property_rows(source, wanted.names)] == together
        assert wanted.select(source).tolist() == together


@settings(max_examples=cases(60, 500), deadline=None)
@given(text=conditions(), properties=PROPERTY_SETS)
def test_a_plan_is_its_tree(text: str, properties: dict[str, str]) -> None:
    """For any filter and any message, the plan has the result of the tree, also where that is no answer."""
    wanted = compile_filter(text)
    assert code_of(wanted.plan, properties) == code_of(wanted.tree, properties)


def test_texts_of_one_property_are_one_step() -> None:
    """Equalities and lists of a property are one look-up, but not across a condition that may have no answer."""
    many = compile_filter(" OR ".join(f"a = '{n}' OR b = 'x' OR a IN ('x{n}', 'y{n}')" for n in range(100)))
    assert (many.steps, len(many.plan.parts[0].texts)) == (2, 300)
    assert many.select(raw([{"a": "99"}, {"a": "y5"}, {"b": "x"}, {"a": "x", "b": "y"}])).tolist() == [1, 1, 1, 0]
    apart = compile_filter("a = '1' OR c > 5 OR a = '2' OR a = '3'")
    assert apart.steps == 3
    assert [apart.matches({"a": a, "c": "?"}) for a in "123"] == [True, None, None]
    assert compile_filter("a = '1' OR a NOT IN ('2')").steps == 2


def test_both_kinds_of_kernels(kind: str) -> None:
    """Numbers of all forms, wide characters and what is missing come out the same with either kind of kernel."""
    values = ["5", "-5", "+5", "", "05", "5.0", ".5", "5e0", " 5", "x", "NaN", "é", "५", "9" * 19, "9" * 40, "-0.0"]
    values += ["2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808"]
    values += ["0." + "1" * 30, "1" * 17 + ".5", "true", "1f", "0x1p3", "-", ".", "+.", "\u00a05", "5\x1f"]
    sets = [{"a": value, "b": "5"} if value else {"b": "x"} for value in values]
    for text in ("a = 5", "a > 5.5", "a < 3000000000", "a > b", "a = b", "a <> 'é'", "a contains '5'", "a endswith '5'",
                 "a startswith '-'", "a in ('5', 'é')", "a = true"):  # fmt: skip
        node = compile_filter(text).tree
        assert select_codes(node, raw(sets)).tolist() == [code_of(node, properties) for properties in sets], text


def test_minus_zero_of_all_forms(kind: str) -> None:
    """However minus zero is written, a property of it lies below one of zero, as Double.compareTo orders it."""
    sets = [{"a": minus, "b": zero} for minus in ("-0.0", "-0e0", "-0f", "-0x0p0", " -0d ") for zero in ("0.0", "0f")]
    for text in ("a < b", "b > a", "a <= b AND NOT (b <= a)"):
        wanted = compile_filter(text)
        assert wanted.select(raw(sets)).all(), text
        assert all(wanted.matches(properties) for properties in sets), text


def test_bytes_that_are_no_text(kind: str) -> None:
    """Bytes that are no UTF-8 count as Java decodes them: each wrong stretch is one replacement character."""
    data = [b"a\x01x\xff\x02b\x01x\xfe\x02", b"a\x01\xed\xa0\x80\x02b\x01\xff\x02"]
    columns = stored(data)
    assert compile_filter("a = 'x\ufffd'").select(columns).tolist() == [True, False]
    assert compile_filter("a = b").select(columns).tolist() == [True, True]
    assert compile_filter("a endswith '\ufffd'").select(columns).tolist() == [True, True]
    assert property_rows(columns, ("b",)) == [{"b": "x\ufffd"}, {"b": "\ufffd"}]


def test_properties_as_they_are_stored(kind: str) -> None:
    """The last of a repeated name counts, a piece without a value does not, and the last piece needs no end."""
    data = [b"a\x01x\x02a\x01y", b"a\x01\x02", b"a\x01x\x01y\x02", b"aa\x01y\x02", b"", b"\x02\x02a\x01y\x02\x02"]
    columns = stored(data)
    assert compile_filter("a = 'y'").select(columns).tolist() == [True, False, False, False, False, True]
    assert compile_filter("a = 'x\x01y'").select(columns).tolist() == [False, False, True, False, False, False]


def test_arrow_columns_of_all_kinds() -> None:
    """Slices, nulls, large and dictionary columns are read in place; a column that is no text is refused."""
    wanted = compile_filter("a = 'y'")
    plain = pa.array(["y", "x", None, "y", "yy"])
    for array in (plain, plain.cast(pa.large_string()), plain.dictionary_encode(), pa.chunked_array([plain])):
        assert wanted.select(ArrowProperties({"a": array}, 5)).tolist() == [True, False, False, True, False]
    assert wanted.select(ArrowProperties({"a": plain.slice(2, 2)}, 2)).tolist() == [False, True]
    assert wanted.select(ArrowProperties({}, 2)).tolist() == [False, False]
    assert wanted.select(ArrowProperties({"a": pa.array([], pa.string())}, 0)).tolist() == []
    with pytest.raises(ConfigError, match="give texts"):
        wanted.select(ArrowProperties({"a": pa.array([1])}, 1))
    with pytest.raises(ConfigError, match="2 are expected"):
        wanted.select(ArrowProperties({"a": pa.array(["y"])}, 2))


def test_offsets_outside_the_data_are_refused() -> None:
    """A column whose offsets point outside its bytes is refused, not followed."""
    offsets = pa.py_buffer(np.array([0, 1 << 20, 1], dtype=np.int32).tobytes())
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"y")])
    with pytest.raises(ConfigError, match="point outside"):
        compile_filter("a = 'y'").select(ArrowProperties({"a": array}, 2))
