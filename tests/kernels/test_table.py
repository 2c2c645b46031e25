"""The kernel of RocksDB's tables: both twins fill the same arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.queue.consume_queue import Entry
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE, encode_value
from reput.kernels import table_kernels
from reput.kernels.layouts.columns import IN_INDEX, IN_QUEUE
from reput.kernels.layouts.pack import EntrySources
from reput.kernels.layouts.table import (
    KEY_END,
    MOST_ENTRY_BYTES,
    MOST_RESTARTS,
    EntryPieces,
    Prefixes,
    TableBlockAt,
    TableStateAt,
)
from support.tables import Queues, queues


class Filled(NamedTuple):
    """The state after a call: its answer, the bytes so far, and all that it keeps."""

    whole: int
    out: bytes
    blocks: list[list[int]]
    restarts: list[int]
    state: list[int]


def fill(kind: str, given_queues: Queues, room: int, most_blocks: int) -> list[Filled]:
    """Call a twin until all pieces are taken in, taking the blocks away after each call."""
    prefixes, pieces = Prefixes.of(given_queues.prefixes), given_queues.pieces()
    out, restarts = np.zeros(room, dtype=np.uint8), np.zeros(MOST_RESTARTS, dtype=np.uint32)
    blocks = np.zeros((most_blocks, len(TableBlockAt)), dtype=np.int64)
    state = np.zeros(len(TableStateAt), dtype=np.int64)
    state[TableStateAt.last_row] = -1
    calls = []
    while state[TableStateAt.piece] < len(pieces.row):
        whole = table_kernels(kind).fill_blocks(prefixes, pieces, out, restarts, blocks, state)
        begin, at = int(state[TableStateAt.begin]), int(state[TableStateAt.at])
        known = int(state[TableStateAt.restarts])
        calls.append(
            Filled(whole, out[:at].tobytes(), blocks[:whole].tolist(), restarts[:known].tolist(), state.tolist())
        )
        out[: at - begin] = out[begin:at].copy()
        state[TableStateAt.begin], state[TableStateAt.at] = 0, at - begin
    return calls


@settings(max_examples=60, deadline=None)
@given(queues(), st.integers(0, 200_000), st.integers(1, 5))
def test_twins(given_queues: Queues, more: int, most_blocks: int) -> None:
    """Any queues, room for little or much: each call of both twins leaves the same."""
    longest = max(map(len, given_queues.prefixes))
    room = (32 << 10) + 2 * (MOST_ENTRY_BYTES + KEY_END + longest) + more
    reference = fill("reference", given_queues, room, most_blocks)

    assert fill("compiled", given_queues, room, most_blocks) == reference
    assert reference[-1].state[TableStateAt.entries] == given_queues.entries


@pytest.mark.parametrize("kind", ["compiled", "reference"])
def test_nothing(kind: str) -> None:
    """No pieces leave everything as it is."""
    none = np.empty(0, dtype=np.int64)
    state = np.zeros(len(TableStateAt), dtype=np.int64)
    whole = table_kernels(kind).fill_blocks(
        Prefixes.of([]),
        EntryPieces(none, none, none, none),
        np.zeros(100, dtype=np.uint8),
        np.zeros(MOST_RESTARTS, dtype=np.uint32),
        np.zeros((1, len(TableBlockAt)), dtype=np.int64),
        state,
    )

    assert whole == 0
    assert not state.any()


def test_values_have_the_size_of_the_format() -> None:
    """A restart's place fits where the kernel keeps it: a block has no more of them than it has room for."""
    assert (32 << 10) // (16 * (VALUE_SIZE + 12)) + 2 <= MOST_RESTARTS


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_values(data: st.DataObject) -> None:
    """Both twins put the same values in the same places: by queue, in log order, of the queues that are wanted."""
    count, rows = data.draw(st.integers(0, 30)), 4
    chance = np.random.default_rng(data.draw(st.integers(0, 1000)))
    queue = chance.integers(0, rows, count).astype(np.int32)
    flags = chance.choice(np.array([0, IN_QUEUE, IN_INDEX, IN_QUEUE | IN_INDEX], dtype=np.uint8), count)
    numbers = [chance.integers(-(1 << 62), 1 << 62, count) for _ in range(3)]
    size = chance.integers(-(1 << 31), 1 << 31, count).astype(np.int32)
    wanted = data.draw(st.lists(st.sampled_from(range(rows)), unique=True))
    place, total = np.full(rows, -1, dtype=np.int64), 0
    expected = b""
    for row in wanted:
        place[row] = total
        chosen = np.flatnonzero((queue == row) & ((flags & IN_QUEUE) != 0)).tolist()
        total += len(chosen)
        expected += b"".join(
            encode_value(Entry(*(int(column[n]) for column in (numbers[0], size, numbers[1]))), int(numbers[2][n]))
            for n in chosen
        )
    for kind in ("compiled", "reference"):
        out = np.zeros(total * VALUE_SIZE, dtype=np.uint8)
        sources = EntrySources(numbers[0], size, queue, np.zeros(count, np.int64), numbers[1], flags)
        table_kernels(kind).pack_values(sources, numbers[2], place.copy(), out)
        assert out.tobytes() == expected
