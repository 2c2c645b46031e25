"""The follower: decodes the log above the frontier into the tail, for readers and at open.

Each read lets it catch up to the confirmed offset first, so a message is readable when its put returns. The follower
keeps index items, too, as columns: a look-up by key searches there for messages that no IndexFile covers yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.dispatch.batch import entry_sources, queue_offsets
from reput.errors import DamagedLogError, TailFullError
from reput.formats.log.record import Verdict
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey
from reput.formats.queue.queue_types import QueueTypes
from reput.kernels import backlog_kernels, is_small_work, kind_in_use
from reput.kernels.layouts.columns import Columns
from reput.kernels.layouts.pack import EntrySources, Packed
from reput.kernels.pack import pack_entries
from reput.log.read.decode import DecodeSettings
from reput.log.read.maps import LogMaps
from reput.log.read.reader import confirmed_damage, place
from reput.log.read.scan import Keep, RangeWalk, WalkRules, WalkState
from reput.queue.kinds import TakesBatches
from reput.queue.queues import Queues

ENTRY_BYTES = 52
_PIECE_BYTES = 16 << 20
"""Each queue that has messages in a piece costs some 1 us: with thousands of them small pieces would be dear."""
_MOST_QUEUES = 1 << 22
"""Queues whose rows are kept from one piece to the next: some 70 bytes each, and the topic's name."""
_MANY_QUEUES, _FEW_ENTRIES = 256, 32
"""A piece with more queues than the first number, and fewer entries for each than the second, waits in the backlog."""


class Segment(NamedTuple):
    """Items [begin, end) of a piece will be in one IndexFile, whose times count from `begin_timestamp` (ms)."""

    begin: int
    end: int
    begin_timestamp: int


class TailItems(NamedTuple):
    """The index items of a piece of log, in log order.

    Per record: `position` and `store_timestamp` int64, `first_item` int32 (records + 1) the items before it. Per item:
    `item_hash` int32.
    """

    position: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    first_item: NDArray[np.int32]
    item_hash: NDArray[np.int32]
    segments: tuple[Segment, ...]

    def find(self, key_hash: int) -> Iterator[tuple[int, int]]:
        """Physical offset and time of the records with an item of this hash, newest first.

        Times are what the item will say in its IndexFile: whole seconds from the file's first item.
        """
        for item in np.flatnonzero(self.item_hash == key_hash)[::-1].tolist():
            record = int(np.searchsorted(self.first_item, item, side="right")) - 1
            begin = next(part.begin_timestamp for part in self.segments if part.begin <= item < part.end)
            seconds = max(0, int(self.store_timestamp[record]) - begin) // 1000
            yield int(self.position[record]), begin + seconds * 1000


class IndexPlace:
    """The place of the next index item: the number of items in its file, and the time (ms) of the first of them."""

    def __init__(self, capacity: int, count: int = 0, begin_timestamp: int = 0) -> None:
        self.capacity = capacity
        self.count = count
        self.begin_timestamp = begin_timestamp

    def take(self, first_item: NDArray[np.int32], store_timestamp: NDArray[np.int64]) -> tuple[Segment, ...]:
        """Place the items of some records; return the part for each file."""
        segments, begin, items = [], 0, int(first_item[-1])
        while begin < items:
            if self.count in (0, self.capacity):
                record = int(np.searchsorted(first_item, begin, side="right")) - 1
                self.count, self.begin_timestamp = 0, int(store_timestamp[record])
            end = min(items, begin + self.capacity - self.count)
            segments.append(Segment(begin, end, self.begin_timestamp))
            self.count += end - begin
            begin = end
        return tuple(segments)


class TailFollower:
    """Fills the tails of `queues` and `batches` from log offset `begin` on. Safe for threads.

    `offset` is how far it has come: everything below is in an index or in the tail. `lock` guards queues and tail for
    the short time that they change, and under it `changed` is called once they have. `most_entries`: how many the tails
    may hold; None where somebody else sees to that (a writer lets its puts wait). A queue in `deleted` gets no entry
    for records below its log offset.
    """

    def __init__(
        self,
        log: LogMaps,
        queues: Queues,
        batches: TakesBatches,
        types: QueueTypes,
        settings: DecodeSettings,
        begin: int,
        index_place: IndexPlace,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.log = log
        self.queues = queues
        self.batches = batches
        self.types = types
        self.settings = settings
        # The table of queues stays, so a queue is looked up by its row once and not in every piece.
        self._rules = WalkRules(settings, _PIECE_BYTES, Keep.QUEUES, further=True)
        self.offset = begin
        self.lock = threading.Lock()
        self.items: list[TailItems] = []
        self.index_place = index_place
        self.last_record = -1
        self.last_store_timestamp = -1
        self.records = 0
        self.most_entries: int | None = None
        self.deleted: Mapping[QueueKey, int] = {}
        self._changed = changed
        self._following = threading.Lock()
        self._columns = _columns()
        self._keys: dict[int, QueueKey] = {}
        self._marks: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

    def follow(self, end: int, *, durable: bool = False) -> Verdict | None:
        """Take in the log up to `end`, a boundary; return the verdict on the place where it stopped before, else None.

        `durable`: indexes cover the log up to there, so the tails are about to drop these entries.

        Raises:
            TailFullError: the tails hold as much as they may, and more is left.
        """
        if self.offset >= end:
            return None
        with self._following:
            while self.offset < end:
                if not durable:
                    self._refuse_full(end)
                verdict = self._piece(end)
                if not durable:
                    self._refuse_full(end)
                if verdict is not None:
                    return verdict
        return None

    def _refuse_full(self, end: int) -> None:
        entries = self.queues.tail.entries
        if self.most_entries is None or entries <= self.most_entries:
            return
        files = self.log.starts
        left = min(end, files[-1] + self.log.file_size if files else 0) - self.offset
        raise TailFullError(
            f"{self.log.folder}: {entries} messages up to log offset {self.offset} have no durable index yet, and up "
            f"to {left} bytes of log are left; the tail may hold {self.most_entries} (tail_max_entries), some "
            f"{self.most_entries * ENTRY_BYTES} bytes of memory. Build their indexes first: `reput follow STORE "
            "--until-caught-up`, or store.reput() in the program that writes it; or raise tail_max_entries"
        )

    def follow_confirmed(self, end: int, *, durable: bool = False) -> None:
        """Take in a log that is known to be good up to `end`.

        Raises:
            DamagedLogError: it is not.
            TailFullError: as `follow`.
        """
        verdict = self.follow(end, durable=durable)
        if verdict is not None:
            why = confirmed_damage(self.offset, verdict, end)
            raise DamagedLogError(f"{place(self.log, self.offset)}: {why}. Run `reput check`")

    def _piece(self, end: int) -> Verdict | None:
        start = self.log.file_at(self.offset)
        if start is None:
            return Verdict.ZERO
        if self._columns.queues > _MOST_QUEUES or self._columns.kind not in {"", kind_in_use()}:
            with self.lock:
                self.queues.settle_all()
            self._columns, self._keys = _columns(), {}
        limit = min(end, start + self.log.file_size)
        with self.log.for_one_pass(start, min(limit - self.offset, self._rules.step_bytes)) as data:
            walk = RangeWalk(data, start, self._rules, self.offset, limit=limit, columns=self._columns)
            walk.step()
        self._take(walk.offset)
        return walk.verdict if walk.state is WalkState.BROKEN else None

    def _take(self, offset: int) -> None:
        columns = self._columns
        records = columns.records
        if records:
            sources, _, found = entry_sources(columns, self.types, self.deleted and self._deleted_here())
            if found.inferred:
                self.types = self.types._replace(batch=self.types.batch | found.inferred)
            items = self._items_of(columns)
            rows, numbered = self._numbered(sources)
            # Only the kind of kernels that made a table of queues finds its rows again.
            may_wait = self._columns.kind == kind_in_use() and not is_small_work()
            is_scattered = may_wait and len(rows) > _MANY_QUEUES and len(sources.flags) < _FEW_ENTRIES * len(rows)
            packed = None if is_scattered else pack_entries(len(rows), numbered)
            with self.lock:
                if packed is None:
                    self.queues.wait(columns, sources)
                else:
                    self._extend(rows.tolist(), numbered, packed)
                for key, batches in found.entries.items():
                    self.batches.take(key, batches)
                if items is not None:
                    self.items.append(items)
                self.last_record = int(columns.position[records - 1])
                self.last_store_timestamp = int(columns.store_timestamp[records - 1])
                self.records += records
                self.offset = offset
                self._changed()
        else:
            with self.lock:
                self.offset = offset
                self._changed()

    def _deleted_here(self) -> Mapping[QueueKey, int]:
        """The deleted queues, until all of their messages are passed; from then on nothing is looked up."""
        if self.offset >= max(self.deleted.values()):
            self.deleted = {}
        return self.deleted

    def _numbered(self, sources: EntrySources) -> tuple[NDArray[np.int32], EntrySources]:
        """The rows of the queues that have entries here, and the sources with these queues alone, numbered from 0 on.

        The table of queues may hold many more than have entries here.
        """
        if len(self._marks) < self._columns.queues:
            self._marks = np.zeros(len(self._columns.queue_id), dtype=np.int32)
        rows, numbers = (np.empty(len(sources.flags), dtype=np.int32) for _ in range(2))
        count = backlog_kernels().number_rows(sources.queue, sources.flags, self._marks, rows, numbers)
        return rows[:count], sources._replace(queue=numbers)

    def _extend(self, rows: list[int], sources: EntrySources, packed: Packed) -> None:
        """Add the entries of few queues to their tails."""
        data, keys = packed.entries.data, self._keys
        starts, firsts, steady = packed.start.tolist(), packed.first.tolist(), packed.steady.tolist()
        for number, row in enumerate(rows):
            key = keys.get(row)
            if key is None:
                key = keys[row] = self._columns.key(row)
            begin, end = starts[number], starts[number + 1]
            self.queues.extend(
                key,
                firsts[number],
                bool(steady[number]),
                data[begin * ENTRY_SIZE : end * ENTRY_SIZE],
                partial(_offsets_of, sources, begin, end),
            )

    def _items_of(self, columns: Columns) -> TailItems | None:
        records, items = columns.records, columns.items
        if not items:
            return None
        first_item = columns.first_item[: records + 1].copy()
        store_timestamp = columns.store_timestamp[:records].copy()
        return TailItems(
            columns.position[:records].copy(),
            store_timestamp,
            first_item,
            columns.item_hash[:items].copy(),
            self.index_place.take(first_item, store_timestamp),
        )

    def trim_items(self, index_offset: int) -> None:
        """Drop the index items of records below a log offset: IndexFiles hold them now."""
        with self.lock:
            self.items = [items for items in self.items if int(items.position[-1]) >= index_offset]
            self._changed()


def _columns() -> Columns:
    return Columns.for_range(_PIECE_BYTES // 64)


def _offsets_of(sources: EntrySources, begin: int, end: int) -> list[int]:
    """The queue offsets of the entries [begin, end) as they are packed: by queue, in log order."""
    offsets: list[int] = queue_offsets(sources)[begin:end].tolist()
    return offsets
