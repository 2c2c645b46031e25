"""Signals that end a command, each in one of three ways.

- Ctrl-C is a KeyboardInterrupt, as Python has it. The command ends it with the exit code `INTERRUPTED`.
- `sigterm_event` and `ended_by_sigterm` are the end of a command that has no other.
- `EndingSignals` are raised as exceptions, but never within a step that must be counted whole.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Self

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a command that Ctrl-C has ended."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _handled(numbers: Sequence[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals while the block runs. Ignored ones stay ignored: under nohup, or in the background of a script.

    Only the main thread may enter it.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    changed = [number for number in numbers if before[number] is not signal.SIG_IGN]
    try:
        for number in changed:
            signal.signal(number, handler)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


class _EndedError(BaseException):
    """SIGTERM has come, and its block ends."""


@contextlib.contextmanager
def sigterm_event() -> Iterator[threading.Event]:
    """Set an event when SIGTERM comes: a command that waits for it ends in its own time, with exit code 0."""
    ended = threading.Event()
    with _handled([signal.SIGTERM], lambda _number, _frame: ended.set()):
        yield ended


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block at once, as if it had come to its end."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _EndedError

    with contextlib.suppress(_EndedError), _handled([signal.SIGTERM], end):
        yield


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
        self._handled = _handled(_ENDING, self._on_signal)
        self._held = False
        self._waiting: int | None = None

    def __enter__(self) -> Self:
        self._handled.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._handled.__exit__(None, None, None)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delay a signal until the block ends, so that the work is done and counted, or not begun."""
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
