"""Signals that end a command, each in one of four ways.

- Ctrl-C is a KeyboardInterrupt, as Python has it. The command ends it with the exit code `INTERRUPTED`.
- `sigterm_end` and `ended_by_sigterm` are the end of a command that has no other.
- `sigterm_as_interrupt` stops a job that can be run again.
- `EndingSignals` are raised as exceptions, but never within a step that must be counted whole.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import IO, Self

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a command that Ctrl-C has ended."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_S = 0.1


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


class CommandEnd:
    """The end of a command: SIGTERM, or a call of `come`. Only the main thread may make one, and wait for it.

    Args:
        may_interrupt: returns True while the main thread does nothing that must be completed, such as a long start.
            The end interrupts it then; otherwise the command looks for it in its own time.
    """

    def __init__(self, may_interrupt: Callable[[], bool] = lambda: False) -> None:
        self._may_interrupt = may_interrupt
        self._main = threading.get_ident()
        self._has_come = False

    def is_set(self) -> bool:
        """Return True if the end has come."""
        return self._has_come

    def wait(self) -> None:
        """Wait until the end comes."""
        while not self._has_come:
            # No lock: a signal that comes just before the thread waits for one does not wake it, and a handler that
            # sets an Event waits for ever for the lock of the wait that it has interrupted.
            time.sleep(_LOOK_S)

    def come(self) -> None:
        """Let the end come; another thread than the main one calls it."""
        self._has_come = True
        if self._may_interrupt():
            signal.pthread_kill(self._main, signal.SIGTERM)

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Let the end come; the handler of SIGTERM."""
        self._has_come = True
        if self._may_interrupt():
            raise _EndedError


@contextlib.contextmanager
def sigterm_end(may_interrupt: Callable[[], bool] = lambda: False) -> Iterator[CommandEnd]:
    """Handle SIGTERM as the end of a command, with exit code 0. `may_interrupt`: see `CommandEnd`."""
    end = CommandEnd(may_interrupt)
    with contextlib.suppress(_EndedError), _handled([signal.SIGTERM], end.on_signal):
        yield end


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


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM stop the block as Ctrl-C does, with a `StoppedError`."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise StoppedError(number)

    with _handled([signal.SIGTERM], stop):
        yield


def exit_code_of(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a command that a signal has stopped."""
    return stop.exit_code if isinstance(stop, StoppedError) else INTERRUPTED


class EndingSignals:
    """Turns Ctrl-C, SIGTERM and SIGHUP into a `StoppedError` while the block runs; ignored signals stay ignored.

    Only the main thread may enter it.
    """

    def __init__(self) -> None:
        self._handled = _handled(_ENDING, self._on_signal)
        self._held = False
        self._waiting: int | None = None

    def __enter__(self) -> Self:
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._wake_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._handled.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._handled.__exit__(None, None, None)
        signal.set_wakeup_fd(self._wake_before)
        os.close(self._wake_read)
        os.close(self._wake_write)

    def wait_for_input(self, stream: IO[bytes]) -> None:
        """Wait until a read of a stream returns at once; a signal ends the wait.

        A signal that comes just before a read begins does not interrupt it, so its handler would wait for the input.
        """
        try:
            number = stream.fileno()
        except io.UnsupportedOperation:  # It is in memory.
            return
        waiting = select.poll()
        waiting.register(self._wake_read, select.POLLIN)
        waiting.register(number, select.POLLIN)
        while all(ready == self._wake_read for ready, _ in waiting.poll()):
            # Not one of these signals, or its handler would have raised.
            os.read(self._wake_read, select.PIPE_BUF)

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
