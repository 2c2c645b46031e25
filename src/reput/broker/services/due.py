"""A look at what is due, again and again: after a while, or when a message arrives. No error ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from reput.broker.wire.refusals import RefusedError
from reput.errors import ReputError, TailFullError

if TYPE_CHECKING:
    from reput.broker.state.state import BrokerState
    from reput.store.read.arrivals import Waiter

log = logging.getLogger("reput.broker")
AGAIN_S = 0.1
"""The wait if the store takes nothing now."""
_GATHER_S = 0.05
"""The time for which further messages gather after a step that has done something.

A put that calls a loop takes longer: without it a third fewer acks by gRPC were served.
"""
LONGEST_WAIT_S = 10.0
"""Longer waits are cut into such pieces, so that a clock that is set is noticed."""


def rest_of_wait(begin_ms: int, end_ms: int, at_ms: int) -> int:
    """Return the ms from a time until the end of a wait: never more than the whole, also if the clock was set back."""
    return min(max(end_ms - at_ms, 0), max(end_ms - begin_ms, 0))


def log_failure(failure: str, error: Exception) -> None:
    """Log what is not done now: an error of the store in a line, an error of ours with its traceback."""
    is_known = isinstance(error, (ReputError, RefusedError))
    log.error("%s: %s", failure, error, exc_info=None if is_known else error)


async def each_time(wait_s: float, work: Callable[[], Awaitable[None]], failure: str) -> None:
    """Wait and work in turn, until the task is cancelled. `failure` begins the text of the log for an error."""
    while True:
        await asyncio.sleep(wait_s)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - an error of ours must not end what is done each time
            log_failure(failure, error)


class Arrival(NamedTuple):
    """The first message of a queue that is not there yet."""

    topic: str
    queue_id: int
    offset: int


class NextLook(NamedTuple):
    """The next look: after a time, and at the arrival of a message; None: not for that."""

    wait_s: float | None
    arrival: Arrival | None = None


class DueLoop:
    """Calls a step again and again in the loop's thread. One step does a few things, so that clients are served.

    Args:
        state: the broker's state.
        loop: its loop.
        step: does what is due and says when to look again; an error means that it failed now.
        failure: begins the text of the log for an error.
    """

    def __init__(
        self, state: BrokerState, loop: asyncio.AbstractEventLoop, step: Callable[[], NextLook], failure: str
    ) -> None:
        self._state = state
        self._loop = loop
        self._step = step
        self._failure = failure
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: Waiter | None = None
        self._gathers = False
        self._is_stopped = False

    def look(self) -> None:
        """Do what is due, then wait for more."""
        if self._is_stopped:
            return
        self._end_wait()
        wait_s = self._looked()
        if wait_s is not None:
            self._timer = self._loop.call_later(min(wait_s, LONGEST_WAIT_S), self.look)

    def _looked(self) -> float | None:
        store = self._state.store
        try:
            if store.is_tail_full:
                self._state.ask_for_indexes()
                return AGAIN_S
            wait_s, arrival = self._step()
            # A step that has done something looks again at once, and waits when there is no more.
            self._gathers |= wait_s == 0
            if arrival is not None and self._gathers:
                self._gathers = False
                return _GATHER_S if wait_s is None else min(wait_s, _GATHER_S)
            if arrival is not None:
                # A message may have come since the step has read: then this calls at once.
                self._waiter = store.on_arrival(*arrival, partial(self._state.soon, self.look))
        except TailFullError:
            # A step puts several messages: those before are delivered, and it goes on at this one.
            self._state.ask_for_indexes()
            return AGAIN_S
        except Exception as error:  # noqa: BLE001 - an error of ours must not end what is delivered
            log_failure(self._failure, error)
            return LONGEST_WAIT_S
        return wait_s

    def stop(self) -> None:
        """Look no more."""
        self._is_stopped = True
        self._end_wait()

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiter is not None:
            self._state.store.stop_waiting(self._waiter)
            self._waiter = None
