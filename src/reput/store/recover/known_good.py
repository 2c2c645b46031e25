"""The part of a log that is known to have been good once: bad bytes in it are damage, and not left by a crash.

It is known by an offset and by a time. All below the offset was good: it is the highest of the durable frontier, the
flushed offset of a reput writer, and the checkpoint's last record. The time is the checkpoint's store time of the last
flushed record. If no record before a bad place is that new, the flushed record was at that place or after it.

Source: `StoreCheckpoint`, `CommitLog.recoverAbnormally`.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.files import fs
from reput.formats import paths
from reput.formats.log.record import CHECK_NONE, MAGIC_AT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, Verdict
from reput.formats.own import files as own
from reput.log.read.maps import LogMaps
from reput.log.read.reader import find_record
from reput.log.read.scan import LogWalk, checking
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.frontier import marks_of, read_frontier
from reput.store.disk.layout import StoreLayout

_FILES_LOOKED_AT = 2
"""Number of files to read: a checkpoint is seconds old, so a record of its time is near the log's end."""
_PLAIN = checking(CHECK_NONE)
_SECTOR = 512
"""Bytes of the smallest sector: a disk keeps each sector as it was after one of the writes."""


class KnownGood(NamedTuple):
    """All below log offset `offset` was good, by the file `source`; so was a record stored at `time` (ms)."""

    offset: int
    source: str
    time: int


def known_good(layout: StoreLayout) -> KnownGood:
    """Return what reput's own files and the checkpoint say.

    Raises:
        DamagedStoreError: The frontier file is damaged.
    """
    return known_good_beside(layout, read_frontier(layout))


def known_good_beside(layout: StoreLayout, frontier: own.Frontier | None) -> KnownGood:
    """Return the same for a store whose frontier file was read."""
    checkpoint = read_checkpoint(layout)
    offsets = [(marks_of(layout)["flushed_offset"], str(layout.own(own.WATERMARKS_NAME)))]
    if frontier is not None:
        offsets += [
            (offset, str(layout.own(own.FRONTIER_NAME))) for offset in (frontier.queue_offset, frontier.index_offset)
        ]
    # Both offsets of the checkpoint are the start of a record, which was good. A replicated broker gives a record's end
    # as the confirmed one.
    started = checkpoint.logics_physical_offset
    offsets += [(offset, str(layout.checkpoint)) for offset in (checkpoint.confirm_phy_offset, started + (started > 0))]
    return KnownGood(*max(offsets), checkpoint.physic_msg_timestamp)


def never_durable(layout: StoreLayout) -> bool:
    """Return True if the log has a file, so its disk is mounted, and nothing calls any record durable.

    A power cut may then have taken every record, and left entries of queues and IndexFiles for them.

    Raises:
        DamagedStoreError: The frontier file is damaged.
    """
    has_file = any(paths.parse_offset_name(entry.name) is not None for entry in fs.list_dir(layout.commit_log))
    known = known_good(layout)
    return has_file and known.offset <= 0 and known.time <= 0


def why_known_good(layout: StoreLayout, log: LogMaps, end: int, written: int, last_store_timestamp: int = -1) -> str:
    """Return the reason why the `written` bytes at log offset `end`, which are no record, were good once; or "".

    `last_store_timestamp`: that of the record before them, if it is known.
    """
    known = known_good(layout)
    if end < known.offset:
        return f"{known.source} calls the log durable up to {known.offset}"
    is_begin = log.file_at(end) == end and log.examined(end, CHECK_NONE) is Verdict.BAD_MAGIC
    if is_begin and not _is_torn_begin(log.array(end)[:_SECTOR].tobytes()):
        return "no log file begins like this"
    following = find_record(log, end + 1, search_bytes=written - 1)
    time = -1 if following is None else log.store_time(following)
    # Of several records with this time, the later ones may have been stored after the checkpoint's flush. After a clock
    # that has gone back, a later record has an older time than the flushed one, so it proves nothing.
    if 0 <= time < known.time and newest_before(log, end) <= time:
        return (
            f"at log offset {following} follows a record that the checkpoint calls durable (stored {time}, checkpoint "
            f"{known.time})"
        )
    # A store without a checkpoint has a time of 0. The last record's own time is mostly enough.
    if known.time > max(last_store_timestamp, 0) and (newest := newest_before(log, end)) < known.time:
        return (
            f"the checkpoint calls a record durable that is not before this place (stored {known.time}, the newest "
            f"before it {newest})"
        )
    return ""


def _is_torn_begin(sector: bytes) -> bool:
    """Return True if a crash leaves this first sector of a file: a size, a part of a magic number, and zeros.

    Sectors after it may be whole: a disk writes them in any order.
    """
    torn = sector[MAGIC_AT:].rstrip(b"\0")
    return any(magic.to_bytes(4, "big", signed=True).startswith(torn) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))


def newest_before(log: LogMaps, end: int) -> int:
    """Return the highest store time (ms) of the records before a log offset, -1 if there are none.

    Only the file of that offset and the file before it are read.
    """
    starts = [start for start in log.starts if start < end]
    newest = -1
    for start in starts[-_FILES_LOOKED_AT:]:
        # Tolerant: the log may hold a gap that a rebuild has passed over.
        walk = LogWalk(log, start, _PLAIN, min(end, start + log.file_size), tolerant=True)
        for piece in walk.pieces():
            times = piece.columns.store_timestamp[: piece.columns.records]
            newest = max(newest, int(times[piece.position + piece.size <= end].max(initial=-1)))
    return newest
