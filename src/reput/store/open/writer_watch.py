"""A watch on the writer of a store that is open to read: another writer may come, or the writer may end.

The end of the log for readers comes from another source for each writer: the files (nobody writes), a reput writer's
watermarks, or a broker's queues. So after a change the store is opened again. A thread looks at the holder of the store
from time to time. The watermarks of a store without a writer do not change, so the thread reports a change in a page
that look-ups watch instead: a look-up that one kernel call answers costs no more than without this watch.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from reput.errors import ReputError
from reput.kernels.layouts.vectors import address_of
from reput.store.disk.frontier import marks_of
from reput.store.disk.layout import StoreLayout
from reput.store.owner.holders import Writer, writer_of
from reput.store.read.lookup import Watched

_LOOK_S = 0.2


class _WriterSeen(NamedTuple):
    """The writer, and the count of swaps. If nobody writes, also the epoch: every owner since then has raised it."""

    writer: Writer
    swaps: int
    epoch: int


class WriterWatch:
    """Watches, from `start` to `close`, for a change of the writer since this was made.

    `has_changed` reports it; look-ups see it in `watched`.

    Raises:
        StoreLockedError: a swap of indexes is under way, or was left by a killed job.
    """

    def __init__(self, layout: StoreLayout) -> None:
        self.has_changed = False
        self._layout = layout
        self._before = self._look()
        page = np.zeros(1, dtype=np.int64)
        self._page = page
        self.watched = Watched(generation_at=address_of(page), memory=page)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="reput-writer-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def _look(self) -> _WriterSeen:
        writer, marks = writer_of(self._layout), marks_of(self._layout)
        return _WriterSeen(writer, marks["swaps"], marks["epoch"] if writer is Writer.NOBODY else 0)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self.has_changed = self._look() != self._before
            except ReputError:
                # A swap is under way, or the store is gone: the next opening finds out.
                self.has_changed = True
            if self.has_changed:
                self._page[0] += 1
                return

    def end(self) -> None:
        """Stop watching; waits for nothing."""
        self._ended.set()

    def close(self) -> None:
        """Stop watching; the thread, if it was started, has ended when this returns."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()
