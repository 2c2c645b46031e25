"""What the store asks of whoever builds its durable indexes; the pipeline answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reput.formats.consume_queue import QueueKey
from reput.queue.kinds import QueueKind
from reput.store.disk.frontier import Frontiers
from reput.store.disk.layout import StoreLayout
from reput.store.disk.settings import StoreSettings
from reput.store.owner.owner import Ownership


@dataclass(frozen=True, slots=True)
class CatchUpTask:
    """Bring the indexes from `frontiers` up to log offset `end`, a boundary.

    `queue_ends`: the next queue offset of each queue, as far as its entries lie below the frontier. `kinds` of queues
    are kept up to date; none means queue files.
    """

    layout: StoreLayout
    settings: StoreSettings
    owned: Ownership
    frontiers: Frontiers
    end: int
    queue_ends: Mapping[QueueKey, int]
    tag_items: bool
    kinds: Sequence[QueueKind] = ()


@dataclass(slots=True)
class CatchUp:
    """What a catch-up did: how far the indexes are complete and durable now, and what did not run straight."""

    frontiers: Frontiers
    messages: int = 0
    queue_entries: int = 0
    index_items: int = 0
    log_bytes: int = 0
    crooked_queues: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Indexer(Protocol):
    """Builds durable indexes from the log."""

    def catch_up(self, task: CatchUpTask) -> CatchUp:
        """Do the task; safe to kill at any moment and to repeat.

        Raises:
            DamagedLogError: the log in between is damaged.
            ReputError: see `reput.errors`; the frontier has not moved then.
        """
        ...
