"""What keeps a store from being read or written.

Source: `RunningFlags`.
"""

from __future__ import annotations

from enum import IntFlag


class RunningFlag(IntFlag):
    """What keeps a store from being read or written; the bits are RocketMQ's."""

    NOT_READABLE = 1
    NOT_WRITEABLE = 2
    LOGICS_QUEUE_ERROR = 4
    INDEX_FILE_ERROR = 8
    DISK_FULL = 16
    FENCED = 32
    LOGIC_DISK_FULL = 64

    @property
    def is_readable(self) -> bool:
        """Whether messages may be read."""
        return not self & RunningFlag.NOT_READABLE

    @property
    def is_writeable(self) -> bool:
        """Whether messages may be put."""
        return not self & ~RunningFlag.NOT_READABLE

    @property
    def is_queue_writeable(self) -> bool:
        """Whether queues may be filled: a full disk under the log, or a fence, does not stop that."""
        return not self & ~(RunningFlag.NOT_READABLE | RunningFlag.DISK_FULL | RunningFlag.FENCED)
