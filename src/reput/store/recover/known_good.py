"""What is known to have been good in a log once: what is bad there now was damaged, and no crash is to blame.

An offset, below which everything was: the durable frontier, what a reput writer has flushed, and the checkpoint's last
record. And a time: the checkpoint tells when the last record was stored that was flushed. Where no record in front of
a bad place is that new, the one that was stood at that place or behind it.

Source: `StoreCheckpoint`, `CommitLog.recoverAbnormally`.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.formats import own
from reput.formats.record import CHECK_NONE
from reput.log.maps import LogMaps
from reput.log.reader import find_record
from reput.log.scan import LogWalk, checking
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.frontier import read_frontier
from reput.store.disk.layout import StoreLayout
from reput.store.owner.holders import marks_of

_FILES_LOOKED_AT = 2
"""A checkpoint is seconds old: a record as new as it says lies near the log's end."""
_PLAIN = checking(CHECK_NONE)


class KnownGood(NamedTuple):
    """Below log offset `offset` all was good, as the file `told_by` says; so was a record stored at `time` (ms)."""

    offset: int
    told_by: str
    time: int


def known_good(layout: StoreLayout) -> KnownGood:
    """What reput's own files and the checkpoint say.

    Raises:
        DamagedStoreError: the frontier file is there and is no frontier.
    """
    checkpoint, frontier = read_checkpoint(layout), read_frontier(layout)
    told = [(marks_of(layout)["flushed_offset"], str(layout.own(own.WATERMARKS_NAME)))]
    if frontier is not None:
        told += [
            (offset, str(layout.own(own.FRONTIER_NAME))) for offset in (frontier.queue_offset, frontier.index_offset)
        ]
    # The last offset is where the last record starts; that record itself was good. So is the other one, but a
    # replicated broker gives a record's end there.
    started = checkpoint.logics_physical_offset
    told += [(offset, str(layout.checkpoint)) for offset in (checkpoint.confirm_phy_offset, started + (started > 0))]
    return KnownGood(*max(told), checkpoint.physic_msg_timestamp)


def why_known_good(layout: StoreLayout, log: LogMaps, end: int, written: int, last_store_timestamp: int = -1) -> str:
    """Why the `written` bytes at log offset `end`, where no record is, are known to have been good; "" if they are not.

    `last_store_timestamp` of the record in front, where it is known.
    """
    known = known_good(layout)
    if end < known.offset:
        return f"{known.told_by} calls the log durable up to {known.offset}"
    following = find_record(log, end + 1, search_bytes=written - 1)
    time = -1 if following is None else log.store_time(following)
    # Of the records of one time, the ones behind may have been stored after the flush that the checkpoint tells of.
    if 0 <= time < known.time:
        return (
            f"at log offset {following} goes on a record that the checkpoint calls durable (stored {time}, checkpoint "
            f"{known.time})"
        )
    # The last record's own time mostly settles it.
    if last_store_timestamp < known.time and (newest := newest_before(log, end)) < known.time:
        return (
            f"the checkpoint calls a record durable that is not in front of it (stored {known.time}, the newest in "
            f"front {newest})"
        )
    return ""


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
