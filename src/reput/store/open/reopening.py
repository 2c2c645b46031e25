"""Opening again of a store that is open to read, after its writer has changed.

The end of the log for readers depends on the writer; `reput.store.open.writer_watch` reports a change. The earlier view
stays open until the next change, since calls of other threads may still use it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from reput.errors import StoreLockedError
from reput.store.disk.layout import StoreLayout
from reput.store.open.opening import Opened
from reput.store.open.writer_watch import WriterWatch
from reput.store.owner.holders import Writer, await_swap

_TRIES = 3


class Reopening:
    """Opens a store to read by `open_beside`, first by `open`, then by `renew` as often as `is_due` says.

    Raises:
        StoreLockedError: a swap of indexes is under way, or was left by a killed job.
    """

    def __init__(self, layout: StoreLayout, open_beside: Callable[[], Opened]) -> None:
        self._layout = layout
        self._open_beside = open_beside
        # Before the store is opened, so that no change is missed.
        self._watch = WriterWatch(layout)
        self._opened: Opened | None = None
        self._outdated: Opened | None = None
        self._lock = threading.Lock()
        self._closed = False

    def open(self) -> Opened:
        """Open it for the first time."""
        opened = self._open_beside()
        self._start(self._watch, opened)
        return opened

    @property
    def is_due(self) -> bool:
        """True if the writer has changed, indexes were replaced, or the store has its first log or indexes."""
        if self._watch.has_changed or self.is_replaced:
            return True
        opened = self._opened
        return opened is not None and opened.view.outgrown is not None and opened.view.outgrown(opened.view)

    @property
    def is_replaced(self) -> bool:
        """True if a job has replaced indexes, or is doing so, since the store was opened."""
        opened = self._opened
        return opened is not None and opened.swaps.has_risen

    def renew(self, take: Callable[[Opened], None]) -> None:
        """Open the store again if it is due, and let `take` replace the view in use.

        During a swap the earlier view stays.
        """
        with self._lock, contextlib.suppress(StoreLockedError):
            if self.is_due and not self._closed:
                self._renew(take)

    def renew_after_swap(self, take: Callable[[Opened], None]) -> None:
        """Wait for the end of a swap, and open the store again.

        Raises:
            StoreLockedError: the swap does not end, or was left by a killed job.
        """
        for _ in range(_TRIES - 1):
            await_swap(self._layout)
            # The next swap may have begun.
            with contextlib.suppress(StoreLockedError):
                return self._renew_if_replaced(take)
        await_swap(self._layout)
        return self._renew_if_replaced(take)

    def _renew_if_replaced(self, take: Callable[[Opened], None]) -> None:
        with self._lock:
            # Not after `close`: nothing is open then.
            if self.is_replaced:
                self._renew(take)

    def _renew(self, take: Callable[[Opened], None]) -> None:
        watch = WriterWatch(self._layout)
        opened = self._open_beside()
        # Calls of other threads may use the view that is outdated now, but no longer the one before it.
        ended, outdated = self._outdated, self._opened
        assert outdated is not None, "open comes first"
        self._outdated = outdated
        if ended is not None:
            ended.close()
        take(opened)
        # Expired files of the log take room on the disk as long as they are mapped.
        outdated.view.retire()
        watched, self._watch = self._watch, watch
        self._start(watch, opened)
        watched.close()

    def _start(self, watch: WriterWatch, opened: Opened) -> None:
        self._opened = opened
        if opened.writer is Writer.NOBODY:
            opened.view.watch(watch.watched)
        watch.start()

    def end(self) -> None:
        """Stop watching; waits for nothing."""
        self._watch.end()

    def close(self) -> None:
        """Stop opening the store, and close the outdated view; the watching thread has ended when this returns."""
        with self._lock:
            self._closed = True
            self._watch.close()
            if self._opened is not None:
                self._opened.swaps.close()
                self._opened = None
            if self._outdated is not None:
                self._outdated.close()
                self._outdated = None
