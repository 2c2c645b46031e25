"""Time in tests: waiting until something holds, and a clock that stays until it is set."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 30.0
FOLLOWER_TIMEOUT_S = 60.0


def wait_until(holds: Callable[[], Any], what: object = "a condition", most_s: float = TIMEOUT_S) -> None:
    """Wait until something holds; fail when it does not come, and say what, as it reads then."""
    deadline = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


def wait_for_follower(holds: Callable[[], Any], what: str) -> None:
    """Wait until something holds that a follower brings about, on Spark perhaps."""
    wait_until(holds, what, FOLLOWER_TIMEOUT_S)


class Clock:
    """A clock that stays until it is set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """The time now (ms)."""
        return self.now_ms
