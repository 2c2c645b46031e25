"""Snapshot of a store: its first message, the end of its log, and the offsets below which its indexes are complete.

Beside a live broker the log is whole up to the records that its queues name, beside a reput writer up to the confirmed
offset. Without a writer it ends where the chain of records ends. Above the frontier no queue is believed: the log
itself is walked there, in pieces, so memory does not grow with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from reput.config import StoreConfig
from reput.connect.cut.disk_queues import IndexedQueues
from reput.errors import DamagedLogError
from reput.formats.layout import NO_LIMIT
from reput.formats.log.record import Verdict
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.kernels import small_work
from reput.kernels.layouts.columns import IN_QUEUE, Columns
from reput.log.read.files import LogFiles
from reput.log.read.maps import LogMaps
from reput.log.read.reader import confirmed_damage, place, record_at, written_bytes
from reput.log.read.scan import Gap, LogWalk, WalkRules
from reput.queue.kinds import AnyKind
from reput.store.disk.frontier import Frontiers, marks_of
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.settings import StoreSettings
from reput.store.disk.store import StoreOnDisk
from reput.store.open.beside import BrokerWriter
from reput.store.owner.holders import Writer, writer_of
from reput.store.recover.lost_end import lost_end
from reput.store.recover.recovery import LogTail, find_start, judge_tail

CUT_BYTES = 8 << 20
"""Distance of the boundaries that a walk notes, at least."""


@dataclass
class Snapshot:
    """A store as it is read; offsets are log offsets.

    Records lie in [begin, end). Queues are complete below `frontiers.queue_offset`, the index below
    `frontiers.index_offset`. `boundaries`: places above the queues' frontier where a record begins, in order;
    `tails`: the queue offsets that have records there; `stored_ms`: the store time of each queue's last one.
    `swaps`: the store's count of swaps when it was listed. `named`: see `Start`.
    `bad_end`: bytes that are written after `end`, though there no record follows. `lost_end`: the damage of a log that
    has lost its end; or "".
    """

    store: StoreOnDisk
    frontiers: Frontiers
    begin: int
    end: int
    writer: Writer
    swaps: int
    named: int
    boundaries: list[int] = field(default_factory=list)
    tails: dict[QueueKey, OffsetRange] = field(default_factory=dict)
    stored_ms: dict[QueueKey, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bad_end: Gap | None = None
    lost_end: str = ""

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
    def kinds(self) -> list[AnyKind]:
        """The kinds of queues; the first one answers reads, and a kind with batches those of its topics."""
        return self.store.kinds

    @property
    def queues(self) -> IndexedQueues:
        """The queues as far as they can be believed."""
        return IndexedQueues(
            tuple(self.store.kinds_read), str(self.layout.commit_log), self.log.file_size, self.begin,
            self.frontiers.queue_offset, self.layout, self.swaps,
        )  # fmt: skip


def take_snapshot(root: str, config: StoreConfig, *, tolerant: bool = False) -> Snapshot:
    """List a store and walk its log above the queues' frontier; nothing is changed.

    Args and errors are those of `open_snapshot` and `walk_log`.
    """
    snapshot = open_snapshot(root, config, tolerant=tolerant)
    walk_log(snapshot, tolerant=tolerant)
    return snapshot


def open_snapshot(root: str, config: StoreConfig, *, tolerant: bool = False) -> Snapshot:
    """List a store; nothing is changed, and `walk_log` walks the log above the queues' frontier.

    Args:
        root: the store's folder.
        config: settings that its files do not show.
        tolerant: files may be missing from the middle of the log.

    Raises:
        NotAStoreError: there is no store.
        DamagedStoreError: a log file is missing or has an odd length.
        ReputError: see `reput.errors`.
    """
    # Before the files are listed. Where the log is does not matter here.
    swaps = marks_of(StoreLayout(Path(root).absolute(), Path(root)))["swaps"]
    store = StoreOnDisk.find(root, config, Purpose.SCAN, tolerant=tolerant)
    # Before the log is listed, because a writer continues.
    writer = writer_of(store.layout)
    with store.maps() as maps:
        start = find_start(store, maps)
    begin = store.log.min_offset
    # A frontier file says nothing if the indexes that it describes were deleted.
    has_queues = any(kind.is_present() for kind in store.kinds)
    queue_offset = max(start.frontiers.queue_offset, begin) if has_queues else begin
    index_offset = max(start.frontiers.index_offset, begin) if store.index_read.is_present else begin
    notes = [*store.log.notes, *store.wrong_type_texts]
    frontiers = Frontiers(queue_offset, index_offset)
    return Snapshot(store, frontiers, begin, begin, writer, swaps, start.named, notes=notes)


def walk_log(snapshot: Snapshot, *, tolerant: bool = False) -> None:
    """Walk the log from the queues' frontier to its whole end, and note boundaries and queues.

    Raises:
        DamagedLogError: the log breaks below its writer's confirmed offset.
        DamagedStoreError: a crash does not leave such an end.
    """
    log = snapshot.log
    queue_offset, index_offset = snapshot.frontiers
    maps = snapshot.store.maps()
    confirmed = confirmed_by(snapshot.writer, snapshot.store, maps)
    if confirmed is not None:
        # A writer may have begun a file since the log's files were listed.
        confirmed = min(confirmed, log.end_offset)
    rules = WalkRules(snapshot.settings.decoding(tag_items=False), further=True)
    walk = LogWalk(log, queue_offset, rules, confirmed, tolerant=tolerant)
    notes = _TailNotes(snapshot)
    with small_work():
        for piece in walk.pieces():
            notes.add(piece.columns)
    if not tolerant and (why := confirmed_damage(walk.offset, walk.verdict, confirmed)):
        raise DamagedLogError(f"{place(log, walk.offset)}: {why}. Look with `reput check`")
    end = after = walk.records_end
    if confirmed is not None:
        after = confirmed
    else:
        if tolerant:
            tail = LogTail(end, walk.verdict, written_bytes(log, end))
        else:
            tail = judge_tail(snapshot.store, maps, walk.offset, walk.verdict)
        end, after = tail.end, tail.end + tail.written
        snapshot.lost_end = lost_end(snapshot.store, tail, snapshot.named)
    snapshot.end = end
    snapshot.bad_end = _bad_end(log, end, after)
    snapshot.frontiers = Frontiers(min(queue_offset, end), min(index_offset, end))
    maps.close()


def _bad_end(log: LogFiles, end: int, after: int) -> Gap | None:
    """Return the bytes that are written from the last record's end on; None for none."""
    found = record_at(log, end) if after > end else None
    return Gap(end, after, found) if isinstance(found, Verdict) else None


def confirmed_by(writer: Writer, store: StoreOnDisk, maps: LogMaps) -> int | None:
    """Return the log offset up to which the process that writes lets readers look; None if nobody writes."""
    if writer is Writer.REPUT:
        return marks_of(store.layout)["confirmed_offset"]
    if writer is Writer.BROKER:
        return BrokerWriter(store.kinds, maps).confirmed()
    return None


class _TailNotes:
    """Notes boundaries of the log above the queues' frontier, and the queues that have records there."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def _note_boundary(self, offset: int) -> None:
        noted = self.snapshot.boundaries
        if not noted or offset >= noted[-1] + CUT_BYTES:
            noted.append(offset)

    def _note_queue(self, key: QueueKey, first: int, last: int, stored_ms: int) -> None:
        known = self.snapshot.tails.get(key, OffsetRange(NO_LIMIT, 0))
        self.snapshot.tails[key] = OffsetRange(min(known.min_offset, first), max(known.max_offset, last + 1))
        self.snapshot.stored_ms[key] = stored_ms

    def add(self, columns: Columns) -> None:
        """Note the records of a piece of the log."""
        count = columns.records
        if not count:
            return
        self._note_boundary(int(columns.position[0]))
        in_queue = np.flatnonzero(columns.flags[:count] & IN_QUEUE)
        rows, offsets = columns.queue[:count][in_queue], columns.queue_offset[:count][in_queue]
        # Store times grow with the log, so the last assignment is the newest.
        first, last, stored = (np.full(columns.queues, fill, dtype=np.int64) for fill in (NO_LIMIT, -1, -1))
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
            self._note_queue(columns.key(row), int(first[row]), int(last[row]), int(stored[row]))
