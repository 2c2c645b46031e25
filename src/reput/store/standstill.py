"""Whether a store's indexes stand still while someone only reads them: no rebuild at work, none come and gone.

Every job that changes indexes holds reput's lock and raises the epoch in the watermarks before it does anything else;
a swap raises the generation, too. So a reader compares what it saw before with what it sees behind its last read.
"""

from __future__ import annotations

from typing import NamedTuple

from reput.errors import StoreLockedError
from reput.files import fs, locks
from reput.formats import own
from reput.store.layout import StoreLayout
from reput.store.swap import pending_swap


class Standstill(NamedTuple):
    """The epoch and the generation of a store as a reader found them, 0 where no job of reput has ever been."""

    epoch: int
    generation: int


def begin_reading(layout: StoreLayout) -> Standstill:
    """What the reader keeps for `end_reading`; nothing is made or changed.

    Raises:
        StoreLockedError: a job is changing the store, or was killed between two renames of a swap.
    """
    # The marks come first: a job that begins behind them raises the epoch, one that had begun holds the lock.
    seen = _marks(layout)
    lock = layout.own(own.LOCK_NAME)
    if locks.owner_is_live(lock):
        raise StoreLockedError(
            f"{lock}: a rebuild or another reput process is at work on this store. Wait until it ends"
        )
    if pending_swap(layout):
        raise StoreLockedError(
            f"{layout.own(own.INTENT_NAME)}: a rebuild was killed while it swapped the indexes in; "
            "`reput rebuild` finishes that"
        )
    return seen


def end_reading(layout: StoreLayout, begun: Standstill, cause: Exception | None = None) -> None:
    """Make sure that nothing has changed the indexes since `begin_reading`; `cause`: what the reader stumbled over.

    Raises:
        StoreLockedError: a job has, or is about to.
    """
    now = _marks(layout)
    if now != begun:
        raise StoreLockedError(
            f"{layout.own(own.WATERMARKS_NAME)}: a rebuild or another reput job began meanwhile (epoch "
            f"{begun.epoch} became {now.epoch}), so what was read may be old and new indexes mixed. "
            "Wait until it ends, and look again"
        ) from cause
    begin_reading(layout)


def marks_of(layout: StoreLayout) -> dict[str, int]:
    """The watermarks of a store as its file has them, by name; all 0 where no job of reput has ever been."""
    data = fs.read_bytes(layout.own(own.WATERMARKS_NAME), own.WATERMARKS.size) or b""
    names = (field.name for field in own.WATERMARKS.fields)
    return dict(zip(names, own.WATERMARKS.struct.unpack(data.ljust(own.WATERMARKS.size, b"\0")), strict=True))


def _marks(layout: StoreLayout) -> Standstill:
    values = marks_of(layout)
    return Standstill(values["epoch"], values["generation"])
