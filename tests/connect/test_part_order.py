"""The order of an export's rows: each part together, and in the order of the log."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from reput.connect.scan.arrays import ColumnNeeds, LogBuffer, Rows
from reput.connect.scan.part_order import MS_PER_DAY, in_parts

TOPICS = ["orders", "payments", "orders", "clicks", "payments"]
"""The topic of each queue: two have two."""
TIMES = st.one_of(
    st.integers(-3 * MS_PER_DAY, 3 * MS_PER_DAY), st.sampled_from([0, -1, MS_PER_DAY, 1 << 62, -(1 << 62)])
)


def rows_of(queues: list[int], times: list[int]) -> Rows:
    """Rows whose positions are their numbers."""
    count = len(queues)
    return Rows(
        LogBuffer("", np.zeros(0, dtype=np.uint8), 0), ColumnNeeds(0, None, 0), np.arange(count, dtype=np.int64),
        np.full(count, 100, dtype=np.int32), pa.array(TOPICS), np.array(queues, dtype=np.int32),
        np.zeros(count, dtype=np.int32), np.arange(count, dtype=np.int64), np.array(times, dtype=np.int64),
    )  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, len(TOPICS) - 1), TIMES), max_size=40))
def test_parts_are_together_and_in_order(rows: list[tuple[int, int]]) -> None:
    """Rows of a topic and a day are next to one another, in the order in which they were; none is lost."""
    queues, times = [queue for queue, _ in rows], [time for _, time in rows]
    sorted_rows = in_parts(rows_of(queues, times))
    numbers = sorted_rows.position.tolist()
    assert sorted(numbers) == list(range(len(rows)))
    parts = [(TOPICS[queues[number]], times[number] // MS_PER_DAY) for number in numbers]
    assert len([part for part, _ in groupby(parts)]) == len(set(parts))
    for part in set(parts):
        own = [number for number, one in zip(numbers, parts, strict=True) if one == part]
        assert own == sorted(own)
    assert sorted_rows.store_timestamp is not None
    assert sorted_rows.store_timestamp.tolist() == [times[number] for number in numbers]
