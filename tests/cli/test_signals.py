"""Signals that end a command: each way ends its block. The guard around each test finds handlers that are left."""

from __future__ import annotations

import signal

import pytest

from reput.cli.shared.signals import INTERRUPTED, EndingSignals, StoppedError, ended_by_sigterm, sigterm_event


def test_sigterm_sets_an_event() -> None:
    """The block goes on, and sees that it is to end."""
    with sigterm_event() as ended:
        assert not ended.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert ended.is_set()


def test_sigterm_ends_a_block() -> None:
    """The block ends where it is, without an error."""
    reached = []
    with ended_by_sigterm():
        reached.append("begin")
        signal.raise_signal(signal.SIGTERM)
        reached.append("end")
    assert reached == ["begin"]


def test_an_error_passes() -> None:
    """An error of the block is no end by a signal."""
    with pytest.raises(ValueError, match="wrong"), ended_by_sigterm():
        raise ValueError("wrong")


def test_an_ignored_signal_stays_ignored() -> None:
    """A command that is started with SIGTERM ignored does not end by it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with sigterm_event() as ended, ended_by_sigterm(), EndingSignals():
            signal.raise_signal(signal.SIGTERM)
        assert not ended.is_set()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_exit_codes() -> None:
    """A command that a signal ends has the exit code that a shell gives it."""
    assert INTERRUPTED == StoppedError(signal.SIGINT).exit_code == 130
    assert StoppedError(signal.SIGTERM).exit_code == 143
