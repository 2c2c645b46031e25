"""The question of many filters about the few messages that have just come: each message is read once for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reput.log.read.maps import LogMaps
from reput.store.read.sql_filter import SqlFilter
from reput.store.read.tag_filter import TagFilter

FEW = 8
"""The most entries for which Python is faster than arrays, with a filter of a few steps."""


def few_have_matches(rows: NDArray[np.void], wanted: Sequence[TagFilter | SqlFilter], log: LogMaps) -> list[bool]:
    """Return for each filter whether one of these entries, all of which have records, passes it."""
    hashes = set(rows["tags_code"].astype(np.int64).astype(np.int32).tolist())
    by_sql = [one for one in wanted if isinstance(one, SqlFilter)]
    names = dict.fromkeys(name for one in by_sql for name in one.compiled.names)
    messages = _properties(rows, tuple(names), log) if by_sql else []
    return [
        any(map(one.compiled.matches, messages))
        if isinstance(one, SqlFilter)
        else bool(hashes) and not (one.hashes and one.hashes.isdisjoint(hashes))
        for one in wanted
    ]


def _properties(rows: NDArray[np.void], names: Sequence[str], log: LogMaps) -> list[Mapping[str, str]]:
    from reput.dispatch.sql.columns import RecordProperties, property_rows

    places = rows["physical_offset"].astype(np.int64)
    found: list[Mapping[str, str]] = []
    for array, numbers, start in log.by_file(places, strict=True):
        found += property_rows(RecordProperties(array, places[numbers] - start), names)
    return found
