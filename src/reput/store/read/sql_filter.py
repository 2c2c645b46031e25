"""SQL92 filters of a pull, in two steps as in RocketMQ: the bitmap at the queue, then the properties at the log.

A bitmap is trusted if it was computed while the consumer's filter was registered: the message was stored after the
filter was born, and the bitmap has as many bits as the filter's. If bits are missing from it, the message does not
match, and the log is not read. In all other cases the properties decide.

Source: `ExpressionMessageFilter.isMatchedByConsumeQueue`, `isMatchedByCommitLog`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey
from reput.formats.queue.consume_queue_ext import MAX_ADDRESS, UNIT_SIZE
from reput.kernels import expect_work
from reput.log.read.maps import LogMaps
from reput.queue.ext import ExtReader

if TYPE_CHECKING:
    from reput.dispatch.sql import CompiledFilter

MATCHES = 1
"""The tags code that marks matching entries for the kernel that chooses; other entries have 0."""
MATCHING_CODES: NDArray[np.int64] = np.array([MATCHES], dtype=np.int64)
_FEW_ENTRIES = 64
_BYTES_A_RECORD = 300


class BloomBits(NamedTuple):
    """The bits of a consumer's registered filter: `positions` out of `bits`, computed for messages after `born_ms`."""

    positions: Sequence[int]
    bits: int
    born_ms: int


class SqlFilter:
    """A SQL92 filter such as `amount > 100 AND region = 'eu'`, for pulls.

    Args:
        expression: The filter; see `reput.dispatch.sql`.
        group: The consumer group that registered it in the store's consumerFilter.json, if one did. Bitmaps that were
            computed for it then save looks at the log; they never change the result.
        most_steps: The most steps that a pull takes, those of the filter for each message; None for no bound.

    Attributes:
        steps: The steps of the filter for a message: its comparisons, those of a property with texts counted once.
        most_entries: The most messages that a pull looks at, at least one; None for no bound.

    Raises:
        ConfigError: The text is no filter; the error says where it fails, and why.
    """

    __slots__ = ("compiled", "group", "most_entries", "steps")

    def __init__(self, expression: str, group: str | None = None, most_steps: int | None = None) -> None:
        # Loaded only for a filter: loading takes longer than a small question.
        from reput.dispatch.sql import compile as compile_sql

        self.compiled: CompiledFilter = compile_sql(expression)
        self.group = group
        self.steps = self.compiled.steps
        self.most_entries = None if most_steps is None else max(1, most_steps // self.steps)

    @property
    def expression(self) -> str:
        """The filter as it was written."""
        return self.compiled.text

    @property
    def key(self) -> Hashable:
        """Filters of one key pass the same messages."""
        return self.expression

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression!r})"


def plain_entries(entries: NDArray[np.uint8], key: QueueKey, ext: ExtReader) -> NDArray[np.uint8]:
    """Return the entries with tags codes in place of addresses; an address without a unit stays as it is."""
    rows = entries.view(ENTRY.dtype)
    codes = rows["tags_code"].astype(np.int64)
    addressed = np.flatnonzero(codes <= MAX_ADDRESS)
    if not len(addressed):
        return entries
    units = ext.units(key, codes[addressed])
    plain = rows.copy()
    plain["tags_code"][addressed[units.found]] = units.tags_code[units.found]
    return _as_bytes(plain)


def _as_bytes(rows: NDArray[np.void]) -> NDArray[np.uint8]:
    data: NDArray[np.uint8] = rows.view(np.uint8)
    return data


def marked_entries(
    entries: NDArray[np.uint8],
    wanted: CompiledFilter,
    log: LogMaps,
    log_end: int,
    most: int,
    ruled_out: NDArray[np.bool_] | None = None,
) -> NDArray[np.uint8]:
    """Return the entries, with MATCHES for a tags code if the filter matches, and 0 if not.

    The entries end once `most` of them match. An entry without its record matches here, and the kernel that chooses
    passes over it. The records of entries that are `ruled_out` (bool) are not read.
    """
    pieces, matched, begin, count = [], 0, 0, max(2 * most, _FEW_ENTRIES)
    last = len(entries) // ENTRY_SIZE
    while begin < last and matched < max(most, 1):
        end = min(begin + count, last)
        rows = entries[begin * ENTRY_SIZE : end * ENTRY_SIZE]
        piece, found = _marked(rows, wanted, log, log_end, None if ruled_out is None else ruled_out[begin:end])
        pieces.append(piece)
        matched += found
        begin, count = end, 2 * count
    return np.concatenate(pieces) if pieces else entries


def _marked(
    entries: NDArray[np.uint8],
    wanted: CompiledFilter,
    log: LogMaps,
    log_end: int,
    ruled_out: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.uint8], int]:
    """Return the marked entries, and the number of records that match."""
    rows = entries.view(ENTRY.dtype).copy()
    begin, size = rows["physical_offset"].astype(np.int64), rows["size"].astype(np.int64)
    there = log.holds(begin, size, log_end)
    codes = np.full(len(rows), MATCHES, dtype=np.int64)
    if ruled_out is not None:
        codes[ruled_out] = 0
        there &= ~ruled_out
    matched = matching_records(begin, there, wanted, log)
    codes[there & ~matched] = 0
    rows["tags_code"] = codes
    return _as_bytes(rows), int(np.count_nonzero(matched))


def matching_records(
    begin: NDArray[np.int64], there: NDArray[np.bool_], wanted: CompiledFilter, log: LogMaps
) -> NDArray[np.bool_]:
    """Return which records match, of those at these log offsets that are `there`."""
    from reput.dispatch.sql.columns import RecordProperties

    # To evaluate a filter takes about as long as to decode a record.
    expect_work(len(begin) * _BYTES_A_RECORD)
    chosen, matched = np.flatnonzero(there), np.zeros(len(begin), dtype=np.bool_)
    for array, rows, start in log.by_file(begin[chosen], strict=True):
        mine = chosen[rows]
        matched[mine] = wanted.select(RecordProperties(array, begin[mine] - start))
    return matched


def ruled_out_by_bitmap(
    entries: NDArray[np.uint8], key: QueueKey, ext: ExtReader, bloom: BloomBits
) -> NDArray[np.bool_]:
    """Return which entries do not match, by a bitmap that can be trusted."""
    codes = entries.view(ENTRY.dtype)["tags_code"].astype(np.int64)
    size = bloom.bits // 8
    units = ext.units(key, codes)
    trusted = units.found & (units.store_timestamp > bloom.born_ms) & (units.size == UNIT_SIZE + size)
    rows = np.flatnonzero(trusted)
    ruled_out = np.zeros(len(codes), dtype=np.bool_)
    if len(rows) and bloom.bits % 8 == 0:
        bitmaps = ext.bitmaps(key, codes[rows], size)
        hit = np.ones(len(rows), dtype=np.bool_)
        for position in bloom.positions:
            hit &= (bitmaps[:, position // 8] >> np.uint8(position % 8) & 1).astype(np.bool_)
        ruled_out[rows] = ~hit
    return ruled_out
