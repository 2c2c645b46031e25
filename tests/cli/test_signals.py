"""Signals that end a command: each way ends its block. The guard around each test finds handlers that are left."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.cli.shared.signals import INTERRUPTED, CommandEnd, EndingSignals, StoppedError, ended_by_sigterm, sigterm_end
from support import golden

if TYPE_CHECKING:
    from pathlib import Path


def test_sigterm_is_the_end_of_a_command() -> None:
    """The block goes on, and sees that it is to end."""
    with sigterm_end() as ended:
        assert not ended.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert ended.is_set()
        ended.wait()


@pytest.mark.parametrize("cause", ["signal", "thread"])
def test_the_end_interrupts_what_may_be_interrupted(cause: str) -> None:
    """While nothing must be completed, the end interrupts the block, also the end that another thread lets come."""
    reached, may_interrupt = [], [False]
    with sigterm_end(lambda: may_interrupt[0]) as ended:
        ended.on_signal(signal.SIGTERM, None)
        reached.append("completed")
        may_interrupt[0] = True
        if cause == "signal":
            signal.raise_signal(signal.SIGTERM)
        else:
            thread = threading.Thread(target=ended.come)
            thread.start()
            thread.join()
            time.sleep(30)
        reached.append("not reached")
    assert ended.is_set()
    assert reached == ["completed"]


def test_a_signal_at_the_begin_of_a_wait_ends_it() -> None:
    """A signal ends a wait wherever it interrupts it: one for a lock was not woken, or its handler waited for it."""
    before = signal.getsignal(signal.SIGALRM)
    try:
        for number in range(40):
            end = CommandEnd()
            signal.signal(signal.SIGALRM, end.on_signal)
            signal.setitimer(signal.ITIMER_REAL, (1 + number) / 1e6)
            end.wait()
            assert end.is_set()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_sigterm_ends_a_block() -> None:
    """The block ends where it is, without an error."""
    reached = []
    with ended_by_sigterm():
        reached.append("begin")
        signal.raise_signal(signal.SIGTERM)
        reached.append("end")
    assert reached == ["begin"]


def test_a_signal_ends_a_wait_for_input_that_it_does_not_interrupt() -> None:
    """A signal ends the wait also where it comes just before it. One that another thread takes comes as early."""
    reading, writing = os.pipe()
    ended = threading.Event()
    taker = threading.Thread(target=ended.wait)
    taker.start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    # Without the mend the end of the input ends the wait, and the test fails.
    sender = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    closer = threading.Timer(20, os.close, [writing])
    try:
        sender.start()
        closer.start()
        with os.fdopen(reading, "rb") as stream, pytest.raises(StoppedError), EndingSignals() as signals:
            signals.wait_for_input(stream)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        ended.set()
        closer.cancel()
        for thread in (taker, sender, closer):
            thread.join()
    os.close(writing)


def test_a_signal_of_others_ends_no_wait_for_input() -> None:
    """A signal that another handler takes lets the wait go on, and input ends it."""
    reading, writing = os.pipe()
    taken = []

    def take(number: int, _frame: object) -> None:
        taken.append(number)
        os.close(writing)

    before = signal.signal(signal.SIGALRM, take)
    try:
        with os.fdopen(reading, "rb") as stream, EndingSignals() as signals:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            signals.wait_for_input(stream)
            assert stream.read() == b""
    finally:
        signal.signal(signal.SIGALRM, before)
    assert taken == [signal.SIGALRM]


def test_an_error_passes() -> None:
    """An error of the block is no end by a signal."""
    with pytest.raises(ValueError, match="wrong"), ended_by_sigterm():
        raise ValueError("wrong")


def test_an_ignored_signal_stays_ignored() -> None:
    """A command that is started with SIGTERM ignored does not end by it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with sigterm_end() as ended, ended_by_sigterm(), EndingSignals():
            signal.raise_signal(signal.SIGTERM)
        assert not ended.is_set()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_exit_codes() -> None:
    """A command that a signal ends has the exit code that a shell gives it."""
    assert INTERRUPTED == StoppedError(signal.SIGINT).exit_code == 130
    assert StoppedError(signal.SIGTERM).exit_code == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("words", [["rebuild"], ["convert", "--to", "rocksdb"], ["export", "--folder", "{folder}"]])
def test_a_job_that_a_signal_stops_says_how_to_go_on(
    words: list[str], number: signal.Signals, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM stops a job as Ctrl-C does: with a sentence, and an exit code of its own."""
    store = golden.unpack("basic", tmp_path)
    monkeypatch.setattr(reput, words[0], lambda *_, **__: signal.raise_signal(number))
    asked = [words[0], str(store), *(word.format(folder=tmp_path / "out") for word in words[1:]), "--no-spark"]
    shown = CliRunner().invoke(cli, asked, standalone_mode=False)
    assert shown.return_value == code, shown.output
    assert shown.stderr.startswith("interrupted; ")
    assert "again" in shown.stderr
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_while_a_get_that_follows_opened_its_store_was_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the command as later, without an error."""

    def ended(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("reput.cli.get.run.stores.reading", ended)
    done = CliRunner().invoke(cli, ["get", str(tmp_path), "-t", "t", "-f"], standalone_mode=False)
    assert done.exception is None
    assert done.return_value == 0
