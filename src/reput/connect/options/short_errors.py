"""Errors as Spark shows them: what is wrong and what to do about it, without the way through this package.

Spark prints a Python source's error with its traceback, in an AnalysisException where planning fails. A `ReputError` is
written for people and needs none, so the last frame alone goes with it. (With
`spark.sql.execution.pyspark.udf.hideTraceback.enabled` Spark leaves out that one, too.) Other errors keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from reput.errors import ReputError

P = ParamSpec("P")
T = TypeVar("T")


def with_short_errors(method: Callable[P, T]) -> Callable[P, T]:
    """The method, its errors without their traceback."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except ReputError as error:
            raise error.with_traceback(None) from None

    return called


def short_errors(items: Iterator[Any]) -> Iterator[Any]:
    """The items, the errors on the way without their traceback."""
    try:
        yield from items
    except ReputError as error:
        raise error.with_traceback(None) from None
