"""Filters that Spark pushes down, as bounds on what is read.

Spark evaluates every filter as well. Here filters only narrow what is read, so a bound may be too wide and never too
narrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeGuard

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from reput.arguments import ms_down, ms_up, us_of
from reput.connect.options.selection import NumberRange, Selection
from reput.formats.layout import INT64_MAX
from reput.formats.log.properties import keys_of
from reput.formats.stored_text import shown_text

_TOPIC, _QUEUE_ID = ("topic",), ("queueid", "partition")
_QUEUE_OFFSET, _STORED = ("queueoffset", "offset"), ("storetimestamp", "timestamp")
_POSITION, _KEYS, _UNIQUE = ("physicaloffset",), ("keys", "key"), ("uniqkey",)


def narrowed(selection: Selection, filters: Iterable[Filter]) -> Selection:
    """Return the selection, cut to what all of the filters leave."""
    for one in filters:
        column = _column(one)
        if column in _QUEUE_OFFSET:
            span = _numbers(one, selection.queue_offset)
            selection = replace(selection, queue_offset=span)
        elif column in _POSITION:
            selection = replace(selection, position=_numbers(one, selection.position))
        elif column in _STORED:
            selection = replace(selection, stored_ms=_times(one, selection.stored_ms))
        elif column in (*_TOPIC, *_QUEUE_ID, *_KEYS, *_UNIQUE):
            selection = _one_of(selection, column, _values(one))
    return selection


def _column(one: Filter) -> str:
    path: list[str] = list(getattr(one, "attribute", ()))
    return path[0].lower() if len(path) == 1 else ""


def _values(one: Filter) -> list[Any] | None:
    """Return the values of which the column must have one; None if the filter does not say that."""
    if isinstance(one, EqualTo | EqualNullSafe):
        return [one.value]
    return list(one.value) if isinstance(one, In) else None


def _one_of(selection: Selection, column: str, values: list[Any] | None) -> Selection:
    if values is None or None in values:
        return selection
    if column in _TOPIC:
        names = frozenset(map(str, values))
        known = selection.topic_names
        return replace(selection, topic_names=names if known is None else names & known)
    if column in _QUEUE_ID:
        ids = frozenset(map(int, values))
        known_ids = selection.queue_ids
        return replace(selection, queue_ids=ids if known_ids is None else ids & known_ids)
    texts = [shown_text(bytes(value)) if isinstance(value, bytes | bytearray) else str(value) for value in values]
    # A message with KEYS "a b" is found by either key. No other blank separates keys.
    hints = [next(iter(keys_of(text)), "") for text in texts] if column in _KEYS else texts
    if not all(hints) or any("\ufffd" in hint for hint in hints) or selection.searched_keys:
        return selection
    return replace(selection, key_hints=tuple(hints))


def _numbers(one: Filter, span: NumberRange) -> NumberRange:
    value = getattr(one, "value", None)
    if isinstance(one, EqualTo | EqualNullSafe) and isinstance(value, int):
        return span.cut(value, value + 1)
    if isinstance(one, In) and value and all(isinstance(each, int) for each in value):
        return span.cut(min(value), max(value) + 1)
    return _ranged(one, span, value, value) if isinstance(value, int) else span


def _times(one: Filter, span: NumberRange) -> NumberRange:
    value = getattr(one, "value", None)
    if isinstance(one, In) and value and all(map(_is_instant, value)):
        return span.cut(ms_up(us_of(min(value))), ms_down(us_of(max(value))) + 1)
    if not _is_instant(value):
        return span
    low, high = ms_down(us_of(value)), ms_up(us_of(value))
    if isinstance(one, EqualTo | EqualNullSafe):
        return span.cut(high, low + 1)
    return _ranged(one, span, low, high)


def _ranged(one: Filter, span: NumberRange, low: int, high: int) -> NumberRange:
    """Cut to what is above or below a value that lies between two whole numbers, or equals both."""
    if isinstance(one, GreaterThan):
        return span.cut(low + 1)
    if isinstance(one, GreaterThanOrEqual):
        return span.cut(high)
    if isinstance(one, LessThan):
        return span.cut(0, high)
    if isinstance(one, LessThanOrEqual):
        return span.cut(0, min(INT64_MAX, low + 1))
    return span


def _is_instant(value: Any) -> TypeGuard[datetime]:
    return isinstance(value, datetime) and value.tzinfo is not None
