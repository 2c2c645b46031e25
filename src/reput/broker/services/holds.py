"""Pulls that are held (long polling).

A pull that finds nothing new is held until its queue has a message at its offset, its time is over, its group is sent
to another offset, its client disconnects, or the broker stops. Then it runs once more, and is answered.

Source: `PullRequestHoldService`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.services.waiting import WaitingRequest, WaitingRequests

if TYPE_CHECKING:
    from reput.broker.state.known_headers import PullHeader
    from reput.broker.state.state import BrokerState
    from reput.broker.wire.answers import Answer
    from reput.broker.wire.requests import Request
    from reput.store.read.arrivals import Waiter

MAX_HELD: Final = 100_000
"""The most pulls that are held; more are answered at once."""


class PullRequest(NamedTuple):
    """A pull whose header has been checked."""

    request: Request
    header: PullHeader
    offset: int


@dataclass(slots=True, eq=False)
class Hold(WaitingRequest):
    """A pull that is held; `again` answers it."""

    pull: PullRequest
    again: Callable[[], Answer]
    waiter: Waiter | None = None


class Holds:
    """The pulls that are held. All methods run in the loop's thread."""

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._held = WaitingRequests[Hold](loop, self._answer)

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, pull: PullRequest, again: Callable[[], Answer]) -> bool:
        """Hold a pull, until `again` answers it; return False if there are too many."""
        request, header = pull.request, pull.header
        hold = Hold(request.connection, request.size, pull, again)
        if not self._held.add(hold, MAX_HELD, header.suspend_ms):
            return False
        request.is_held = True
        # The store looks again after it has noted the waiter, so no arrival is lost in between.
        hold.waiter = self._state.store.on_arrival(
            header.topic, header.queue_id, pull.offset, lambda: self._state.soon(self._answer, hold)
        )
        return True

    def _answer(self, hold: Hold) -> None:
        if self._forget(hold):
            self._state.guarded(hold.pull.request, hold.again)

    def _forget(self, hold: Hold) -> bool:
        if not self._held.remove(hold):
            return False
        if hold.waiter is not None:
            self._state.store.stop_waiting(hold.waiter)
        return True

    def forget_connection(self, connection: object) -> None:
        """Drop the pulls of a connection that is gone."""
        for hold in self._held.of_owner(connection):
            self._forget(hold)

    def answer_pulls_of_topic(self, topic: str) -> None:
        """Answer the pulls of a topic: it is deleted."""
        for hold in [one for one in self._held if one.pull.header.topic == topic]:
            self._answer(hold)

    def answer_pulls_of_queue(self, group: str, topic: str, queue_id: int) -> None:
        """Answer the pulls of a group in a queue: its offset has changed."""
        # The first three of a header are these.
        wanted = (group, topic, queue_id)
        for hold in [one for one in self._held if one.pull.header[:3] == wanted]:
            self._answer(hold)

    def answer_all(self) -> None:
        """Answer all pulls: the broker stops."""
        for hold in list(self._held):
            self._answer(hold)
