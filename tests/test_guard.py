"""The guard around each test finds what a test leaves."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

import reput
from support.leaves import leaves_nothing
from support.opened import CONFIG

if TYPE_CHECKING:
    from pathlib import Path


def test_an_open_store_is_found(tmp_path: Path) -> None:
    """A store that a test leaves open is named by its thread; a closed one leaves nothing."""
    with leaves_nothing(), reput.MessageStore.open(tmp_path / "closed", CONFIG, create=True):
        pass
    with pytest.raises(AssertionError, match="reput-flush"), leaves_nothing(0.01):
        store = reput.MessageStore.open(tmp_path / "open", CONFIG, create=True)
    store.close()


def test_threads_of_a_test_are_found() -> None:
    """A thread that goes on is named; one that is about to end, and one that was there before, are not."""
    going_on, ends = threading.Event(), threading.Event()
    before = threading.Thread(target=going_on.wait, name="before")
    before.start()
    try:
        with pytest.raises(AssertionError, match="left over"), leaves_nothing(0.01):
            threading.Thread(target=going_on.wait, name="left over").start()
        with leaves_nothing():
            threading.Thread(target=ends.wait).start()
            threading.Timer(0.05, ends.set).start()
    finally:
        going_on.set()
        before.join()


def test_handlers_are_found_and_taken_back() -> None:
    """A handler that a test sets is named, and the next test has the one from before."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(AssertionError, match="SIGTERM"), leaves_nothing():
        signal.signal(signal.SIGTERM, lambda *_: None)
    assert signal.getsignal(signal.SIGTERM) is before
