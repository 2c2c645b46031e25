"""Waiting for messages: a waiter is called as soon as its queue reaches an offset.

A waiter is one entry in a table, not a thread. With thousands of them a put only checks that the table is not empty,
and an arrival reads only the waiters of its queue. This is the primitive of long polling (`PullRequestHoldService`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

_log = logging.getLogger("reput.store")


class Waiter(NamedTuple):
    """A caller that waits until a queue has a message at `offset`; `arrived` is called once, from any thread."""

    topic: str
    queue_id: int
    offset: int
    arrived: Callable[[], None]


class Arrivals:
    """The waiters of one store. Safe for threads."""

    def __init__(self) -> None:
        self._waiters: dict[tuple[str, int], list[Waiter]] = {}
        self.table: Mapping[tuple[str, int], object] = self._waiters
        """Empty if nobody waits: a check that costs no call."""
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def waits(self, topic: str, queue_id: int) -> bool:
        """Return True if somebody waits for this queue."""
        return (topic, queue_id) in self._waiters

    def add(self, waiter: Waiter) -> None:
        """Begin to wait."""
        with self._lock:
            self._waiters.setdefault((waiter.topic, waiter.queue_id), []).append(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Give up waiting. A waiter that was called already has no entry, and nothing happens."""
        with self._lock:
            self._keep(waiter.topic, waiter.queue_id, lambda other: other is not waiter)

    def queues(self) -> list[tuple[str, int]]:
        """Return the queues that somebody waits for."""
        with self._lock:
            return list(self._waiters)

    def reached(self, topic: str, queue_id: int, max_offset: int) -> None:
        """Call the waiters for a message below `max_offset`: the queue has all of these now."""
        with self._lock:
            waiting = self._waiters.get((topic, queue_id), ())
            arrived = [waiter for waiter in waiting if waiter.offset < max_offset]
            if arrived:
                self._keep(topic, queue_id, lambda other: other.offset >= max_offset)
        _call(arrived)

    def _keep(self, topic: str, queue_id: int, wanted: Callable[[Waiter], bool]) -> None:
        left = [waiter for waiter in self._waiters.get((topic, queue_id), ()) if wanted(waiter)]
        if left:
            self._waiters[topic, queue_id] = left
        else:
            self._waiters.pop((topic, queue_id), None)

    def notify_all(self) -> None:
        """Wake everybody: the store closes."""
        with self._lock:
            waiters = [waiter for waiting in self._waiters.values() for waiter in waiting]
            self._waiters.clear()
        _call(waiters)


def _call(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        try:
            waiter.arrived()
        except Exception:  # noqa: BLE001 - logged
            # The message is there all the same, and others wait, too. An asyncio loop may be closed by now.
            _log.exception("a callback of on_arrival has failed")
