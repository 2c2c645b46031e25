"""pack_entries: a range's records, grouped by queue, as ConsumeQueue entries."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.queue.consume_queue import ENTRY_SIZE, Entry, decode_entry
from reput.kernels import kernels
from reput.kernels.layouts.columns import IN_INDEX, IN_QUEUE
from reput.kernels.layouts.pack import EntrySources
from reput.kernels.layouts.pack import Packed as PackedArrays
from support import golden
from support.records import LogBuilder
from support.twins import GOLDEN_DELAYS_MS, TWINS, Call, decode

if TYPE_CHECKING:
    from reput.kernels.layouts.columns import Columns

pytestmark = pytest.mark.parametrize("twin", TWINS)


class Packed(NamedTuple):
    """The result of packing: the entries of each queue in order, and what is said of each queue."""

    queues: list[list[Entry]]
    first: list[int]
    last: list[int]
    steady: list[bool]


class Row(NamedTuple):
    """A record as packing sees it."""

    position: int
    size: int
    queue: int
    queue_offset: int
    tags_code: int
    flags: int


def pack_arrays(twin: str, records: int, queues: int, *columns: np.ndarray) -> Packed:
    """Pack these columns; `entries` gets not one byte more than it needs."""
    flags = columns[-1][:records]
    entries = np.full(int(np.count_nonzero(flags & IN_QUEUE)) * ENTRY_SIZE, 0xEE, dtype=np.uint8)
    start, first, last = (np.full(queues + more, -77, dtype=np.int64) for more in (1, 0, 0))
    steady = np.full(queues, 77, dtype=np.uint8)
    sources = EntrySources(*(column[:records] for column in columns))
    count = kernels(twin).pack_entries(queues, sources, PackedArrays(entries, start, first, last, steady))
    assert count == start[queues] == len(entries) // ENTRY_SIZE
    assert start[0] == 0
    data = entries.tobytes()
    read = [decode_entry(data, at) for at in range(0, len(data), ENTRY_SIZE)]
    return Packed(
        [read[begin:end] for begin, end in pairwise(start.tolist())],
        first.tolist(),
        last.tolist(),
        steady.astype(bool).tolist(),
    )


def pack_rows(twin: str, rows: list[Row], queues: int) -> Packed:
    """Pack records given as rows."""
    dtypes = (np.int64, np.int32, np.int32, np.int64, np.int64, np.uint8)
    fields = zip(*rows, strict=True) if rows else ((),) * len(dtypes)
    columns = [np.array(values, dtype=dtype) for values, dtype in zip(fields, dtypes, strict=True)]
    return pack_arrays(twin, len(rows), queues, *columns)


def pack_columns(twin: str, columns: Columns) -> Packed:
    """Pack decoded columns."""
    return pack_arrays(
        twin,
        columns.records,
        columns.queues,
        columns.position,
        columns.size,
        columns.queue,
        columns.queue_offset,
        columns.tags_code,
        columns.flags,
    )


def naive(rows: list[Row], queues: int) -> Packed:
    """The same by lists: queue after queue, the records of each in log order."""
    members = [[row for row in rows if row.queue == queue and row.flags & IN_QUEUE] for queue in range(queues)]
    return Packed(
        [[Entry(row.position, row.size, row.tags_code) for row in queue] for queue in members],
        [queue[0].queue_offset if queue else -1 for queue in members],
        [queue[-1].queue_offset if queue else -1 for queue in members],
        [all(b.queue_offset - a.queue_offset == 1 for a, b in pairwise(queue)) for queue in members],
    )


def test_grouped_by_queue_in_log_order(twin: str) -> None:
    """Each queue's entries lie together, in log order; prepared and rolled-back messages have none."""
    log = LogBuilder(1 << 16)
    for topic, transaction in (("a", ""), ("b", ""), ("a", "prepared"), ("a", "commit"), ("c", "rollback")):
        log.message(topic, tags=topic, transaction=transaction)  # type: ignore[arg-type]
    packed = pack_columns(twin, decode(twin, bytes(log)).columns)
    place = [(placed.offset, placed.size) for placed in log.placed]

    assert packed.queues == [
        [Entry(*place[0], 97), Entry(*place[3], 97)],
        [Entry(*place[1], 98)],
        [],
    ]
    assert (packed.first, packed.last, packed.steady) == ([0, 0, -1], [1, 0, -1], [True] * 3)


@pytest.mark.parametrize(
    ("offsets", "steady"),
    [((5, 6, 7), True), ((5, 5), False), ((5, 7), False), ((5, 4), False), ((5, 0, 1), False), ((9,), True)],
)
def test_repeats_gaps_and_restarts_are_not_steady(twin: str, offsets: tuple[int, ...], steady: bool) -> None:
    """A queue is steady only where each queue offset is one more than the one before."""
    log = LogBuilder(1 << 16)
    for offset in offsets:
        log.message("orders", queue_offset=offset)
        log.message("orders", queue_offset=3, transaction="prepared")
    packed = pack_columns(twin, decode(twin, bytes(log)).columns)

    assert (packed.first, packed.last, packed.steady) == ([offsets[0]], [offsets[-1]], [steady])


def test_nothing_to_pack(twin: str) -> None:
    """No records and no queues, or queues without records, give no entries."""
    assert pack_rows(twin, [], 0) == ([], [], [], [])
    assert pack_rows(twin, [], 2) == ([[], []], [-1, -1], [-1, -1], [True, True])


rows = st.builds(
    Row,
    st.integers(0, (1 << 63) - 1),
    st.integers(91, (1 << 31) - 1),
    st.integers(0, 4),
    st.integers(0, 6) | st.integers(0, (1 << 63) - 2),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from((0, IN_INDEX, IN_QUEUE, IN_QUEUE | IN_INDEX)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(rows, max_size=30))
def test_equals_the_naive_model(twin: str, records: list[Row]) -> None:
    """Any records give what grouping them in lists gives."""
    assert pack_rows(twin, records, 5) == naive(records, 5)


@pytest.mark.golden
@pytest.mark.parametrize("store", ["basic", "crash", "double"])
def test_golden_queues(twin: str, store: str) -> None:
    """Packed file by file, the golden logs give the bytes of the ConsumeQueues that RocketMQ wrote."""
    built: dict[tuple[str, int], list[Entry]] = {}
    for start, data in golden.log_files(golden.shared(store)):
        columns = decode(twin, data, Call(start, delays_ms=GOLDEN_DELAYS_MS)).columns
        packed = pack_columns(twin, columns)
        assert all(packed.steady)
        for row, entries in enumerate(packed.queues):
            queue = built.setdefault((columns.topic(row).decode(), int(columns.queue_id[row])), [])
            assert not entries or packed.first[row] == len(queue)
            queue += entries
    peer: dict[tuple[str, int], list[Entry]] = {}
    for topic, queue_id, _, data in golden.queue_files(golden.shared(store)):
        entries = [decode_entry(data, at) for at in range(0, len(data), ENTRY_SIZE)]
        peer.setdefault((topic, queue_id), []).extend(entry for entry in entries if entry.is_valid)

    assert {queue: entries for queue, entries in built.items() if entries} == peer
