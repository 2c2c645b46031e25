"""The interface between the store and the builder of its durable indexes, which the pipeline implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reput.formats.queue.consume_queue import QueueKey
from reput.queue.kinds import AnyKind
from reput.store.disk.frontier import Frontiers
from reput.store.disk.layout import StoreLayout
from reput.store.disk.settings import StoreSettings
from reput.store.owner.owner import Ownership


@dataclass(frozen=True, slots=True)
class CatchUpTask:
    """Bring the indexes from `frontiers` up to log offset `end`, a boundary.

    `queue_ends`: the next queue offset of each queue at the frontier. `kinds` of queues are extended; empty means those
    of a store that says nothing. `keep_frontier`: write the frontier of a store that has none, even if there is nothing
    to build. `may_have_leftovers`: a crash or a killed job may have left items above the frontier, which are removed,
    even if there is nothing to build.
    """

    layout: StoreLayout
    settings: StoreSettings
    owned: Ownership
    frontiers: Frontiers
    end: int
    queue_ends: Mapping[QueueKey, int]
    tag_items: bool
    kinds: Sequence[AnyKind] = ()
    keep_frontier: bool = False
    may_have_leftovers: bool = False


@dataclass(slots=True)
class CatchUp:
    """The result of a catch-up: the log offsets below which indexes are durable, and the queues out of order."""

    frontiers: Frontiers
    messages: int = 0
    queue_entries: int = 0
    index_items: int = 0
    log_bytes: int = 0
    out_of_order_queues: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def crooked_queues(self) -> list[str]:  # old name, for one version
        """The queues out of order."""
        return self.out_of_order_queues


class Indexer(Protocol):
    """Builds durable indexes from the log."""

    def catch_up(self, task: CatchUpTask) -> CatchUp:
        """Do the task; safe to kill at any moment and to repeat.

        Raises:
            DamagedLogError: the log in between is damaged.
            ReputError: see `reput.errors`; the frontier has not moved then.
        """
        ...
