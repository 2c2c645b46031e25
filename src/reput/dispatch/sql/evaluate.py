"""Evaluation of one message at a time: the specification of `select`.

A value is a text, a number, a boolean or NULL (None). Where RocketMQ's evaluation throws, as for a text that is no
number beside a number, this raises (`NoAnswerError`): the message then does not match, whatever the rest of the filter.

Source: `ComparisonExpression`, `UnaryExpression`, `LogicExpression`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reput.dispatch.sql import tree
from reput.dispatch.sql.numbers import double_key, parse_double
from reput.dispatch.sql.tree import INT_MAX, INT_MIN, Long, Node, Order, TextPlace
from reput.formats.java.java_numbers import parse_whole

# Many comparisons, of one filter or of many, read the few properties of a message.
_whole = lru_cache(64)(parse_whole)
_any_double = lru_cache(64)(parse_double)


class NoAnswerError(Exception):
    """The evaluation has no result: RocketMQ throws here, and the message does not match."""


def evaluate(node: Node, properties: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one for each kind of node
    """Return the value of a node for a message with these properties.

    Raises:
        NoAnswerError: a text is no number, or cannot be compared.
    """
    # The frequent kinds come first: each test before the right one costs a tenth of a step.
    match node:
        case tree.Property(name):
            return properties.get(name)
        case tree.Literal(value):
            return value
        case tree.Ordered(order, left, right):
            return _ordered(order, left, right, properties)
        case tree.Equal(left, right):
            return _equal(evaluate(left, properties), evaluate(right, properties))
        case tree.And(parts):
            return _all(parts, properties)
        case tree.Or(parts):
            return _any(parts, properties)
        case tree.In(value, texts, negated):
            found = evaluate(value, properties)
            return (found in texts) != negated if isinstance(found, str) else None
        case tree.Search():
            return _search(node, properties)
        case tree.Not(value):
            truth = evaluate(value, properties)
            return None if truth is None else not truth
        case tree.Minus(value):
            return _negated(evaluate(value, properties))
        case tree.Cast(value):
            found = evaluate(value, properties)
            return None if found is None else found is True


def _negated(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return None
    return Long(-value) if isinstance(value, Long) else -value


def _any(parts: tuple[Node, ...], properties: Mapping[str, Any]) -> bool | None:
    unknown = False
    for part in parts:
        truth = evaluate(part, properties)
        if truth:
            return True
        unknown |= truth is None
    return None if unknown else False


def _all(parts: tuple[Node, ...], properties: Mapping[str, Any]) -> bool | None:
    unknown = False
    for part in parts:
        truth = evaluate(part, properties)
        if truth is False:
            return False
        unknown |= truth is None
    return None if unknown else True


def _equal(left: Any, right: Any) -> bool | None:
    if left is None and right is not None:
        return None
    if right is None:
        return left is None
    return _compare(left, right) == 0


def _ordered(order: Order, left: Node, right: Node, properties: Mapping[str, Any]) -> bool | None:
    first = evaluate(left, properties)
    if first is None:
        return None
    second = evaluate(right, properties)
    if second is None:
        return None
    if isinstance(first, str) and isinstance(second, str):
        first, second = _double(first), _double(second)
    sign = _compare(first, second)
    # Faster than a dict: an enum is hashed in Python.
    if order is Order.LESS:
        return sign < 0
    if order is Order.LESS_EQUAL:
        return sign <= 0
    return sign > 0 if order is Order.GREATER else sign >= 0


def _search(node: tree.Search, properties: Mapping[str, Any]) -> bool:
    if not node.text:
        return False
    value = evaluate(node.value, properties)
    if not isinstance(value, str):
        return False
    if node.place is TextPlace.ANYWHERE:
        found = node.text in value
    else:
        found = value.startswith(node.text) if node.place is TextPlace.START else value.endswith(node.text)
    return found != node.negated


def _compare(left: Any, right: Any) -> int:
    """Return Java's sign of a comparison, with RocketMQ's conversions: a text takes the type of the other side.

    Raises:
        NoAnswerError: the text cannot, or a boolean is on the left of a text, which RocketMQ cannot compare.
    """
    if isinstance(left, str) and isinstance(right, str):
        return 0 if left == right else 1
    if isinstance(left, bool) or isinstance(right, bool):
        return _compare_truth(left, right)
    if isinstance(left, str):
        left = _number_beside(left, right)
    elif isinstance(right, str):
        right = _number_beside(right, left)
    if isinstance(left, float) or isinstance(right, float):
        left, right = double_key(float(left)), double_key(float(right))
    return int(left > right) - int(left < right)


def _compare_truth(left: Any, right: Any) -> int:
    if isinstance(left, bool) and isinstance(right, str):
        raise NoAnswerError(f"{left} = {right!r}: a text is not allowed on the right of a boolean")
    if isinstance(left, str):
        left = left.lower() == "true"
    if not (isinstance(left, bool) and isinstance(right, bool)):
        return -1
    return int(left) - int(right)


def _number_beside(text: str, number: Any) -> Any:
    if isinstance(number, float):
        return _double(text)
    is_long = isinstance(number, Long) or not INT_MIN <= number <= INT_MAX
    value = _whole(text, 64 if is_long else 32)
    if value is None:
        raise NoAnswerError(f"{text!r} is no {'long' if is_long else 'int'}")
    return value


def _double(text: str) -> float:
    value = _any_double(text)
    if value is None:
        raise NoAnswerError(f"{text!r} is no number")
    return value
