"""The length of random searches: a bounded number of cases in `make test`, many in `make nightly`."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("REPUT_SEARCH") == "long"


def cases(bounded: int, many: int) -> int:
    """The number of cases to try in this run."""
    return many if IS_LONG else bounded
