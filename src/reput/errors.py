"""Everything that reput raises on purpose.

    ReputError                  exit code 2: the store could not be read or changed
    ├── ConfigError             a setting or an option is wrong
    ├── NotAStoreError          the folder holds no RocketMQ store
    ├── AccessError             rights are missing
    ├── StoreLockedError        a live broker or another reput process owns the store
    ├── UnsupportedStoreError   a kind of store that reput recognises and cannot build yet
    │   └── NewerDatabaseError  a newer RocksDB or a newer broker wrote a database; as a DamagedStoreError, exit code 1
    ├── NoSpaceError            the disk cannot hold what has to be written
    ├── PutError                a message was not stored (`result.raise_for_status()`)
    │   └── DiskFullError       because the disk is full; it is a NoSpaceError, too
    ├── StaleEpochError         another job took over the store; this one must stop writing
    ├── TailFullError           too many messages wait for their durable indexes
    ├── ClosedError             the store, its log, or a client has been closed
    ├── ForkedStoreError        the parent process opened the store; open it again in the child
    ├── FlushError              the disk refused to make the log durable; open the store again to put messages
    ├── DataLossError           requested messages are gone; nothing is damaged
    ├── EngineError             Spark or Java could not be started, or a task failed
    ├── ClientError             a broker or a name server did not do what a client has asked
    │   ├── BrokerError         it refused: the code and the remark are those of its answer
    │   ├── NoRouteError        no broker has a queue of the topic for the client
    │   ├── TimedOutError       no answer came in time; a message may be stored all the same
    │   └── UnreachableError    there is no connection, or it was lost
    └── DamagedStoreError       exit code 1: the store's bytes are wrong
        └── DamagedLogError     bytes in the CommitLog are no record, and good records follow

Each message names the file, the offset where there is one, and what to do next; those of a client name the address of
the broker and the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any


class ReputError(Exception):
    """Base of all errors that reput raises on purpose. `exit_code` is the exit code of the command line.

    `details` are values for programs. `--json` prints them with the message.
    """

    exit_code = 2
    details: Mapping[str, Any] = MappingProxyType({})


class ConfigError(ReputError):
    """A setting, an option or a configuration file is wrong."""


class NotAStoreError(ReputError):
    """The folder holds no RocketMQ store."""


class AccessError(ReputError):
    """The operating system denies the rights to read or write a file."""


class StoreLockedError(ReputError):
    """A live broker, or another reput process, owns the store."""


class UnsupportedStoreError(ReputError):
    """A kind of store, queue or log that reput recognises and cannot build yet."""


class NoSpaceError(ReputError):
    """The disk cannot hold what has to be written."""


class PutError(ReputError):
    """A message was not stored: `status` is the status of the put, and `reason` says why."""

    def __init__(self, status: Enum, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.status.value}: {self.reason}"


class DiskFullError(PutError, NoSpaceError):
    """A message was not stored because the disk is full; nothing was written, and the next put tries again."""


class StaleEpochError(ReputError):
    """Another job took over the store: this one must stop writing."""


class TailFullError(ReputError):
    """Too many messages wait for their durable indexes: `store.reput()` or `reput follow` makes room."""


class ClosedError(ReputError):
    """The store, its log, or a client has been closed."""


class ForkedStoreError(ReputError):
    """A parent process opened this: open the store again in the child, or start the child with "spawn"."""


class FlushError(ReputError):
    """The disk refused to make the log durable. Open the store again to learn what the disk kept.

    `stored` is the result of the put that raised the error if the log has its messages, and None otherwise.
    """

    stored: Any = None


class DataLossError(ReputError):
    """Requested messages are gone, or never existed (failOnDataLoss)."""


class EngineError(ReputError):
    """Spark or Java could not be started, or one of its tasks failed."""


class ClientError(ReputError):
    """A broker or a name server did not do what a client has asked.

    Attributes:
        address: The address that was asked, `host:port`; empty without one.
        topic: The topic; empty if it was about none.
        code: The code of the answer (`ResponseCode`); None without an answer.
        remark: The text of the answer.
    """

    def __init__(
        self, reason: str, *, address: str = "", topic: str = "", code: int | None = None, remark: str = ""
    ) -> None:
        super().__init__(reason)
        self.address = address
        self.topic = topic
        self.code = code
        self.remark = remark


class BrokerError(ClientError):
    """A broker or a name server refused a request: `code` and `remark` are those of its answer."""


class NoRouteError(ClientError):
    """No broker has a queue of the topic that the client may write or read."""


class TimedOutError(ClientError):
    """No answer came in time. A message that was sent may be stored all the same."""


class UnreachableError(ClientError):
    """There is no connection to a broker or a name server, or it was lost before the answer."""


class DamagedStoreError(ReputError):
    """The store's bytes are wrong: `damage` says which, and `remedy` what helps, if the error has that apart."""

    exit_code = 1

    def __init__(self, damage: str, remedy: str = "") -> None:
        super().__init__(f"{damage}. {remedy}" if remedy else damage)
        self.damage = damage
        self.remedy = remedy


def texts_of(errors: Iterable[DamagedStoreError]) -> list[str]:
    """Return the messages of errors; those with the same remedy are one message, which has it once."""
    found: dict[str, list[str]] = {}
    for error in errors:
        found.setdefault(error.remedy or str(error), []).append(error.damage)
    return ["; ".join(damages) + f". {remedy}" * (remedy not in damages) for remedy, damages in found.items()]


class NewerDatabaseError(UnsupportedStoreError, DamagedStoreError):
    """A newer RocksDB or a newer broker wrote a database: its bytes may be good, and reput cannot read it.

    All go on without it as without a damaged one, so it counts as damage, and has its exit code.
    """


class DamagedLogError(DamagedStoreError):
    """The CommitLog holds bytes that are no record, and good records follow."""
