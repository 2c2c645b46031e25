"""A guard around each test: what a test leaves would decide what a later one finds, far from its cause.

with leaves_nothing():      fails if a thread of ours runs at its end, or if a signal has another handler
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_S = 5.0
"""The time in which a thread ends that was asked to: closing a store need not wait for all of its threads."""
_OUTLIVE = ("reput-broker-kernels",)
"""Threads that may be left: loading numba cannot be stopped, and ends by itself."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def leaves_nothing(patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Fail if the block leaves threads or handlers of signals, which are taken back. Only for the main thread."""
    threads, handlers = set(threading.enumerate()), {number: signal.getsignal(number) for number in _SIGNALS}
    yield
    left = [one for one in threading.enumerate() if one not in threads and _is_ours(one)]
    for thread in left:
        thread.join(patience_s)
    changed = [number.name for number, before in handlers.items() if _is_changed(number, before)]
    for number, before in handlers.items():
        signal.signal(number, before)
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads are left, so close what has started them: {', '.join(alive)}"
    assert not changed, f"handlers of signals are left: {', '.join(changed)}"


def _is_ours(thread: threading.Thread) -> bool:
    """Return True for a thread of reput or of a test; Spark, Arrow and Java's gateway keep some for the process."""
    return (thread.name.startswith("reput-") or not thread.daemon) and thread.name not in _OUTLIVE


def _is_changed(number: signal.Signals, before: object) -> bool:
    """Return True if a signal has another handler; each new context of PySpark sets one of its own."""
    now = signal.getsignal(number)
    return now is not before and not str(getattr(now, "__module__", "")).startswith("pyspark")
