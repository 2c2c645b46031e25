"""The place of a thread among those that a conductor leads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class DeadlockError(Exception):
    """Every thread waits for another one."""


class Seat:
    """A thread that a conductor leads: what it waits for, until when, and if it has ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.may_go: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.ended = False
        self.turn = threading.Semaphore(0)

    def can_go(self, now: float) -> bool:
        """Return True if it waits for nothing, or no longer."""
        return self.may_go is None or self.may_go() or (self.deadline is not None and now >= self.deadline)
