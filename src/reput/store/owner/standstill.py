"""Reading indexes that do not change, or that a holder only appends to, without a lock.

Every job that changes indexes holds reput's lock and raises the epoch in the watermarks first; a swap or a deletion
also raises the generation. So a reader compares these values before its first read and after its last one.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from reput.errors import StoreLockedError
from reput.files import locks
from reput.formats.own import files as own
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import StoreLayout
from reput.store.owner.holders import Holder, Who, holder_of
from reput.store.owner.swap import pending_swap

_JOB_WAIT_S = 0.2
_OPENING_WAIT_S = 10.0
_ASK_AGAIN_S = 0.01


class Standstill(NamedTuple):
    """The state of a store when a reader began: its holder, and the epoch and generation (0 before reput's first job).

    If `holder` is a reput process, indexes are complete below log offset `frontier`. If a program puts messages, the
    log is whole below `confirmed`. Both are None if the files themselves show it.
    """

    holder: Holder
    epoch: int
    generation: int
    frontier: int | None = None
    confirmed: int | None = None


def begin_reading(layout: StoreLayout) -> Standstill:
    """Return the state that the reader passes to `end_reading`; nothing is changed.

    Waits a moment for a program that opens or closes the store.

    Raises:
        StoreLockedError: a job is changing the store, or was killed between two renames of a swap.
    """
    begin = time.monotonic()
    while True:
        # The marks are read first: a later job raises the epoch, and an earlier one holds the lock.
        before = marks_of(layout)
        holder = holder_of(layout)
        waited = time.monotonic() - begin
        if holder.who is Who.JOB and waited > _JOB_WAIT_S:
            raise StoreLockedError(locks.at_work(layout.own(own.LOCK_NAME), holder.text))
        if holder.who is Who.OPENING and waited > _OPENING_WAIT_S:
            raise StoreLockedError(
                f"{layout.own(own.LOCK_NAME)}: {holder.text} has been at that for {_OPENING_WAIT_S:.0f} s. "
                "Wait until it is done"
            )
        if holder.who not in (Who.JOB, Who.OPENING):
            break
        time.sleep(_ASK_AGAIN_S)
    if pending_swap(layout):
        raise StoreLockedError(
            f"{layout.own(own.INTENT_NAME)}: a rebuild was killed while it swapped the indexes in; "
            "`reput rebuild` finishes that"
        )
    seen = Standstill(holder, before["epoch"], before["generation"])
    # Read after the holder: earlier values may be of another holder.
    marks = marks_of(layout)
    if holder.who in (Who.WRITER, Who.FOLLOWER):
        seen = seen._replace(frontier=marks["frontier_offset"])
    if holder.who is Who.WRITER:
        seen = seen._replace(confirmed=marks["confirmed_offset"])
    return seen


def end_reading(layout: StoreLayout, begun: Standstill, cause: Exception | None = None) -> bool:
    """Return True if nothing has changed since `begin_reading`, False if a holder may have appended.

    `cause`: the error that the reader met.

    Raises:
        StoreLockedError: indexes were replaced meanwhile, or are about to be.
    """
    now, holder = marks_of(layout), holder_of(layout)
    was_free = begun.holder.who is Who.NOBODY
    stumbled = cause is not None and was_free and now["epoch"] != begun.epoch
    if now["generation"] != begun.generation or holder.who is Who.JOB or stumbled:
        raise StoreLockedError(
            f"{layout.own(own.WATERMARKS_NAME)}: a rebuild or another reput job began meanwhile (epoch "
            f"{begun.epoch} became {now['epoch']}), so what was read may be old and new indexes mixed. "
            "Wait until it ends, and look again"
        ) from cause
    if pending_swap(layout):
        begin_reading(layout)
    return was_free and holder.who is Who.NOBODY and now["epoch"] == begun.epoch
