"""Polls: requests of pop consumers that wait for messages.

Requests of one group for the same queues wait in a line. When a message comes to one of the queues, or what the group
has in order is free again, the first of the line tries again, and so on until one finds nothing. A wait in the store is
shared by all of a line, so ten thousand of them cost no more than one.

Source: `PopLongPollingService`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.services.waiting import WaitingRequest, WaitingRequests

if TYPE_CHECKING:
    from reput.broker.state.state import BrokerState
    from reput.store.read.arrivals import Waiter

MAX_POLLS: Final = 100_000
"""The most requests that wait (maxPopPollingSize)."""
MAX_LINE: Final = 1024
"""The most requests of a group that wait for the same queues (popPollingSize)."""
MAX_WATCHED: Final = 1_000_000
"""The most queues that lines wait for, counted once for each line."""


class PollKey(NamedTuple):
    """The line of a request: the queues that it asks for, and whether it takes messages or only wants to know of them.

    `is_orderly`: retry topics do not count. `lite_client`: the client whose lite topics it asks for; empty for others.
    """

    group: str
    topic: str
    queue_id: int
    takes: bool
    is_orderly: bool
    lite_client: str = ""


@dataclass(slots=True, eq=False)
class Poll(WaitingRequest):
    """A request that waits.

    `attempt` tries again, and returns True if it has answered; `give_up` answers that there is nothing. Neither raises.
    """

    key: PollKey
    attempt: Callable[[], bool]
    give_up: Callable[[], None]


@dataclass(slots=True, eq=False)
class _PollLine:
    """The requests of a key, the oldest first, and the queues that are watched for them."""

    polls: dict[Poll, None] = field(default_factory=dict)
    waiters: dict[tuple[str, int], Waiter] = field(default_factory=dict)
    is_called: bool = False


class Polls:
    """The requests that wait. All methods run in the loop's thread.

    Args:
        state: the broker's state.
        loop: its loop.
        queues_of: returns the queues whose messages a key waits for.
    """

    def __init__(
        self,
        state: BrokerState,
        loop: asyncio.AbstractEventLoop,
        queues_of: Callable[[PollKey], Iterable[tuple[str, int]]],
    ) -> None:
        self._state = state
        self._loop = loop
        self._queues_of = queues_of
        self._lines: dict[PollKey, _PollLine] = {}
        # Of each group and topic: an ack that frees a queue looks at no other.
        self._keys: dict[tuple[str, str], dict[PollKey, None]] = {}
        self._polls = WaitingRequests[Poll](loop, self._end)
        self._watched = 0

    def __len__(self) -> int:
        return len(self._polls)

    def in_line(self, key: PollKey) -> int:
        """Return the number of requests of a key that wait."""
        line = self._lines.get(key)
        return 0 if line is None else len(line.polls)

    def wait(self, poll: Poll, wait_ms: int) -> bool:
        """Let a request wait, at most for a time; return False if too many wait.

        A request that comes first tries once more: a message may have come since its first try.
        """
        line = self._lines.get(poll.key)
        is_full = line is not None and len(line.polls) >= MAX_LINE
        if is_full or not self._polls.add(poll, MAX_POLLS, wait_ms):
            return False
        if line is None:
            line = self._lines[poll.key] = _PollLine()
            self._keys.setdefault((poll.key.group, poll.key.topic), {})[poll.key] = None
            if not self._watch(poll.key, line):
                self._polls.remove(poll)
                self._drop_line(poll.key, line)
                return False
            self._call(poll.key)
        line.polls[poll] = None
        return True

    def wake(self, group: str, topic: str) -> None:
        """Let the requests of a group for a topic try again."""
        for key in self._keys.get((group, topic), ()):
            self._call(key)

    def wake_line(self, key: PollKey) -> None:
        """Let the requests of a key try again."""
        if key in self._lines:
            self._call(key)

    def forget(self, owner: object) -> None:
        """Drop the requests of a connection that is gone."""
        for poll in self._polls.of_owner(owner):
            self._remove(poll)

    def answer_topic(self, topic: str) -> None:
        """Answer the requests for a topic: it is deleted."""
        for key in [one for one in self._lines if one.topic == topic]:
            self._end_line(key)

    def answer_all(self) -> None:
        """Answer all requests: the broker stops."""
        for key in list(self._lines):
            self._end_line(key)

    def _end_line(self, key: PollKey) -> None:
        line = self._lines.get(key)
        for poll in list(line.polls) if line is not None else ():
            self._end(poll)

    def _end(self, poll: Poll) -> None:
        if self._remove(poll):
            poll.give_up()

    def _remove(self, poll: Poll) -> bool:
        if not self._polls.remove(poll):
            return False
        line = self._lines[poll.key]
        del line.polls[poll]
        if not line.polls:
            self._drop_line(poll.key, line)
        return True

    def _drop_line(self, key: PollKey, line: _PollLine) -> None:
        del self._lines[key]
        keys = self._keys[key.group, key.topic]
        del keys[key]
        if not keys:
            del self._keys[key.group, key.topic]
        for waiter in line.waiters.values():
            self._state.store.stop_waiting(waiter)
        self._watched -= len(line.waiters)
        line.waiters.clear()

    # --- messages that come --------------------------------------------------------------------

    def _watch(self, key: PollKey, line: _PollLine) -> bool:
        """Watch the queues of a line that are not yet; return False if too many are watched."""
        store = self._state.store
        for queue in self._queues_of(key):
            if queue in line.waiters:
                continue
            if self._watched >= MAX_WATCHED:
                return False
            self._watched += 1
            # What the queue has now is seen by the next try.
            arrived = partial(self._state.soon, self._arrived, key, line, queue)
            line.waiters[queue] = store.on_arrival(*queue, store.max_offset(*queue), arrived)
        return True

    def _arrived(self, key: PollKey, line: _PollLine, queue: tuple[str, int]) -> None:
        if line.waiters.pop(queue, None) is not None:
            self._watched -= 1
        if self._lines.get(key) is line:
            self._call(key)

    def _call(self, key: PollKey) -> None:
        """Let a line try again in the next turn of the loop."""
        line = self._lines[key]
        if not line.is_called:
            line.is_called = True
            self._loop.call_soon(self._try_again, key, line)

    def _try_again(self, key: PollKey, line: _PollLine) -> None:
        line.is_called = False
        if self._lines.get(key) is not line:
            return
        # Before the try: what comes after it calls again.
        self._watch(key, line)
        for poll in list(line.polls):
            if poll not in line.polls:
                continue
            if not poll.attempt():
                return
            self._remove(poll)
