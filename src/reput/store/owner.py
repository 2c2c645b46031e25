"""Becoming the one process that changes a store: locks, epoch, and what a killed job left behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from reput.errors import StaleEpochError
from reput.files import fs, locks
from reput.files.watermarks import Watermarks
from reput.formats import own
from reput.store import swap
from reput.store.layout import StoreLayout


@dataclass(slots=True)
class Ownership:
    """The store as its owner holds it: the epoch of this job and the mapped watermarks; `notes` what was cleaned up."""

    layout: StoreLayout
    epoch: int
    watermarks: Watermarks
    notes: list[str]

    def verify(self) -> None:
        """Raise StaleEpochError when another job has taken the store over."""
        if self.watermarks["epoch"] != self.epoch:
            raise StaleEpochError(
                f"{self.layout.reput}: epoch {self.watermarks['epoch']} has replaced {self.epoch}; this job stops"
            )


@contextlib.contextmanager
def own_store(layout: StoreLayout) -> Iterator[Ownership]:
    """Own the store while the block runs: RocketMQ's lock, ours, a closed fence, a new epoch, no leftovers.

    Raises:
        StoreLockedError: a live broker or another reput process has it.
        AccessError: this user may not write here.
    """
    owner = fs.owner_of(layout.root)
    with locks.broker_lock(layout.broker_lock):
        fs.give_to(layout.broker_lock, owner)
        fs.make_dirs(layout.reput, owner)
        with locks.owner_lock(layout.own(own.LOCK_NAME)):
            locks.close_fence(layout.own(own.FENCE_NAME))
            watermarks = Watermarks(layout.own(own.WATERMARKS_NAME))
            try:
                for name in (own.LOCK_NAME, own.FENCE_NAME, own.WATERMARKS_NAME):
                    fs.give_to(layout.own(name), owner)
                watermarks["epoch"] += 1
                watermarks.sync()
                notes = []
                if swap.finish_swap(layout):
                    notes.append("an earlier job was killed while it swapped the indexes in; finished that swap")
                if left := swap.remove_leftovers(layout):
                    notes.append(f"removed what an earlier job had left: {', '.join(left)}")
                yield Ownership(layout, watermarks["epoch"], watermarks, notes)
            finally:
                watermarks.close()
