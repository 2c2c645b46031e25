"""Heads of records that a disk has torn within a sector: RocketMQ's CRC does not cover them.

The CRC is that of the body. A sector that ends within the queue offset of a record leaves a good record with another
queue offset, mostly 0, where the queue then seems to begin. Disks that write sectors whole never do that, so
docs/reliability.md promises nothing about it, and a simulation ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats import paths
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from support.simulation.side import SIDE, SideMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reput.formats.log.record import Record


def has_torn_head(store: Path, is_durable: Callable[[int, Record], bool]) -> bool:
    """Return True if a record of a log does not have the queue offset that its queue gave it.

    `is_durable` is asked about that record, and about its place in the log. A durable record is no excuse: its disk has
    kept it, so a wrong number there is reput's own.
    """
    folder = store / paths.COMMIT_LOG
    if not folder.exists():
        return False
    following: dict[tuple[bytes, int], int] = {}
    files = list_log_files(folder, tolerant=True)
    for place, found in enumerate(LogWalk(files, files.min_offset)):
        record = found.decode()
        queue = record.topic, record.queue_id
        if record.topic == SIDE.encode():
            expected = SideMessage.of(record.body).number
        else:
            # These queues never begin again; their first records may have expired.
            expected = following.get(queue, record.queue_offset if files.min_offset else 0)
        if record.queue_offset != expected:
            return not is_durable(place, record)
        following[queue] = record.queue_offset + 1
    return False
