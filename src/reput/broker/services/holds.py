"""Pulls that are held (long polling).

A pull that finds nothing new is held until its queue has a message that passes its filter, its time is over, its group
is sent to another offset, its client disconnects, or the broker stops. Then it runs once more, and is answered.

The pulls of a queue share one wait in the store. Pulls with one filter that have seen the same messages are a group,
whose filter is asked once. Filters are asked about the entries of the queue, as `MessageStore.estimate` does: tags by
their hashes, SQL92 by the properties. No message is decoded for a pull that stays held.

Source: `PullRequestHoldService.notifyMessageArriving`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.broker.services.waiting import WaitingRequest, WaitingRequests
from reput.errors import ReputError
from reput.queue.kinds import FILTER_ENTRIES
from reput.store.read.tag_filter import ALL_MESSAGES

if TYPE_CHECKING:
    from reput.broker.state.known_headers import PullHeader
    from reput.broker.state.state import BrokerState
    from reput.broker.wire.answers import Answer
    from reput.broker.wire.requests import Request
    from reput.store.read.arrivals import Waiter
    from reput.store.read.sql_filter import SqlFilter
    from reput.store.read.tag_filter import TagFilter

MAX_HELD: Final = 100_000
"""The most pulls that are held; more are answered at once."""
_STEPS_A_TURN: Final = 2048
"""The steps of filters that one turn of the loop evaluates for the pulls of a queue (a us each, or a few)."""


class PullRequest(NamedTuple):
    """A pull whose header has been checked."""

    request: Request
    header: PullHeader
    offset: int


@dataclass(slots=True, eq=False)
class Hold(WaitingRequest):
    """A pull that is held; `again` answers it, from an offset on."""

    pull: PullRequest
    again: Callable[[PullRequest], Answer]
    group: _AlikeHolds

    @property
    def seen(self) -> int:
        """No message below this queue offset passes its filter."""
        return self.group.seen


@dataclass(slots=True, eq=False)
class _AlikeHolds:
    """The pulls of a queue with one filter, for which no message below the queue offset `seen` passes it."""

    wanted: TagFilter | SqlFilter
    seen: int
    holds: dict[Hold, None] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, Hashable]:
        """The offset and the filter: no other group of the queue has both."""
        return self.seen, self.wanted.key


@dataclass(slots=True, eq=False)
class _HeldQueue:
    """The pulls that are held for a queue, and the wait in the store that they share."""

    groups: dict[tuple[int, Hashable], _AlikeHolds] = field(default_factory=dict)
    waiter: Waiter | None = None
    is_called: bool = False
    """True if the next turn of the loop looks at the groups again."""

    def add(self, hold: Hold) -> None:
        """Add a pull to its group."""
        hold.group = self.groups.setdefault(hold.group.key, hold.group)
        hold.group.holds[hold] = None

    def remove(self, hold: Hold) -> None:
        """Remove a pull from its group."""
        del hold.group.holds[hold]
        if not hold.group.holds:
            del self.groups[hold.group.key]

    def move(self, group: _AlikeHolds, seen: int) -> None:
        """Note how far a group has looked; it becomes one with the group of its filter that has looked as far."""
        del self.groups[group.key]
        group.seen = seen
        into = self.groups.setdefault(group.key, group)
        if into is not group:
            for hold in group.holds:
                hold.group = into
            into.holds |= group.holds


class Holds:
    """The pulls that are held. All methods run in the loop's thread."""

    def __init__(self, state: BrokerState, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._held = WaitingRequests[Hold](loop, self._answer)
        self._queues: dict[tuple[str, int], _HeldQueue] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._held)

    def hold(self, pull: PullRequest, again: Callable[[PullRequest], Answer]) -> bool:
        """Hold a pull, until `again` answers it; return False if there are too many."""
        request, header = pull.request, pull.header
        name = header.topic, header.queue_id
        hold = Hold(
            request.connection, request.size, pull, again, _AlikeHolds(header.wanted or ALL_MESSAGES, pull.offset)
        )
        if not self._held.add(hold, MAX_HELD, header.suspend_ms):
            return False
        request.is_held = True
        queue = self._queues.setdefault(name, _HeldQueue())
        queue.add(hold)
        if queue.waiter is None and not queue.is_called:
            self._watch(name, queue, pull.offset)
        elif self._state.store.max_offset(*name) > pull.offset:
            # A message has come since the pull has looked, and perhaps before the others have begun to wait.
            self._call(name, queue)
        return True

    def _call(self, name: tuple[str, int], queue: _HeldQueue) -> None:
        """Look at a queue in the next turn of the loop."""
        if not queue.is_called:
            queue.is_called = True
            self._state.soon(self._look, name)

    def _watch(self, name: tuple[str, int], queue: _HeldQueue, offset: int) -> None:
        # The store looks again after it has noted the waiter, so no arrival is lost in between.
        queue.waiter = self._state.store.on_arrival(*name, offset, partial(self._state.soon, self._look, name))

    def _look(self, name: tuple[str, int]) -> None:
        """Answer the pulls of a queue that a message has come for; let the others wait for the next one.

        A turn of the loop evaluates as many filters as its steps allow: other clients are served in between.
        """
        queue = self._queues.get(name)
        if queue is None:
            return
        queue.is_called = False
        self._stop_waiting(queue)
        end = self._state.store.max_offset(*name)
        for (seen, reach), looks in groupby(_looks_of_a_turn(queue, end), itemgetter(1, 2)):
            self._look_at(name, queue, [group for group, _, _ in looks], seen, reach)
        if self._queues.get(name) is not queue:
            return
        if any(one.seen < end for one in queue.groups.values()):
            self._call(name, queue)
        else:
            self._watch(name, queue, end)

    def _look_at(
        self, name: tuple[str, int], queue: _HeldQueue, groups: list[_AlikeHolds], seen: int, reach: int
    ) -> None:
        """Answer those of a queue's groups for which a message with an offset in [seen, reach) has come."""
        wanted = [one.wanted for one in groups]
        try:
            have_matches = self._state.store.view.have_matches(*name, seen, reach, wanted)
        except ReputError:
            # The pulls meet the same error, and their clients see it.
            have_matches = [True] * len(groups)
        for group, has_match in zip(groups, have_matches, strict=True):
            if has_match or group.wanted is ALL_MESSAGES:
                self._answer_group(group)
            elif group.holds:
                # An answer before may have ended the connection of its pulls.
                queue.move(group, reach)

    def _answer_group(self, group: _AlikeHolds) -> None:
        """Answer pulls that a message has come for: they need not look at those before it again."""
        for hold in list(group.holds):
            self._answer(hold, group.seen)

    def _answer(self, hold: Hold, offset: int | None = None) -> None:
        """Answer a pull, from its own offset on or from a further one."""
        if self._forget(hold):
            pull = hold.pull if offset is None else hold.pull._replace(offset=offset)
            self._state.guarded(pull.request, partial(hold.again, pull))

    def _forget(self, hold: Hold) -> bool:
        if not self._held.remove(hold):
            return False
        name = hold.pull.header.topic, hold.pull.header.queue_id
        queue = self._queues[name]
        queue.remove(hold)
        if not queue.groups:
            del self._queues[name]
            self._stop_waiting(queue)
        return True

    def _stop_waiting(self, queue: _HeldQueue) -> None:
        if queue.waiter is not None:
            self._state.store.stop_waiting(queue.waiter)
            queue.waiter = None

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
        queue = self._queues.get((topic, queue_id))
        alike = [] if queue is None else queue.groups.values()
        for hold in [one for holds in alike for one in holds.holds if one.pull.header.group == group]:
            self._answer(hold)

    def answer_all(self) -> None:
        """Answer all pulls: the broker stops."""
        for hold in list(self._held):
            self._answer(hold)


def _looks_of_a_turn(queue: _HeldQueue, end: int) -> list[tuple[_AlikeHolds, int, int]]:
    """Return the groups that a turn of the loop looks at, each with where it begins, and how far it gets at most.

    There is at least one, if one has not looked up to `end`.
    """
    found: list[tuple[_AlikeHolds, int, int]] = []
    steps = 0
    for group in queue.groups.values():
        if steps >= _STEPS_A_TURN:
            break
        if group.seen < end:
            wanted, seen = group.wanted, group.seen
            # No further than a pull from there on looks: it then finds what has been found here.
            reach = min(end, seen + min(wanted.most_entries or FILTER_ENTRIES, FILTER_ENTRIES))
            found.append((group, seen, reach))
            steps += (reach - seen) * wanted.steps
    return found
