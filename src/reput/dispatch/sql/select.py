"""Evaluation of many messages at once: one array of codes for each filter. `evaluate` is the specification.

Every part of a filter is evaluated for every message. Parts that RocketMQ would not have evaluated are dropped when
parts are combined, so a text that is no number stops a message only where RocketMQ would have read it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.sql import tree
from reput.dispatch.sql.columns import PropertyColumns
from reput.dispatch.sql.evaluate import NoAnswerError, evaluate
from reput.dispatch.sql.numbers import double_key, parse_double
from reput.dispatch.sql.tree import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, Constant, Long, Node, Order, TextPlace
from reput.formats.java.java_numbers import parse_whole
from reput.kernels import filter_kernels
from reput.kernels.layouts.filter import Code, NumberTest, Read, TextList, Texts

Codes = NDArray[np.uint8]
FALSE, TRUE, UNKNOWN = np.uint8(Code.FALSE), np.uint8(Code.TRUE), np.uint8(Code.UNKNOWN)
NO_ANSWER = np.uint8(Code.NO_ANSWER)

_NOT = np.array([TRUE, FALSE, UNKNOWN, NO_ANSWER])
_IN_WORDS = {True: TRUE, False: FALSE, None: UNKNOWN}
_REPLACEMENT = "\ufffd"
_NAN_KEY = np.int64(0x7FF8000000000000)
_ORDER_OF = {Order.LESS: np.less, Order.LESS_EQUAL: np.less_equal, Order.GREATER: np.greater,
             Order.GREATER_EQUAL: np.greater_equal}  # fmt: skip
# The order of text and constant in which it holds, as kernels take it.
_LESS, _SAME, _GREATER = 1, 2, 4
_HOLDS = {Order.LESS: _LESS, Order.LESS_EQUAL: _LESS | _SAME, Order.GREATER: _GREATER,
          Order.GREATER_EQUAL: _GREATER | _SAME}  # fmt: skip
_TURNED = {Order.LESS: Order.GREATER, Order.LESS_EQUAL: Order.GREATER_EQUAL, Order.GREATER: Order.LESS,
           Order.GREATER_EQUAL: Order.LESS_EQUAL}  # fmt: skip


class _ConstantColumn:
    """A text or a number that is the same for all messages."""

    __slots__ = ("value",)

    def __init__(self, value: Constant) -> None:
        self.value = value


# The value of a node: a property's column, a constant, or codes, which are truths; UNKNOWN is NULL too.
_Value = Texts | _ConstantColumn | Codes


def _both(table: list[list[int]]) -> Codes:
    return np.array(table, dtype=np.uint8).ravel()


# Rows: the code of the left part; columns: that of the right part. A decided left part ends the evaluation.
_OR = _both([[0, 1, 2, 3], [1, 1, 1, 1], [2, 1, 2, 3], [3, 3, 3, 3]])
_AND = _both([[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 2, 3], [3, 3, 3, 3]])
# NULL on the left is unknown, on the right false, on both sides true.
_EQUAL = _both([[1, 0, 0, 3], [0, 1, 0, 3], [2, 2, 1, 3], [3, 3, 3, 3]])


def select_codes(node: Node, columns: PropertyColumns) -> Codes:
    """Return the result of a filter for each message: FALSE, TRUE, UNKNOWN or NO_ANSWER (uint8)."""
    names = list(dict.fromkeys(tree.property_names(node)))
    codes = _Evaluation(columns.texts(names) if names else {}, len(columns)).value(node)
    assert isinstance(codes, np.ndarray)
    return codes


class _Evaluation:
    """The evaluation of one batch: `texts` are the columns that it may read, `count` is the number of messages."""

    def __init__(self, texts: dict[str, Texts], count: int) -> None:
        self.texts, self.count = texts, count

    def value(self, node: Node) -> _Value:  # noqa: PLR0911 - one for each kind of node
        """Return the value of a node for each message."""
        match node:
            case tree.Property(name):
                return self.texts[name]
            case tree.Literal(value):
                return self._literal(value)
            case tree.Minus(value):
                return self._negated(value)
            case tree.Cast(value):
                return np.where(self.texts[value.name].missing, UNKNOWN, FALSE)
            case tree.Not(value):
                return _NOT[self._codes(value)]
            case tree.Or(parts):
                return self._joined(parts, _OR)
            case tree.And(parts):
                return self._joined(parts, _AND)
            case tree.Equal(left, right):
                return self._equal(self.value(left), self.value(right))
            case tree.Ordered(order, left, right):
                return self._ordered(order, self.value(left), self.value(right))
            case tree.Search():
                return self._search(node)
            case tree.In():
                return self._in(node)

    def _codes(self, node: Node) -> Codes:
        codes = self.value(node)
        assert isinstance(codes, np.ndarray), f"{node} is a condition"
        return codes

    def _full(self, code: np.uint8) -> Codes:
        return np.full(self.count, code)

    def _literal(self, value: Constant | bool | None) -> _Value:
        if value is None or isinstance(value, bool):
            return self._full(_IN_WORDS[value])
        return _ConstantColumn(value)

    def _negated(self, node: Node) -> _Value:
        inner = self.value(node)
        if isinstance(inner, np.ndarray):
            return np.where(inner == NO_ANSWER, NO_ANSWER, UNKNOWN)
        if isinstance(inner, _ConstantColumn):
            return self._literal(evaluate(tree.Minus(tree.Literal(inner.value)), {}))
        return self._full(UNKNOWN)

    def _joined(self, parts: tuple[Node, ...], table: Codes) -> Codes:
        codes = self._codes(parts[0])
        for part in parts[1:]:
            codes = _looked_up(table, codes, self._codes(part))
        return codes

    # --- = -------------------------------------------------------------------------------------

    def _equal(self, left: _Value, right: _Value) -> Codes:
        if isinstance(left, np.ndarray):
            return self._truth_equal(left, right)
        if isinstance(right, np.ndarray):
            return self._equal_truth(left, right)
        if isinstance(left, Texts):
            if isinstance(right, Texts):
                codes = _truths(_is_same(left, right))
                codes[right.missing] = FALSE
                codes[left.missing] = np.where(right.missing[left.missing], TRUE, UNKNOWN)
                return codes
            return _equal_constant(left, right.value, UNKNOWN)
        if isinstance(right, Texts):
            return _equal_constant(right, left.value, FALSE)
        return self._full(_code_of(tree.Equal(tree.Literal(left.value), tree.Literal(right.value))))

    def _truth_equal(self, left: Codes, right: _Value) -> Codes:
        """Return a boolean or NULL on the left: it may equal another, never a number, and a text is an error."""
        if isinstance(right, np.ndarray):
            return _looked_up(_EQUAL, left, right)
        if isinstance(right, Texts):
            codes = np.where(right.missing, FALSE, NO_ANSWER)
            codes[left == UNKNOWN] = np.where(right.missing[left == UNKNOWN], TRUE, UNKNOWN)
        else:
            codes = self._full(NO_ANSWER if isinstance(right.value, str) else FALSE)
            codes[left == UNKNOWN] = UNKNOWN
        codes[left == NO_ANSWER] = NO_ANSWER
        return codes

    def _equal_truth(self, left: Texts | _ConstantColumn, right: Codes) -> Codes:
        """Return a boolean or NULL on the right: a text on the left becomes a boolean, a number never equals one."""
        if isinstance(left, Texts):
            as_truth = np.where(_is_true(left), TRUE, FALSE)
            as_truth[left.missing] = UNKNOWN
            return _looked_up(_EQUAL, as_truth, right)
        if isinstance(left.value, str):
            as_truth = self._full(TRUE if left.value.lower() == "true" else FALSE)
            return _looked_up(_EQUAL, as_truth, right)
        return np.where(right == NO_ANSWER, NO_ANSWER, FALSE)

    # --- < <= > >= -----------------------------------------------------------------------------

    def _ordered(self, order: Order, left: _Value, right: _Value) -> Codes:
        if isinstance(left, np.ndarray):
            # Only the operand of a minus can be codes here: NULL, or an error on the way to it.
            return left
        if isinstance(right, np.ndarray):
            codes = right.copy()
            if isinstance(left, Texts):
                codes[left.missing] = UNKNOWN
            return codes
        if isinstance(left, _ConstantColumn) and isinstance(right, _ConstantColumn):
            return self._full(_code_of(tree.Ordered(order, tree.Literal(left.value), tree.Literal(right.value))))
        if isinstance(left, Texts) and isinstance(right, Texts):
            (one, bad), (other, bad_too) = _doubles(left), _doubles(right)
            codes = _truths(_ORDER_OF[order](one, other))
            codes[bad | bad_too] = NO_ANSWER
            codes[left.missing | right.missing] = UNKNOWN
            return codes
        if isinstance(left, Texts):
            assert isinstance(right, _ConstantColumn)
            return _compared(left, right.value, _HOLDS[order], UNKNOWN)
        assert isinstance(right, Texts)
        return _compared(right, left.value, _HOLDS[_TURNED[order]], UNKNOWN)

    # --- texts ---------------------------------------------------------------------------------

    def _search(self, node: tree.Search) -> Codes:
        if not node.text:
            return self._full(FALSE)
        value = self.value(node.value)
        if isinstance(value, np.ndarray):
            return np.where(value == NO_ANSWER, NO_ANSWER, FALSE)
        if isinstance(value, _ConstantColumn):
            return self._full(_code_of(tree.Search(node.place, tree.Literal(value.value), node.text, node.negated)))
        codes = _truths(_holds_text(value, node.text, node.place) != node.negated)
        codes[value.missing] = FALSE
        return codes

    def _in(self, node: tree.In) -> Codes:
        return _is_one_of(self.texts[node.value.name], node.texts, node.negated, UNKNOWN)


def _looked_up(table: Codes, left: Codes, right: Codes) -> Codes:
    codes = np.empty(len(left), dtype=np.uint8)
    filter_kernels().join_codes(table, left, right, codes)
    return codes


def _truths(holds: NDArray[np.bool_]) -> Codes:
    return holds.view(np.uint8)


def _code_of(node: Node) -> np.uint8:
    try:
        return _IN_WORDS[evaluate(node, {})]
    except NoAnswerError:
        return NO_ANSWER


def _equal_constant(texts: Texts, value: Constant, missing: np.uint8) -> Codes:
    if isinstance(value, str):
        return _is_one_of(texts, frozenset((value,)), False, missing)
    return _compared(texts, value, _SAME, missing)


def _is_one_of(texts: Texts, wanted: frozenset[str], negated: bool, missing: np.uint8) -> Codes:
    listed = TextList.of([text.encode("utf-8", "surrogatepass") for text in wanted])
    codes = np.empty(len(texts.at), dtype=np.uint8)
    filter_kernels().is_one_of(texts, listed, negated, int(missing), codes)
    if any(_REPLACEMENT in text for text in wanted):
        # Bytes that are no UTF-8 are decoded to this character, so bytes alone do not decide.
        not_found = (codes == (TRUE if negated else FALSE)) & ~texts.missing
        _ask(texts, not_found, lambda text: (text in wanted) != negated, codes)
    return codes


def _holds_text(texts: Texts, wanted: str, place: TextPlace) -> NDArray[np.bool_]:
    found = np.empty(len(texts.at), dtype=np.bool_)
    needle = np.frombuffer(wanted.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    filter_kernels().holds_text(texts, needle, place is TextPlace.START, place is TextPlace.END, found)
    if _REPLACEMENT in wanted:
        asked = tree.Search(place, tree.Property(""), wanted, negated=False)
        _ask(texts, ~found & ~texts.missing, lambda text: bool(evaluate(asked, {"": text})), found)
    return found


def _is_same(left: Texts, right: Texts) -> NDArray[np.bool_]:
    kernels = filter_kernels()
    found, wide = np.empty(len(left.at), dtype=np.bool_), np.empty(len(left.at), dtype=np.bool_)
    kernels.is_same(left, right, found)
    kernels.has_wide(left, wide)
    for row in np.flatnonzero(wide & ~found & ~right.missing).tolist():
        found[row] = left.text(row) == right.text(row)
    return found


def _is_true(texts: Texts) -> NDArray[np.bool_]:
    """Return which texts are `true`, in upper or lower case."""
    found = np.zeros(len(texts.at), dtype=np.bool_)
    _ask(texts, texts.size == len("true"), lambda text: text.lower() == "true", found)
    return found


def _ask(texts: Texts, rows: NDArray[np.bool_], holds: Callable[[str], bool], found: NDArray[np.bool_] | Codes) -> None:
    for row in np.flatnonzero(rows).tolist():
        text = texts.text(row)
        found[row] = text is not None and holds(text)


def _compared(texts: Texts, number: Constant, holds: int, missing: np.uint8) -> Codes:
    """Compare texts, read as numbers, with a number: `holds` names the orders (of text and number) that are true."""
    codes, key = np.empty(len(texts.at), dtype=np.uint8), _key(number)
    read: Callable[[str], int | None]
    if isinstance(number, float):
        left = filter_kernels().compare_double(texts, NumberTest(key, holds, int(missing)), codes)
        read = _double_key_of
    else:
        low, high = (LONG_MIN, LONG_MAX) if isinstance(number, Long) else (INT_MIN, INT_MAX)
        left = filter_kernels().compare_whole(texts, NumberTest(key, holds, int(missing), low, high), codes)
        read = partial(parse_whole, bits=64 if isinstance(number, Long) else 32)
    for row in np.flatnonzero(codes == Code.LEFT).tolist() if left else ():
        found = read(texts.text(row) or "")
        codes[row] = NO_ANSWER if found is None else holds >> ((found > key) - (found < key) + 1) & 1
    return codes


def _double_key_of(text: str) -> int | None:
    value = parse_double(text)
    return None if value is None else double_key(value)


def _doubles(texts: Texts) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    values, status = np.empty(len(texts.at), dtype=np.float64), np.empty(len(texts.at), dtype=np.uint8)
    filter_kernels().read_double(texts, values, status)
    for row in np.flatnonzero(status == Read.ASK).tolist():
        value = parse_double(texts.text(row) or "")
        values[row], status[row] = (0.0, Read.BAD) if value is None else (value, Read.GOOD)
    return _double_keys(values), status != Read.GOOD


def _double_keys(values: NDArray[np.float64]) -> NDArray[np.int64]:
    bits = values.view(np.int64)
    keys = np.where(bits >= 0, bits, bits ^ np.int64(LONG_MAX))
    return np.where(np.isnan(values), _NAN_KEY, keys)


def _key(number: Constant) -> int:
    assert not isinstance(number, str)
    return double_key(number) if isinstance(number, float) else int(number)
