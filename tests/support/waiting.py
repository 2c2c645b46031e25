"""Time in tests: waiting until something holds, and a clock that stays until it is set."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 60.0


def wait_until(holds: Callable[[], Any], what: str = "a condition", most_s: float = TIMEOUT_S) -> None:
    """Wait until something holds; fail, with its name, when it does not come."""
    deadline = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


class Clock:
    """A clock that stays until it is set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """The time now (ms)."""
        return self.now_ms
