"""Notices, for a store that is open to read, that somebody else writes it than when it was opened.

How far readers may look is told by another thing for each: by nobody (the log's end is its end), by a reput writer's
watermarks, by a broker's queues. So then the store is opened anew. A thread looks now and then at who has the store; a
store that nobody wrote has no watermarks that change, so it says it in a page that look-ups watch instead: one that
one kernel call answers costs no more than without.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from reput.errors import ReputError
from reput.kernels.records import address_of
from reput.store.disk.layout import StoreLayout
from reput.store.open.beside import Writer, writer_of
from reput.store.owner.holders import marks_of
from reput.store.read.lookup import Watched

_LOOK_S = 0.2


class _Owner(NamedTuple):
    """Who writes. Where nobody does, also the epoch: everybody who has had the store meanwhile has raised it."""

    writer: Writer
    epoch: int


class Newcomers:
    """Looks out, from `start` to `close`, for writers that have come, or gone, since this was made.

    `have_come` says that somebody has; `watched` is what look-ups have to watch for that.

    Raises:
        StoreLockedError: a swap of indexes is under way, or was left by a killed job.
    """

    def __init__(self, layout: StoreLayout) -> None:
        self.have_come = False
        self._layout = layout
        self._before = self._look()
        page = np.zeros(1, dtype=np.int64)
        self._page = page
        self.watched = Watched(generation_at=address_of(page), memory=page)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="reput-newcomers", daemon=True)

    def start(self) -> None:
        """Begin to look out."""
        self._thread.start()

    def _look(self) -> _Owner:
        writer = writer_of(self._layout)
        return _Owner(writer, marks_of(self._layout)["epoch"] if writer is Writer.NOBODY else 0)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self.have_come = self._look() != self._before
            except ReputError:
                # A swap is under way, or there is no store any more: who opens it anew finds out.
                self.have_come = True
            if self.have_come:
                self._page[0] += 1
                return

    def end(self) -> None:
        """Look out no more; waits for nothing."""
        self._ended.set()

    def close(self) -> None:
        """Look out no more; the thread, if it was started, has gone when this returns."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()
