"""The process that holds a store now: a program that puts messages, a follower, another job, or a RocketMQ broker."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from reput.errors import StoreLockedError
from reput.files import locks
from reput.formats.own import files as own
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import StoreLayout
from reput.store.owner.swap import pending_swap

_SWAP_WAIT_S = 10.0
_ASK_AGAIN_S = 0.01


class Who(StrEnum):
    """The activity of the holder of a store; `OPENING` is a writer that does not put yet, or no longer."""

    NOBODY = "nobody"
    WRITER = "writer"
    OPENING = "opening"
    FOLLOWER = "follower"
    JOB = "job"
    BROKER = "broker"


_BY_MARK = {
    own.HOLDER_FOLLOWER: Who.FOLLOWER,
    own.HOLDER_WRITER: Who.OPENING,
    own.HOLDER_SERVER: Who.OPENING,
    own.HOLDER_FAILED: Who.OPENING,
}


class Holder(NamedTuple):
    """The holder of a store and its process id, 0 if the system does not know it.

    `is_server`: it is a writer that serves RocketMQ clients.
    """

    who: Who
    pid: int = 0
    is_server: bool = False

    @property
    def text(self) -> str:
        """The holder in words."""
        words = "`reput serve`" if self.is_server else _IN_WORDS[self.who]
        return f"{words}, process {self.pid}" if self.pid else words


_IN_WORDS = {
    Who.NOBODY: "nobody",
    Who.WRITER: "a reput program that puts messages",
    Who.OPENING: "a reput program that opens or closes the store",
    Who.FOLLOWER: "a reput follower",
    Who.JOB: "a rebuild or another job of reput",
    Who.BROKER: "a RocketMQ broker",
}


def holder_of(layout: StoreLayout) -> Holder:
    """Return the process that holds a store now; nothing is changed."""
    if locks.owner_is_live(layout.own(own.LOCK_NAME)):
        marks = marks_of(layout)
        if marks["writer"]:
            return Holder(Who.WRITER, marks["writer"], marks["holder"] == own.HOLDER_SERVER)
        # Every owner also holds RocketMQ's lock, and the system knows its process.
        pid = locks.broker_lock_pid(layout.broker_lock) or 0
        return Holder(_BY_MARK.get(marks["holder"], Who.JOB), pid)
    broker = locks.broker_lock_pid(layout.broker_lock)
    return Holder(Who.NOBODY) if broker is None else Holder(Who.BROKER, broker)


class Writer(StrEnum):
    """The kind of program that writes the store now."""

    NOBODY = "nobody"
    REPUT = "reput"
    BROKER = "broker"


def await_swap(layout: StoreLayout) -> None:
    """Wait for a job that is swapping its indexes in: some files are away meanwhile.

    Raises:
        StoreLockedError: the swap does not end, or was left by a killed job.
    """
    deadline = time.monotonic() + _SWAP_WAIT_S
    while pending_swap(layout):
        is_late = time.monotonic() > deadline
        if (is_late or not locks.owner_is_live(layout.own(own.LOCK_NAME))) and pending_swap(layout):
            raise _in_swap(layout)
        time.sleep(_ASK_AGAIN_S)


def writer_of(layout: StoreLayout) -> Writer:
    """Return the kind of program that writes this store now.

    Raises:
        StoreLockedError: a swap of indexes is under way, or was left by a killed job.
    """
    if pending_swap(layout):
        raise _in_swap(layout)
    return _WRITERS.get(holder_of(layout).who, Writer.NOBODY)


def _in_swap(layout: StoreLayout) -> StoreLockedError:
    return StoreLockedError(
        f"{layout.own(own.INTENT_NAME)}: a rebuild is swapping its indexes in, or was killed there. Try again; if "
        "it stays, `reput rebuild` finishes it"
    )


_WRITERS = {Who.WRITER: Writer.REPUT, Who.BROKER: Writer.BROKER}


def follower_beside(layout: StoreLayout) -> int:
    """Return the process id of the follower that builds the indexes beside a writer, 0 for none."""
    return marks_of(layout)["follower"] if locks.owner_is_live(layout.own(own.FOLLOWER_NAME)) else 0


def follower_lock(layout: StoreLayout, remedy: str) -> AbstractContextManager[None]:
    """Hold the lock of the one process that follows a store.

    Raises:
        StoreLockedError: another process holds it; the text has its id.
    """
    return locks.follower_lock(layout.own(own.FOLLOWER_NAME), remedy, partial(follower_beside, layout))


def refuse_followed(layout: StoreLayout, remedy: str) -> None:
    """Refuse what `follower_lock` would refuse now; nothing is changed.

    Raises:
        StoreLockedError: another process follows the store.
    """
    locks.refuse_followed(layout.own(own.FOLLOWER_NAME), remedy, partial(follower_beside, layout))
