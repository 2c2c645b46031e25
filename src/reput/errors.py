"""Everything that reput raises on purpose.

    ReputError                  exit code 2: could not look, nothing was changed
    ├── ConfigError             a setting or an option is wrong
    ├── NotAStoreError          the folder holds no RocketMQ store
    ├── AccessError             rights are missing
    ├── StoreLockedError        a live broker or another reput process owns the store
    ├── UnsupportedStoreError   a kind of store that reput recognises and cannot build yet
    ├── NoSpaceError            the disk cannot hold what has to be written
    ├── PutError                a message was not stored (`result.raise_for_status()`)
    │   └── DiskFullError       because the disk is full; it is a NoSpaceError, too
    ├── StaleEpochError         another job took the store over; this one must not write any more
    ├── TailFullError           too many messages wait for their durable indexes
    ├── ClosedError             the store, or its log, has been closed
    ├── ForkedStoreError        the process that this one was forked from has the store open; open it again here
    ├── FlushError              the disk refused to make the log durable; nothing more is taken until it is opened again
    ├── DataLossError           messages that were asked for are gone; nothing is damaged
    ├── EngineError             Spark or Java could not be started, or a task failed
    └── DamagedStoreError       exit code 1: the store's bytes are wrong
        └── DamagedLogError     bytes in the CommitLog that are no record, with good records behind

Each message names the file, the offset where there is one, and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any


class ReputError(Exception):
    """Base of all errors that reput raises on purpose; `exit_code` is what the command line returns.

    `details` are values for programs, which `--json` gives beside the message.
    """

    exit_code = 2
    details: Mapping[str, Any] = MappingProxyType({})


class ConfigError(ReputError):
    """A setting, an option or a configuration file is wrong."""


class NotAStoreError(ReputError):
    """The folder holds no RocketMQ store."""


class AccessError(ReputError):
    """The operating system refuses to let us read or write something."""


class StoreLockedError(ReputError):
    """A live broker, or another reput process, owns the store."""


class UnsupportedStoreError(ReputError):
    """A kind of store, queue or log that reput recognises and does not build yet."""


class NoSpaceError(ReputError):
    """The disk cannot hold what has to be written."""


class PutError(ReputError):
    """A message was not stored: `status` is the put's, `reason` says why."""

    def __init__(self, status: Enum, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.status.value}: {self.reason}"


class DiskFullError(PutError, NoSpaceError):
    """A message was not stored because the disk is full; nothing was written, and the next put tries again."""


class StaleEpochError(ReputError):
    """Another job took the store over: this one must not write any more."""


class TailFullError(ReputError):
    """Too many messages wait for their durable indexes: `store.reput()` or `reput follow` makes room."""


class ClosedError(ReputError):
    """The store, or its log, has been closed."""


class ForkedStoreError(ReputError):
    """A parent process opened this: a forked child opens the store again, or is started with "spawn"."""


class FlushError(ReputError):
    """The disk refused to make the log durable: what it kept is unknown until the store is opened again.

    `stored` is the result of the put that raised it, where the log has taken its messages; None where it took none.
    """

    stored: Any = None


class DataLossError(ReputError):
    """Messages that were asked for are not there any more, or never were (failOnDataLoss)."""


class EngineError(ReputError):
    """Spark or Java could not be started, or one of its tasks failed."""


class DamagedStoreError(ReputError):
    """The store's bytes are wrong."""

    exit_code = 1


class DamagedLogError(DamagedStoreError):
    """The CommitLog holds bytes that are no record, with good records behind them."""
