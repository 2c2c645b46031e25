"""The bound of committed offsets: without it a client could commit one in each queue for each group."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from reput.broker.wire.refusals import refuse
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from reput.store.progress.progress import ConsumerProgress

MAX_OFFSETS: Final = 1_000_000
"""The committed offsets of a store above which clients make no further one. RocketMQ has no bound."""


def refuse_further_offsets(progress: ConsumerProgress, group: str, topic: str, queue_ids: Collection[int]) -> None:
    """Refuse a request that would commit offsets of further queues; a group goes on in the queues that it has.

    Raises:
        RefusedError: there are too many.
    """
    if progress.count + len(queue_ids) <= MAX_OFFSETS:
        return
    further = set(queue_ids) - progress.query_all(group, topic).keys()
    if further and progress.count + len(further) > MAX_OFFSETS:
        words = f"the broker has {progress.count} committed offsets, and takes no further queue of group [{group:.130}]"
        refuse(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]system busy, {words}")
