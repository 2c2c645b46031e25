"""The offset from which an opener reads the log, the log's end, and what is cut from it.

The opener begins at the first of these that is valid:

1. Our own frontier, if the log still has the record of its fingerprint: all indexes below it are complete.
2. After a clean shutdown of a broker, the end of the last record that any queue names.
3. After a crash, the start of the last file whose first record is not newer than the checkpoint, as in RocketMQ's own
   recovery. IndexFiles newer than the checkpoint are not believed then.

If the index that answers has marks of its own, they say how far it is complete.

A bad record that no crash has left is damage, never a reason to cut (`reput.store.recover.bad_end`).

Source: `CommitLog.recoverNormally`, `recoverAbnormally`, `IndexService.load`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedLogError
from reput.files import names as folder_names
from reput.formats.index.index_database import IndexMarks
from reput.formats.log.record import CHECK_BODY, CHECK_NONE, MIN_RECORD_SIZE, Verdict
from reput.formats.own import files as own
from reput.index.kinds import AnyIndex
from reput.kernels import kernels
from reput.kernels.layouts.columns import Columns
from reput.kernels.layouts.log import LogBytes
from reput.log.read.maps import LogMaps
from reput.log.read.reader import find_record, place, written_bytes
from reput.log.read.scan import RangeWalk, checking
from reput.queue.kinds import AnyKind, QueueKind
from reput.store.disk.abort import is_closed
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.frontier import Frontiers
from reput.store.disk.settings import StoreSettings
from reput.store.disk.store import StoreOnDisk
from reput.store.owner.deletion import read_deleted
from reput.store.recover.bad_end import why_damaged

_NEAR_BYTES = 64 << 10
_UNCHECKED = checking(CHECK_NONE)
_NOTHING_IS_CUT = (
    "The log was damaged after it was written, so nothing is cut. Open it read-only, look with `reput check`, restore "
    "the file from a copy, or give up what is damaged with `reput rebuild --salvage`: it lists what is lost, builds "
    "the indexes from all good records, and the store can be written again. (Where the log was replaced by another one "
    "on purpose, remove the store's folder reput/ instead)"
)


class Start(NamedTuple):
    """The offsets at which reading begins, and how they were found: `own`, `clean` or `crash`.

    `named`: after a clean end, the highest log offset without a record that the last entry of a queue names; or -1.
    """

    frontiers: Frontiers
    how: str
    named: int = -1


def find_start(store: StoreOnDisk, log: LogMaps) -> Start:
    """Return the log offsets below which the indexes on disk can be believed.

    If the settings have topics with queues of batches, and there are no such queues, the log is read from its begin,
    unless they were deleted.

    Raises:
        DamagedStoreError: The frontier file or the file of deleted queues is damaged.
    """
    return find_start_of(store, log, store.message_kinds, store.settings, store.index_read)


def find_start_of(
    store: StoreOnDisk, log: LogMaps, kinds: Sequence[QueueKind], settings: StoreSettings, index: AnyIndex
) -> Start:
    """Return the same for some kinds with an entry for each message, the settings of a job, and an index.

    A job that replaces indexes asks about those that are there, and not about its own choice. It has read the settings,
    and perhaps records that show more types of queues.

    Raises:
        DamagedStoreError: see `find_start`.
    """
    start = _find_start(store, log, kinds, settings)
    index_offset = start.frontiers.index_offset
    if index.marks is not None:
        index_offset = end_of_indexed(log, index.marks)
    elif index.damage:
        # Nothing is known about it; a search in it says so.
        index_offset = start.frontiers.queue_offset
    elif settings.index_enabled and not index.is_present:
        # Its files were deleted, perhaps after a job that made no IndexFile.
        index_offset = min(index_offset, log.min_offset)
    return start._replace(frontiers=start.frontiers._replace(index_offset=index_offset))


def _find_start(store: StoreOnDisk, log: LogMaps, kinds: Sequence[QueueKind], settings: StoreSettings) -> Start:
    layout, frontier = store.layout, store.frontier
    if frontier is not None:
        ours = Frontiers(
            _believed(log, frontier.queue_offset, frontier.queue_fingerprint),
            _believed(log, frontier.index_offset, frontier.index_fingerprint),
        )
        if ours.both >= 0:
            ours = _without_the_lost(store, log, kinds, ours, frontier)
            ends = [end_believed(log, end) for kind in kinds if (end := store.complete_to(kind)) is not None]
            return Start(ours._replace(queue_offset=min([ours.queue_offset, *ends])), "own")
    if is_closed(layout):
        start = _after_clean_end(store, log, kinds, settings.index_enabled)
    else:
        start = Start(_after_crash(store, log, kinds), "crash")
    batch = settings.types.batch
    if batch and not any(_has_or_deleted(store, kind, batch) for kind in store.kinds if kind.has_batches):
        start = start._replace(frontiers=start.frontiers._replace(queue_offset=log.min_offset))
    return start


def _has_or_deleted(store: StoreOnDisk, kind: AnyKind, topics: frozenset[bytes]) -> bool:
    """Return True if there are queues of a kind, or all these topics, whose queues it has, are deleted.

    The last topic to be deleted leaves an empty folder.
    """
    if any(True for _ in kind.queues()):
        return True
    return not folder_names.is_empty_dir(kind.folder) and topics <= {
        one.key.topic for one in read_deleted(store.layout)
    }


def _without_the_lost(
    store: StoreOnDisk, log: LogMaps, kinds: Sequence[QueueKind], ours: Frontiers, frontier: own.Frontier
) -> Frontiers:
    """Return the frontiers, with the log's begin for indexes that are missing on disk, or cannot be read.

    An empty folder of a topic means that its queues were deleted on purpose.
    """
    queues, index = ours.queue_offset, ours.index_offset
    folders = {store.layout.consume_queue, *(kind.folder for kind in store.kinds if kind.has_batches)}
    has_folders = not all(map(folder_names.is_empty_dir, folders))
    if not any(kind.is_present() for kind in kinds) and (not has_folders or store.unreadable):
        queues = min(queues, log.min_offset)
    if frontier.index_file and index > log.min_offset and not _has_items_of(store, frontier):
        index = log.min_offset
    return Frontiers(queues, index)


def _has_items_of(store: StoreOnDisk, frontier: own.Frontier) -> bool:
    """Return True if the IndexFiles are in the order of the log, and the last one of a frontier has its items.

    RocketMQ removes IndexFiles after a crash, and makes others. Into one whose header a power cut has taken it puts
    again what other files have.
    """
    headers = {file.path.name: file.header for file in store.index_files if file.header and file.header.index_count > 1}
    in_order = all(one.end_physical_offset <= after.begin_physical_offset for one, after in pairwise(headers.values()))
    last = headers.get(frontier.index_file)
    return in_order and (frontier.index_count <= 1 or (last is not None and last.index_count >= frontier.index_count))


def _believed(log: LogMaps, offset: int, fingerprint: own.Fingerprint | None) -> int:
    """Return the offset if the log still has the record of the fingerprint below it; otherwise -1.

    If a blank came after that record, and has gone, the record's end is returned.
    """
    if offset <= log.min_offset:
        return max(offset, 0)
    if fingerprint is None:
        return -1
    if fingerprint.offset < log.min_offset:
        return offset if offset <= log.end_offset else -1
    if not log.has_record(fingerprint):
        return -1
    end = fingerprint.offset + fingerprint.size
    # RocketMQ goes on before a blank that ends the log, so records may be in the blank's place now.
    return offset if end >= offset or log.examined(end, CHECK_NONE) is Verdict.BLANK else end


def _after_clean_end(store: StoreOnDisk, log: LogMaps, kinds: Sequence[QueueKind], index_enabled: bool) -> Start:
    begin = log.min_offset
    found = [_clean_end_of(store, kind, log) for kind in kinds]
    end = min((one.end for one in found), default=begin)
    has_index = any(file.header and file.header.index_count > 1 for file in store.index_files)
    frontiers = Frontiers(end, end if has_index or not index_enabled else begin)
    return Start(frontiers, "clean", max((one.named for one in found), default=-1))


def _after_crash(store: StoreOnDisk, log: LogMaps, kinds: Sequence[QueueKind]) -> Frontiers:
    checkpoint = read_checkpoint(store.layout)
    begin = log.min_offset
    trusted = checkpoint.min_timestamp
    for start in reversed(log.starts):
        data = log.array(start).data
        if log.record_end(start) >= 0 and log.store_time(start) <= trusted and len(data) > MIN_RECORD_SIZE:
            begin = start
            break
    index_begin = begin
    if not any(kind.is_present() for kind in kinds):
        begin = log.min_offset
    # A kind that reports its own end is complete up to there after any crash. Files are believed up to the checkpoint.
    reported = [end for kind in kinds if (end := store.complete_to(kind)) is not None]
    ends = [end_believed(log, end) for end in reported] + ([begin] if len(reported) < len(kinds) else [])
    begin = min(ends, default=begin)
    trusted_index = checkpoint.index_msg_timestamp
    files = [file for file in store.index_files if file.header and file.header.index_count > 1]
    for file in files:
        assert file.header is not None
        if file.header.end_timestamp > trusted_index:
            index_begin = min(index_begin, max(file.header.begin_physical_offset, log.min_offset))
            break
    return Frontiers(begin, index_begin if files else log.min_offset)


class _CleanEnd(NamedTuple):
    """The `end` of a kind's last record, and the highest log offset without a record that a last entry names."""

    end: int
    named: int


def _clean_end_of(store: StoreOnDisk, kind: QueueKind, log: LogMaps) -> _CleanEnd:
    """Return the end of the last record that any queue of a kind names, or that the kind itself reports."""
    reported = store.complete_to(kind)
    if reported is not None:
        return _CleanEnd(end_believed(log, reported), -1)
    end, named = log.min_offset, -1
    for queue in kind.queues():
        last = queue.span(log.min_offset).last
        if last is None or last.physical_offset + last.size <= end:
            continue
        if log.record_end(last.physical_offset) >= 0:
            end = last.physical_offset + last.size
        else:
            named = max(named, last.physical_offset)
    return _CleanEnd(end, named)


def end_of_indexed(log: LogMaps, marks: IndexMarks) -> int:
    """Return the log offset below which the index database has the keys of all records, by its marks.

    It is the end of the last record that was indexed; or, if the log has no record there, that of the chain before.
    """
    end = log.record_end(marks.offset, CHECK_NONE) if marks.offset >= log.min_offset else -1
    return end if end >= 0 else end_believed(log, marks.offset)


def end_believed(log: LogMaps, offset: int) -> int:
    """Return a log offset that a kind reports as a record's end; if no record ends there, the end of the chain before.

    A log that was cut, or restored from a copy, may end elsewhere.
    """
    if offset <= log.min_offset or not log.starts:
        return log.min_offset
    return _chain_to(log, offset).end


def fingerprint_before(log: LogMaps, offset: int) -> own.Fingerprint | None:
    """Return the fingerprint of the record that ends at a log offset, or before the blank that ends there; or None."""
    if offset <= log.min_offset or not log.starts:
        return None
    chain = _chain_to(log, offset)
    return log.fingerprint(chain.last, chain.size) if chain.end == offset else None


class _Chain(NamedTuple):
    """Consecutive records, by log offsets: the `last` one and its `size` (0 for none), and the chain's `end`."""

    last: int
    size: int
    end: int


def _chain_to(log: LogMaps, offset: int) -> _Chain:
    """Return the chain of records before a log offset."""
    start = log.file_at(offset - 1)
    start = log.starts[-1] if start is None else start
    data = log.array(start)
    limit = min(len(data), offset - start)
    begin = max(0, limit - _NEAR_BYTES)
    near = int(kernels().find_boundary(LogBytes.whole(data, start), begin, limit, CHECK_BODY))
    if near >= 0 and (chain := _chain_from(data, start, start + near, start + limit)).end == start + limit:
        return chain
    # The record found near may be a copy inside a body. A file's start is a true boundary.
    return _chain_from(data, start, start, start + limit)


def _chain_from(data: NDArray[np.uint8], start: int, begin: int, end: int) -> _Chain:
    """Return the chain of records from log offset `begin` of the file that starts at `start`, up to `end` at most."""
    last, last_size = begin, 0
    walk = RangeWalk(data, start, _UNCHECKED, begin, end=end, columns=Columns(0, 0, 1))
    for offset, size in walk.records():
        if offset + size > end:
            return _Chain(last, last_size, offset)
        last, last_size = offset, size
    # A blank ends the chain at the file's end only.
    return _Chain(last, last_size, walk.offset if walk.offset <= end else last + last_size)


class LogTail(NamedTuple):
    """The log's `end`, after its last good record; `written` bytes follow, up to the last byte that is not zero.

    `following`: the log offset of the first good record among these, -1 for none.
    """

    end: int
    verdict: Verdict
    written: int
    following: int = -1


def judge_tail(store: StoreOnDisk, log: LogMaps, end: int, verdict: Verdict, last_store_timestamp: int = -1) -> LogTail:
    """Judge the place where reading stopped.

    `last_store_timestamp`: that of the record before it, if it is known.

    Raises:
        DamagedLogError: No crash has left the bad bytes (see `reput.store.recover.bad_end`).
    """
    written = written_bytes(log, end)
    why = why_damaged(store, log, end, written, last_store_timestamp) if written else ""
    if why:
        raise DamagedLogError(f"{place(log, end)}: {verdict.meaning}, and {why}. {_NOTHING_IS_CUT}")
    following = find_record(log, end + 1, search_bytes=written - 1) if written else None
    return LogTail(end, verdict, written, -1 if following is None else following)
