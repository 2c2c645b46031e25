"""The queues that orderly consumers have locked. Locks live in memory: clients lock again before they consume.

Source: `RebalanceLockManager`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reput.formats.wire.bodies import QueueName

MAX_LOCKS: Final = 1_000_000
"""The most queues that are locked; a further one is not, and its client asks again."""
LOCK_LIFE_S = 60.0
"""A lock that its holder does not renew for this time is free (`rocketmq.broker.rebalance.lockMaxLiveTime`)."""


class QueueLocks:
    """The queues that orderly consumers have locked, by group. A lock is free when it is not renewed for a minute."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        # The locks of a group are in the order in which they were renewed.
        self._groups: dict[str, dict[QueueName, tuple[str, float]]] = {}
        self._locks = 0

    def lock(self, group: str, client_id: str, queues: Iterable[QueueName]) -> list[QueueName]:
        """Lock queues for a client, or renew its locks; return the queues that it holds now."""
        now, held = self._clock_s(), []
        for queue in queues:
            known = self._groups.get(group, {}).get(queue)
            if known is None:
                is_free = self._locks < MAX_LOCKS
            else:
                is_free = known[0] == client_id or now - known[1] > LOCK_LIFE_S
            if is_free:
                locks = self._groups.setdefault(group, {})
                # A lock that is renewed becomes the last one.
                locks.pop(queue, None)
                locks[queue] = client_id, now
                self._locks += known is None
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[QueueName]) -> None:
        """Free queues that a client holds."""
        held = self._groups.get(group, {})
        self._drop(group, [queue for queue in set(queues) if held.get(queue, ("", 0.0))[0] == client_id])

    def has_locks(self, group: str) -> bool:
        """Return True if a client of a group holds a queue: the group consumes in order."""
        held = self._groups.get(group)
        if not held:
            return False
        _, newest = next(reversed(held.values()))
        return self._clock_s() - newest <= LOCK_LIFE_S

    def forget_expired(self) -> None:
        """Drop locks that are free by their age."""
        now = self._clock_s()
        for group, held in list(self._groups.items()):
            self._drop(group, [queue for queue, (_, locked_at) in held.items() if now - locked_at > LOCK_LIFE_S])

    def _drop(self, group: str, queues: Iterable[QueueName]) -> None:
        held = self._groups.get(group, {})
        for queue in queues:
            del held[queue]
            self._locks -= 1
        if not held:
            self._groups.pop(group, None)
