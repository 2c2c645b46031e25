"""A store that is open to read is opened anew when somebody else writes it than when it was opened.

How far readers may look depends on who writes: `reput.store.open.newcomers` notices that it is somebody else. The
view of before stays open until the next time, since calls of other threads may still be at it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from reput.errors import StoreLockedError
from reput.store.disk.layout import StoreLayout
from reput.store.open.beside import Writer
from reput.store.open.newcomers import Newcomers
from reput.store.open.opening import Opened
from reput.store.read.view import StoreView


class Reopening:
    """Opens a store to read by `open_beside`, first by `open`, then by `renew` as often as `is_due` says.

    Raises:
        StoreLockedError: a swap of indexes is under way, or was left by a killed job.
    """

    def __init__(self, layout: StoreLayout, open_beside: Callable[[], Opened]) -> None:
        self._layout = layout
        self._open_beside = open_beside
        # Before it is opened: who comes in between has come.
        self._newcomers = Newcomers(layout)
        self._outdated: StoreView | None = None
        self._lock = threading.Lock()
        self._closed = False

    def open(self) -> Opened:
        """Open it for the first time."""
        opened = self._open_beside()
        self._look_out(self._newcomers, opened)
        return opened

    @property
    def is_due(self) -> bool:
        """Whether somebody else writes now."""
        return self._newcomers.have_come

    def renew(self, view: Callable[[], StoreView], take: Callable[[Opened], None]) -> None:
        """Have what was opened anew taken instead of the view that is in use, where that is due.

        While a swap is under way, which is over soon, what was there answers.
        """
        with self._lock, contextlib.suppress(StoreLockedError):
            if self._newcomers.have_come and not self._closed:
                self._renew(view(), take)

    def _renew(self, view: StoreView, take: Callable[[Opened], None]) -> None:
        newcomers = Newcomers(self._layout)
        opened = self._open_beside()
        # Calls of other threads may be at the view that is outdated now, but not at the one before it any more.
        outdated, self._outdated = self._outdated, view
        if outdated is not None:
            outdated.close()
        take(opened)
        come, self._newcomers = self._newcomers, newcomers
        self._look_out(newcomers, opened)
        come.close()

    def _look_out(self, newcomers: Newcomers, opened: Opened) -> None:
        if opened.writer is Writer.NOBODY:
            opened.view.watch(newcomers.watched)
        newcomers.start()

    def end(self) -> None:
        """Look out no more; waits for nothing."""
        self._newcomers.end()

    def close(self) -> None:
        """Open it no more, and let go of the outdated view; the thread that looks out has gone when this returns."""
        with self._lock:
            self._closed = True
            self._newcomers.close()
            if self._outdated is not None:
                self._outdated.close()
                self._outdated = None
