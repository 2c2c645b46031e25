"""Ownership of a store, for the one process that changes it: locks, epoch, and the leftovers of killed jobs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from reput.errors import DamagedStoreError, FlushError, ReputError, StaleEpochError, StoreLockedError
from reput.files import disk_space, fs, locks
from reput.files.watermarks import Watermarks
from reput.formats.own import files as own
from reput.store.disk.frontier import Frontiers, read_frontier
from reput.store.disk.layout import StoreLayout, refuse_own_links
from reput.store.owner import swap
from reput.store.owner.holders import Who, holder_of
from reput.store.owner.unsynced import write_again
from reput.times import now_ms

TAKE_OVER_S = 30.0
"""The time that a writer waits for a follower, which releases the store after its current batch."""
_WANTED_MS = 2000
_ASK_AGAIN_S = 0.02
_OWNERS_STEP = 1 << 20
"""An owner raises the epoch by this before it waits for the fence, in which a follower may raise it at that moment.

One of the two is lost then. Epochs of owners are so far apart that no stage of a follower has the number of an owner's.
"""


@dataclass(slots=True)
class Ownership:
    """The ownership of a store.

    `epoch` names this job's folders. `stage` is the epoch in the watermarks that tasks must find there. The owner
    raises it between stages, so an attempt that Spark gave up cannot write into the files of a later stage. `notes` say
    what was cleaned up. `is_beside`: it is that of a follower beside a writer, and `epoch` is the next one after that
    which the follower saw before it looked at the store. It begins only if nobody has raised the epoch since.
    `follows_failed_sync`: an owner before could not sync; the log is written again then, and a cut is made again.
    """

    layout: StoreLayout
    epoch: int
    watermarks: Watermarks
    notes: list[str]
    stage: int = 0
    is_beside: bool = False
    follows_failed_sync: bool = False

    def next_stage(self, *, lasting: bool = True) -> int:
        """Fence off the tasks of earlier stages: none may begin to write, and running ones are waited for.

        `lasting`: the new epoch is durable when this returns. Tasks on this machine die with it, so they do not need
        that, and the call takes microseconds.

        Raises:
            StaleEpochError: another job has taken the store over.
            StoreLockedError: a task is still writing after a minute.
        """
        if not self.stage and not self.is_beside:
            # First no task of an earlier job may begin to write, then the running ones must end.
            self.watermarks["epoch"] += _OWNERS_STEP
        with locks.closed_fence(self.layout.own(own.FENCE_NAME)):
            # Checked inside the fence: a process that takes the store over meanwhile must not be overtaken.
            if self.stage or self.is_beside:
                self._verify(self.stage or self.epoch - 1)
            self.watermarks["epoch"] += 1
            self.stage = self.watermarks["epoch"]
            if lasting:
                self.watermarks.sync()
        return self.stage

    def take_back(self) -> int:
        """Begin a new stage after a follower had one; the follower's lock must be held."""
        self.stage = 0
        return self.next_stage()

    @contextlib.contextmanager
    def publishing(self) -> Iterator[None]:
        """Hold the fence as a task does, and verify the ownership, while the block publishes a result.

        Raises:
            StaleEpochError: another job has taken the store over.
        """
        with locks.task_fence(self.layout.own(own.FENCE_NAME)):
            self.verify()
            yield

    def count_swap(self) -> None:
        """Let readers know, before and after the renames of a swap, that what they read meanwhile does not count."""
        self.watermarks["swaps"] += 1

    def indexes_replaced(self) -> None:
        """Announce replaced or removed files to readers: they open them again, and read up to the new frontier."""
        self.watermarks["frontier_offset"] = Frontiers.of(read_frontier(self.layout)).both
        self.watermarks["generation"] += 1
        self.watermarks.sync()

    def leave_unsynced(self) -> None:
        """Let the writer, followers, and the next owner know that a sync of the log has failed."""
        self.watermarks["holder"] = own.HOLDER_FAILED

    def is_unsynced(self) -> bool:
        """Return True if a sync of the log has failed, here or in another process: a later one proves nothing."""
        return self.watermarks["holder"] == own.HOLDER_FAILED

    def refuse_unsynced(self) -> None:
        """Refuse to call the log durable after a sync of it has failed.

        Raises:
            FlushError: One has, here or in another process, and nobody has written the bytes again.
        """
        if self.is_unsynced():
            raise FlushError(
                f"{self.layout.commit_log}: an earlier sync has failed, so a later one proves nothing. Open the store "
                "again: that writes to the disk again what it may lack"
            )

    @contextlib.contextmanager
    def syncing(self) -> Iterator[None]:
        """Leave a note if the block fails to sync files of the log, or the file system that has them.

        Damage that it finds is no such failure.
        """
        try:
            yield
        except DamagedStoreError:
            raise
        except ReputError:
            self.leave_unsynced()
            raise

    def sync(self) -> None:
        """Make the log durable, then all of the store.

        The log is first, in case it is on another disk: an index is never durable before what it points to.

        Raises:
            ReputError: The disk refuses it.
        """
        with self.syncing():
            self.layout.sync_log()
            self.layout.sync()

    def verify(self) -> None:
        """Raise StaleEpochError if another job has taken the store over."""
        self._verify(self.stage)

    def _verify(self, expected: int) -> None:
        if self.watermarks["epoch"] != expected:
            raise StaleEpochError(
                f"{self.layout.reput}: epoch {self.watermarks['epoch']} has replaced {expected}; this job stops"
            )


@contextlib.contextmanager
def own_store(layout: StoreLayout, *, holder: int = own.HOLDER_JOB) -> Iterator[Ownership]:
    """Own the store while the block runs: reput's lock, RocketMQ's lock, a closed fence, a new epoch, no leftovers.

    `holder`: the value of the watermark of that name, for what the block does.

    Raises:
        StoreLockedError: a live broker or another reput process has it.
        AccessError: this user may not write here.
    """
    owner = fs.owner_of(layout.root)
    refuse_own_links(layout)
    fs.refuse_strangers(layout.root)
    lock, named = layout.own(own.LOCK_NAME), partial(_holder, layout)
    # Beside a live broker nothing is made, and nothing is held.
    locks.refuse_held(layout.broker_lock, lock, named)
    fs.make_dirs(layout.reput, owner)
    # Ours first, and released last: who holds RocketMQ's alone is a broker to readers, whose log they follow otherwise.
    with locks.owner_lock(lock, named), locks.broker_lock(layout.broker_lock, owner):
        watermarks = Watermarks(layout.own(own.WATERMARKS_NAME))
        try:
            # A killed writer leaves its process id here.
            watermarks["writer"] = 0
            has_failed = watermarks["holder"] == own.HOLDER_FAILED
            if has_failed:
                write_again(layout, watermarks["flushed_offset"], watermarks["wrote_offset"], owner)
            watermarks["holder"] = holder
            owned = Ownership(layout, watermarks["epoch"] + 1, watermarks, [], follows_failed_sync=has_failed)
            owned.next_stage()
            for name in (own.LOCK_NAME, own.FENCE_NAME, own.WATERMARKS_NAME):
                fs.give_to(layout.own(name), owner)
            if swap.finish_swap(layout, owned.count_swap):
                owned.indexes_replaced()
                owned.notes.append("an earlier job was killed while it swapped the indexes in; finished that swap")
            # The owner before may have failed to: what it removed or renamed here must not come back later.
            fs.sync_path(layout.reput)
            if left := swap.remove_leftovers(layout):
                owned.notes.append(f"removed what an earlier job had left: {', '.join(left)}")
            yield owned
        finally:
            watermarks.close()


def refuse_owned(layout: StoreLayout) -> None:
    """Refuse what `own_store` would refuse now; nothing is changed.

    Raises:
        StoreLockedError: a live broker or another reput process has the store.
        AccessError: this user may not write here.
    """
    refuse_own_links(layout)
    disk_space.refuse_unwritable(layout.root)
    locks.refuse_held(layout.broker_lock, layout.own(own.LOCK_NAME), partial(_holder, layout))


def _holder(layout: StoreLayout) -> str:
    found = holder_of(layout)
    # The holder may have released the store since, and a broker may have taken it.
    if found.who in (Who.NOBODY, Who.BROKER):
        return "another reput process"
    return f"{found.text}," if found.pid else found.text


@contextlib.contextmanager
def take_over(layout: StoreLayout) -> Iterator[Ownership]:
    """Own the store like `own_store`, for a program that writes: a follower that catches up is asked to release it.

    Raises: like `own_store`.
    """
    deadline = time.monotonic() + TAKE_OVER_S
    with contextlib.ExitStack() as held:
        while True:
            try:
                owned = held.enter_context(own_store(layout, holder=own.HOLDER_WRITER))
                break
            except StoreLockedError:
                if time.monotonic() > deadline or not _ask_follower(layout):
                    raise
                time.sleep(_ASK_AGAIN_S)
        owned.watermarks["wanted_until_ms"] = 0
        yield owned


def is_wanted(watermarks: Watermarks) -> bool:
    """Return True if a program waits to write."""
    return watermarks["wanted_until_ms"] > now_ms()


def _ask_follower(layout: StoreLayout) -> bool:
    """Ask a follower for the store; returns False if no follower has it."""
    if not locks.owner_is_live(layout.own(own.FOLLOWER_NAME)):
        return False
    watermarks = Watermarks(layout.own(own.WATERMARKS_NAME))
    try:
        if watermarks["writer"] != 0:
            return False
        watermarks["wanted_until_ms"] = now_ms() + _WANTED_MS
    finally:
        watermarks.close()
    return True
