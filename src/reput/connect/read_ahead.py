"""Tasks read in this process: threads make record batches ahead of the caller, who gets them in the plan's order.

Kernels, numpy and Arrow release the interpreter's lock, so the threads use several cores.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Condition, Thread

import pyarrow as pa  # type: ignore[import-untyped]

from reput.connect.tasks import ScanTask

_THREADS_MAX = 4
_BATCHES_AHEAD = 8
"""Batches of a task that may wait for the caller: with bodies 16 MiB each, see `BATCH_BYTES`."""


def read_ahead(tasks: Sequence[ScanTask]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of all tasks in order.

    Threads start with the first batch that is asked for. They end with the last one, with an error, or when the
    iterator is closed.

    Raises:
        ReputError: the error of a task, after the batches before it.
    """
    ahead = _Ahead(tasks)
    # A thread that is still inside Arrow when the interpreter ends would crash the process.
    atexit.register(ahead.stop)
    try:
        ahead.start(min(_THREADS_MAX, os.cpu_count() or 1, len(tasks)))
        for number in range(len(tasks)):
            while (batch := ahead.take(number)) is not None:
                yield batch
    finally:
        ahead.stop()
        atexit.unregister(ahead.stop)


@dataclass
class _TaskOutput:
    """Batches of a task that nobody has taken yet, and its end."""

    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    is_done: bool = False
    error: BaseException | None = None


class _Ahead:
    """Gives tasks to threads, and their batches to the caller; the lock of `_changed` guards the fields after it."""

    def __init__(self, tasks: Sequence[ScanTask]) -> None:
        self._tasks = tasks
        self._threads: list[Thread] = []
        self._changed = Condition()
        self._made = [_TaskOutput() for _ in tasks]
        self._next = 0
        self._taking = 0
        self._is_stopped = False

    def start(self, threads: int) -> None:
        """Let threads begin with the first tasks."""
        self._threads = [Thread(target=self._run, name=f"reput-scan-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads, and wait until they have ended."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def take(self, number: int) -> pa.RecordBatch | None:
        """Wait for the next batch of a task; None after the last one.

        Raises:
            ReputError: the error of the task.
        """
        made = self._made[number]
        with self._changed:
            self._taking = number
            self._changed.notify_all()
            self._changed.wait_for(lambda: made.batches or made.is_done)
            if made.batches:
                return made.batches.popleft()
        if made.error is not None:
            raise made.error
        return None

    def _run(self) -> None:
        while (number := self._begin()) is not None:
            made = self._made[number]
            try:
                self._read(number, made)
            except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
                made.error = error
            with self._changed:
                made.is_done = True
                self._changed.notify_all()

    def _begin(self) -> int | None:
        """Wait until the next task is near enough to the caller's, and return its number; None if there is none."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_stopped
                    or self._next >= len(self._tasks)
                    or self._next <= self._taking + len(self._threads)
                )
            )
            if self._is_stopped or self._next >= len(self._tasks):
                return None
            self._next += 1
            return self._next - 1

    def _read(self, number: int, made: _TaskOutput) -> None:
        with closing(self._tasks[number].read()) as batches:  # type: ignore[type-var]
            for batch in batches:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_stopped or len(made.batches) < _BATCHES_AHEAD)
                    if self._is_stopped:
                        return
                    made.batches.append(batch)
                    self._changed.notify_all()
