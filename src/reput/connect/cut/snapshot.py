"""What of a store is read: from its first message to where its log is whole now, and how far its indexes go.

Beside a live broker the log is whole up to what its queues refer to, beside a reput writer up to what that has
confirmed; without a writer it ends where the chain of records ends. Behind the frontier no queue is believed: the log
itself is walked there, in pieces, so memory does not grow with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.config import StoreConfig
from reput.connect.cut.disk_queues import IndexedQueues
from reput.errors import DamagedLogError
from reput.files import fs
from reput.formats.consume_queue import QueueKey
from reput.formats.record import TRANSACTION_COMMIT, TRANSACTION_MASK, Verdict, decode_record, examine
from reput.kernels.columns import IN_QUEUE, Columns, State, Stop
from reput.log.decode import RangeDecoder
from reput.log.files import LogFile, LogFiles
from reput.log.maps import LogMaps
from reput.log.reader import place, record_at, written_bytes
from reput.queue.batch_files import BatchFiles
from reput.queue.kinds import QueueKind
from reput.store.disk.frontier import Frontiers
from reput.store.disk.layout import StoreLayout
from reput.store.disk.settings import StoreSettings
from reput.store.disk.store import Purpose, StoreOnDisk
from reput.store.open.beside import BrokerWriter, ReputWriter, Writer, writer_of
from reput.store.recover.recovery import find_start, judge_tail

_PIECE_BYTES = 4 << 20
_PLAIN_RECORDS = 1000
_MOST_QUEUES = 1 << 16
_NO_OFFSET = (1 << 62) - 1
_INNER = b"INNER_"
CUT_BYTES = 8 << 20
"""How far apart the boundaries are that a walk notes."""


class TailSpan(NamedTuple):
    """What stands of a queue behind the frontier: queue offsets [begin, end), and its last store time (ms)."""

    begin: int
    end: int
    last_stored_ms: int


class BadEnd(NamedTuple):
    """Bytes behind the last record that are none, log offsets [begin, end), and what they are: damaged, or torn."""

    begin: int
    end: int
    why: str


@dataclass
class Snapshot:
    """A store as it is read; offsets are log offsets.

    Records lie in [begin, end). Queues are complete below `frontiers.queue_offset`, IndexFiles below
    `frontiers.index_offset`. `boundaries`: places behind the queues' frontier where a record begins, in order;
    `tails`: the queues that have records there. `bad_end`: what is written behind `end`.
    """

    store: StoreOnDisk
    frontiers: Frontiers
    begin: int
    end: int
    writer: Writer
    boundaries: list[int] = field(default_factory=list)
    tails: dict[QueueKey, TailSpan] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bad_end: BadEnd | None = None

    @property
    def layout(self) -> StoreLayout:
        """The store's paths."""
        return self.store.layout

    @property
    def settings(self) -> StoreSettings:
        """The store's settings."""
        return self.store.settings

    @property
    def log(self) -> LogFiles:
        """The files of the log."""
        return self.store.log

    @property
    def kinds(self) -> list[QueueKind]:
        """The kinds of plain queues; the first one answers reads."""
        return self.store.kinds

    @property
    def batches(self) -> BatchFiles:
        """The queues of batches."""
        return self.store.batches

    @property
    def queues(self) -> IndexedQueues:
        """The queues as far as they can be believed."""
        return IndexedQueues(
            self.kinds[0], self.batches, str(self.layout.commit_log), self.log.file_size, self.begin,
            self.frontiers.queue_offset,
        )  # fmt: skip


def take_snapshot(root: str, config: StoreConfig, *, tolerant: bool = False) -> Snapshot:
    """Look at a store and walk the log behind the queues' frontier, changing nothing.

    Args and errors are those of `open_snapshot` and `walk_log`.
    """
    snapshot = open_snapshot(root, config, tolerant=tolerant)
    walk_log(snapshot, tolerant=tolerant)
    return snapshot


def open_snapshot(root: str, config: StoreConfig, *, tolerant: bool = False) -> Snapshot:
    """Look at a store's files, changing nothing: the log behind the queues' frontier is left to `walk_log`.

    Args:
        root: the store's folder.
        config: what its files do not tell.
        tolerant: files may be missing from the middle of the log.

    Raises:
        NotAStoreError: there is none.
        DamagedStoreError: a log file is missing or has an odd length.
        ReputError: see `reput.errors`.
    """
    store = StoreOnDisk.find(root, config, Purpose.SCAN, tolerant=tolerant)
    # Before the log is listed: a writer goes on.
    writer = writer_of(store.layout)
    maps = LogMaps(store.layout.commit_log, store.log.file_size)
    start = find_start(store.layout, maps, store.kinds, store.settings.index_enabled, store.settings.types)
    maps.close()
    begin = store.log.min_offset
    # A frontier that was left behind says nothing where somebody has deleted what it speaks of.
    queue_offset = max(start.frontiers.queue_offset, begin) if store.kinds[0].is_present() else begin
    index_offset = max(start.frontiers.index_offset, begin) if store.index_files else begin
    return Snapshot(store, Frontiers(queue_offset, index_offset), begin, begin, writer, notes=[*store.log.notes])


def walk_log(snapshot: Snapshot, *, tolerant: bool = False) -> None:
    """Walk the log from the queues' frontier to where it is whole now, and note what is there.

    Raises:
        DamagedLogError: the log breaks in front of what its writer calls whole.
        DamagedStoreError: its end is not what a crash leaves.
    """
    layout, log = snapshot.layout, snapshot.log
    queue_offset, index_offset = snapshot.frontiers
    maps = LogMaps(layout.commit_log, log.file_size)
    confirmed = confirmed_by(snapshot.writer, snapshot.store, maps)
    if confirmed is not None:
        # A writer may have begun a file since the log's files were listed.
        confirmed = min(confirmed, log.end_offset)
    walk = _TailWalk(snapshot, queue_offset, confirmed, tolerant)
    walk.run()
    end = behind = walk.end
    if confirmed is not None:
        behind = confirmed
    elif tolerant:
        behind += written_bytes(log, end)
    else:
        tail = judge_tail(layout, maps, walk.offset, walk.verdict)
        end, behind = tail.end, tail.end + tail.written
    snapshot.end = end
    snapshot.bad_end = _bad_end(log, end, behind)
    snapshot.frontiers = Frontiers(min(queue_offset, end), min(index_offset, end))
    maps.close()


def _bad_end(log: LogFiles, end: int, behind: int) -> BadEnd | None:
    """What is written from the last record's end on; None for nothing."""
    found = record_at(log, end) if behind > end else None
    return BadEnd(end, behind, found.meaning) if isinstance(found, Verdict) else None


def confirmed_by(writer: Writer, store: StoreOnDisk, maps: LogMaps) -> int | None:
    """Return the log offset up to which the process that writes lets readers look; None if nobody writes."""
    if writer is Writer.REPUT:
        return ReputWriter(store.layout).confirmed()
    if writer is Writer.BROKER:
        return BrokerWriter(store.kinds, store.batches, maps).confirmed()
    return None


class _TailWalk:
    """Goes from record to record behind the frontier, to where the log is whole, and notes boundaries on the way.

    `end` is where the last record ended. A tolerant walk goes on behind bytes that are no record.
    """

    def __init__(self, snapshot: Snapshot, begin: int, confirmed: int | None, tolerant: bool) -> None:
        self.snapshot = snapshot
        self.offset = self.end = begin
        self.confirmed = confirmed
        self.tolerant = tolerant
        self.verdict = Verdict.ZERO
        settings = snapshot.settings
        self._decode = settings.decoding(tag_items=False)
        self._columns: Columns | None = None
        self._plain_left = _PLAIN_RECORDS

    def run(self) -> None:
        """Walk to the end.

        Raises:
            DamagedLogError: the log breaks in front of what its writer calls whole.
        """
        for file in self.snapshot.log.files:
            if file.end <= self.offset:
                continue
            if self._is_done() or (file.start > self.offset and not self.tolerant):
                break
            self.offset = max(self.offset, file.start)
            if not self._walk_file(file):
                break
        if self.confirmed is not None and self.offset < self.confirmed and not self.tolerant:
            raise DamagedLogError(
                f"{place(self.snapshot.log, self.offset)}: {self.verdict.meaning}, though the log is told to go on to "
                f"{self.confirmed}. Look with `reput check`"
            )

    def _is_done(self) -> bool:
        return self.confirmed is not None and self.offset >= self.confirmed

    def _walk_file(self, file: LogFile) -> bool:
        """Walk through one file; whether the next one may go on."""
        limit = file.end if self.confirmed is None else min(file.end, self.confirmed)
        with fs.mapped(file.path, self.offset - file.start, file.end - self.offset) as buffer:
            base = self.offset
            if not self._walk_plainly(buffer, base, limit):
                return False
            if self.offset >= limit:
                return True
            if self._columns is None:
                self._columns = Columns.for_range(_PIECE_BYTES)
            decoder = RangeDecoder(buffer, base, self._decode, self._columns)
            columns = self._columns
            while self.offset < limit:
                if columns.queues > _MOST_QUEUES:
                    columns.clear()
                columns.state[State.RECORDS] = columns.state[State.ITEMS] = columns.state[State.FURTHER] = 0
                stop = decoder.decode(self.offset - base, min(limit, self.offset + _PIECE_BYTES) - base)
                decoder.read_further()
                self._note(columns)
                self.offset = base + int(columns.state[State.POSITION])
                if columns.records or stop is not Stop.NOT_A_RECORD:
                    self.end = self.offset
                if stop is Stop.NOT_A_RECORD:
                    self.verdict = Verdict(int(columns.state[State.VERDICT]))
                    if not self.tolerant:
                        return False
                    found = decoder.boundary(self.offset + 1 - base, min(limit, file.data_end) - base)
                    self.offset = base + found if found >= 0 else file.end
                if stop is Stop.FILE_END:
                    break
        return True

    def _walk_plainly(self, buffer: NDArray[np.uint8], base: int, limit: int) -> bool:
        """Walk over the first few records without the kernels: to load them takes longer. False where the log ends."""
        while self.offset < limit and self._plain_left:
            position = self.offset - base
            verdict, size = examine(buffer.data, position, len(buffer), self.offset, self._decode.crc_check)
            if verdict not in (Verdict.GOOD, Verdict.BLANK):
                self.verdict = verdict
                return self.tolerant
            if verdict is Verdict.GOOD:
                record = decode_record(buffer.data, position)
                if _INNER in record.properties:
                    # It takes more than one number: the kernels know how.
                    self._plain_left = 0
                    break
                self._plain_left -= 1
                self._note_boundary(self.offset)
                if record.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT):
                    key = QueueKey(record.topic, record.queue_id)
                    self._note_queue(key, record.queue_offset, record.queue_offset, record.store_timestamp)
            self.offset = self.end = self.offset + size
        return True

    def _note_boundary(self, offset: int) -> None:
        noted = self.snapshot.boundaries
        if not noted or offset >= noted[-1] + CUT_BYTES:
            noted.append(offset)

    def _note_queue(self, key: QueueKey, first: int, last: int, stored_ms: int) -> None:
        known = self.snapshot.tails.get(key, TailSpan(_NO_OFFSET, 0, -1))
        self.snapshot.tails[key] = TailSpan(min(known.begin, first), max(known.end, last + 1), stored_ms)

    def _note(self, columns: Columns) -> None:
        count = columns.records
        if not count:
            return
        self._note_boundary(int(columns.position[0]))
        in_queue = np.flatnonzero(columns.flags[:count] & IN_QUEUE)
        rows, offsets = columns.queue[:count][in_queue], columns.queue_offset[:count][in_queue]
        # Store times grow with the log, so the last one that is assigned stays.
        first, last, stored = (np.full(columns.queues, fill, dtype=np.int64) for fill in (_NO_OFFSET, -1, -1))
        np.minimum.at(first, rows, offsets)
        np.maximum.at(last, rows, offsets)
        stored[rows] = columns.store_timestamp[:count][in_queue]
        if len(columns.batch_record):
            whole = np.maximum(columns.batch_messages.astype(np.int64), 1) - 1
            batch = columns.batch_record
            np.maximum.at(last, columns.queue[batch], columns.queue_offset[batch] + whole)
        if len(columns.further_record):
            rows, offsets = columns.further_queue, columns.further_offset
            np.minimum.at(first, rows, offsets)
            np.maximum.at(last, rows, offsets)
            stored[rows] = columns.store_timestamp[columns.further_record]
        for row in np.flatnonzero(last >= 0).tolist():
            key = QueueKey(columns.topic(row), int(columns.queue_id[row]))
            self._note_queue(key, int(first[row]), int(last[row]), int(stored[row]))
