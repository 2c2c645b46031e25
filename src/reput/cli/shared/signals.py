"""Signals that end a command. They are raised as exceptions, but never within a step that must be counted whole."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(KeyboardInterrupt):
    """A signal that ends the command. It is a KeyboardInterrupt, so code that passes Ctrl-C on passes this on."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal_name = signal.Signals(number).name
        self.exit_code = 128 + number


class EndingSignals:
    """Turns Ctrl-C, SIGTERM and SIGHUP into a `StoppedError` while the block runs; ignored signals stay ignored.

    Only the main thread may enter it.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._held = False
        self._waiting: int | None = None

    def __enter__(self) -> Self:
        for number in _ENDING:
            # A command under nohup, or in the background of a script, keeps ignoring the signal.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delay a signal until the block ends, so that its work is done and counted, or neither."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._waiting is not None:
                number, self._waiting = self._waiting, None
                raise StoppedError(number)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._held:
            self._waiting = number
        else:
            raise StoppedError(number)
