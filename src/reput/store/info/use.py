"""The process that holds a store while `info` looks at it, and the log offset up to which its files can be judged."""

from __future__ import annotations

from typing import NamedTuple

from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import StoreLayout
from reput.store.owner.holders import Holder, Who, follower_beside, holder_of


class Use(NamedTuple):
    """The holder of a store, the follower beside it (0: none), and the log offsets that reput's writers publish.

    Indexes are complete below `frontier`, the log is whole below `confirmed`; None if no writer publishes it.
    """

    holder: Holder
    follower_pid: int = 0
    frontier: int | None = None
    confirmed: int | None = None

    @property
    def is_held(self) -> bool:
        """True if a process may be changing files now."""
        return self.holder.who is not Who.NOBODY


def look_at_use(layout: StoreLayout) -> Use:
    """Return the holder of a store; nothing is changed."""
    holder = holder_of(layout)
    if holder.who not in (Who.WRITER, Who.FOLLOWER):
        return Use(holder)
    marks = marks_of(layout)
    if holder.who is Who.FOLLOWER:
        return Use(holder, frontier=marks["frontier_offset"])
    return Use(holder, follower_beside(layout), marks["frontier_offset"], marks["confirmed_offset"])
