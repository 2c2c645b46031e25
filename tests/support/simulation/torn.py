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

if TYPE_CHECKING:
    from pathlib import Path


def has_torn_head(store: Path, durable: int) -> bool:
    """Return True if a record of a log whose queues never began again does not follow the one before in its queue.

    The first `durable` records are no excuse: their disk has kept them, so a wrong number there is reput's own.
    """
    folder = store / paths.COMMIT_LOG
    if not folder.exists():
        return False
    following: dict[tuple[bytes, int], int] = {}
    for number, found in enumerate(LogWalk(list_log_files(folder, tolerant=True), 0)):
        record = found.decode()
        queue = record.topic, record.queue_id
        if record.queue_offset != following.get(queue, 0):
            return number >= durable
        following[queue] = record.queue_offset + 1
    return False
