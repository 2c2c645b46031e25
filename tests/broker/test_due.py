"""The loop that waits for what is due: delay levels and timer messages have the same."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from reput.broker.services import due
from reput.broker.services.due import Arrival, DueLoop, NextLook
from reput.broker.wire.refusals import RefusedError
from reput.errors import ReputError, TailFullError
from reput.formats.wire.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class Store:
    """A store that is full at first, and keeps those who wait."""

    def __init__(self, *, is_tail_full: bool = False) -> None:
        self.is_tail_full = is_tail_full
        self.has_asked = False
        self.waiting: list[Callable[[], None]] = []

    def make_room(self) -> None:
        """Be full no more."""
        self.is_tail_full = False
        self.has_asked = True

    def on_arrival(self, _topic: str, _queue_id: int, _offset: int, arrived: Callable[[], None]) -> Callable[[], None]:
        """Keep a waiter."""
        self.waiting.append(arrived)
        return arrived

    def stop_waiting(self, waiter: Callable[[], None]) -> None:
        """Forget a waiter."""
        self.waiting.remove(waiter)


def looked(store: Store, steps: list[NextLook | Exception], then: Callable[[DueLoop, int], None]) -> list[int]:
    """Run steps until `then`, which is called after each with its number, stops the loop."""
    seen: list[int] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        state = SimpleNamespace(store=store, soon=loop.call_soon, ask_for_indexes=store.make_room)

        def step() -> NextLook:
            seen.append(len(seen))
            following = steps[seen[-1]]
            loop.call_soon(then, due_loop, seen[-1])
            if isinstance(following, Exception):
                raise following
            return following

        due_loop = DueLoop(cast("Any", state), loop, step, "nothing is delivered now")
        due_loop.look()
        while not due_loop._is_stopped:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)

    asyncio.run(run())
    return seen


def test_a_step_comes_again_after_its_time_or_an_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full store, an error, a time and an arrival each lead to the next step; stopping ends all waits.

    After a step that has done something, an arrival is waited for only when no more has come for a while.
    """
    monkeypatch.setattr(due, "AGAIN_S", 0.001)
    monkeypatch.setattr(due, "_GATHER_S", 0.001)
    monkeypatch.setattr(due, "LONGEST_WAIT_S", 0.001)
    store = Store(is_tail_full=True)
    arrival = Arrival("t", 0, 5)

    def then(loop: DueLoop, number: int) -> None:
        if number == 2:
            assert not store.waiting
        elif number == 3:
            store.waiting[0]()
        elif number == 4:
            loop.stop()

    waits = NextLook(None, arrival)
    assert looked(store, [NextLook(0), ReputError("bad"), waits, waits, NextLook(0)], then) == [0, 1, 2, 3, 4]
    assert not store.waiting


def test_an_error_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """The log says what is not done, and why."""
    with caplog.at_level(logging.ERROR, "reput.broker"):
        looked(Store(), [ReputError("the disk is full")], lambda loop, _: loop.stop())
    assert "nothing is delivered now: the disk is full" in caplog.text


def test_an_error_of_ours_ended_the_loop(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A step that fails by a refusal, or by an error of ours, comes again, and the log has each error."""
    monkeypatch.setattr(due, "LONGEST_WAIT_S", 0.001)
    steps = [RefusedError(ResponseCode.SYSTEM_BUSY, "too many wait"), ValueError("ours"), NextLook(0)]
    with caplog.at_level(logging.ERROR, "reput.broker"):
        seen = looked(Store(), steps, lambda loop, number: loop.stop() if number == 2 else None)
    assert seen == [0, 1, 2]
    refused, ours = caplog.records
    assert (refused.getMessage(), refused.exc_info) == ("nothing is delivered now: too many wait", None)
    assert ours.exc_info is not None


def test_a_tail_that_fills_within_a_step_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A step that finds the tail full comes again when there is room, which the log does not mention."""
    monkeypatch.setattr(due, "AGAIN_S", 0.001)
    store = Store()
    steps = [TailFullError("full"), NextLook(0)]
    assert looked(store, steps, lambda loop, number: loop.stop() if number else None) == [0, 1]
    assert store.has_asked
    assert caplog.records == []
