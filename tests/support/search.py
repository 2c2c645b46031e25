"""The length of searches: a bounded number of cases in `make test`, many in `make nightly` and `make test-peer`."""

from __future__ import annotations

import os

import pytest

IS_LONG = os.environ.get("REPUT_SEARCH") == "long"
takes_long = pytest.mark.skipif(not IS_LONG, reason="takes long: `make test-peer` and `make nightly` run it")
"""The mark of a case that a bounded run leaves out, because it costs much and others like it are in."""


def cases(bounded: int, many: int) -> int:
    """The number of cases to try in this run."""
    return many if IS_LONG else bounded
