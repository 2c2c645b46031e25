"""The length of searches: a bounded number of cases in `make test`, many in `make nightly` and `make test-peer`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

import pytest

T = TypeVar("T")
IS_LONG = os.environ.get("REPUT_SEARCH") == "long"
_EACH, _STRIDE = 6, 13
takes_long = pytest.mark.skipif(
    not IS_LONG, reason="takes long: `make nightly` runs it, and `make test-peer` or `make test-spark` if it starts one"
)
"""The mark of a case that a bounded run leaves out, because it costs much and others like it are in."""


def cases(bounded: int, many: int) -> int:
    """The number of cases to try in this run."""
    return many if IS_LONG else bounded


def calls(most: int) -> Iterator[int]:
    """Yield the calls at which a search interferes: each in a long run, else the first six and one in thirteen."""
    yield from part(range(1, most))


def part(of: Iterable[T]) -> Iterator[T]:
    """Yield the items that a search looks at: each in a long run, else the first six and one in thirteen."""
    yield from (one for n, one in enumerate(of, 1) if IS_LONG or n <= _EACH or n % _STRIDE == 0)
