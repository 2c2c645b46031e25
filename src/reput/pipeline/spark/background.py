"""Calls in the background that do not hold up the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

R = TypeVar("R")


def in_background(call: Callable[[], R], name: str) -> Future[R]:
    """Call a function in a thread of its own; the end of the process does not wait for it."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
