"""Members of groups that come and go together, and the notices that the others get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from reput.broker.state.consumers import ClientInfo, ConsumerKind, Consumers
from reput.broker.state.locks import QueueLocks
from reput.broker.state.notices import GroupNotices
from reput.broker.state.producers import Producers
from reput.formats.wire.bodies import QueueName
from reput.formats.wire.subscription import Subscription

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from reput.broker.wire.channel import Channel

Work = tuple["Callable[..., object]", tuple[Any, ...]]


class Loop:
    """A loop whose turns a test runs."""

    def __init__(self) -> None:
        self.soon: list[Work] = []
        self.later: list[Work] = []

    def call_soon(self, work: Callable[..., object], *args: Any) -> None:
        """Run work in the next turn."""
        self.soon.append((work, args))

    def call_later(self, _delay_s: float, work: Callable[..., object], *args: Any) -> None:
        """Run work after the interval."""
        self.later.append((work, args))

    def turn(self) -> None:
        """Run what is due in the next turn."""
        due, self.soon = self.soon, []
        for work, args in due:
            work(*args)

    def interval(self) -> None:
        """Let the interval pass."""
        self.soon, self.later = [*self.soon, *self.later], []
        self.turn()


def member(number: int, channel: object) -> ClientInfo:
    """A client with a connection."""
    return ClientInfo(cast("Channel", channel), f"c{number}", 0, 0)


def test_members_that_vanish_together_are_one_notice() -> None:
    """Members that vanish in a turn are one notice to each of the others; later ones are one more for all of them."""
    loop, sent = Loop(), [0]

    def send(group: str) -> None:
        sent[0] += len(consumers.to_notify(group))

    consumers = Consumers(GroupNotices(cast("AbstractEventLoop", loop), send).changed)
    channels = [object() for _ in range(1000)]
    for number, channel in enumerate(channels):
        consumers.register(member(number, channel), "g", ConsumerKind(), [])
    loop.turn()
    assert sent == [1000]
    loop.interval()
    sent[0] = 0
    for channel in channels[:400]:
        consumers.connection_lost(cast("Channel", channel))
    loop.turn()
    assert (sent, len(consumers)) == ([600], 600)
    for channel in channels[400:800]:
        consumers.connection_lost(cast("Channel", channel))
        loop.turn()
    assert sent == [600]
    loop.interval()
    assert (sent, len(consumers)) == ([800], 200)
    loop.interval()
    assert (sent, loop.soon, loop.later) == ([800], [], [])


def test_a_lost_connection_takes_its_own_members_only() -> None:
    """A connection takes the members that it has now: not those of others, nor one that has come by another."""
    consumers, producers = Consumers(lambda _: None), Producers()
    first, second = object(), object()
    for group in ("g", "h"):
        for number, channel in ((1, first), (2, second), (3, first), (3, second)):
            consumers.register(member(number, channel), group, ConsumerKind(), [])
            producers.register(member(number, channel), group)
    consumers.connection_lost(cast("Channel", first))
    producers.connection_lost(cast("Channel", first))
    assert {group: sorted(found.members) for group, found in consumers.all().items()} == {g: ["c2", "c3"] for g in "gh"}
    assert sorted(producers.find("g")) == ["c2", "c3"]
    assert len(consumers) == len(producers) == 4
    consumers.connection_lost(cast("Channel", second))
    producers.connection_lost(cast("Channel", second))
    assert not consumers.all()
    assert not producers.all()
    assert not consumers._of_connections
    assert not producers._of_connections


def test_the_characters_of_subscriptions_are_counted() -> None:
    """The count is that of the subscriptions that are kept, after each way to replace or lose one."""
    consumers, channel = Consumers(lambda _: None), object()

    def take(number: int, *wanted: Subscription) -> int:
        consumers.register(member(number, channel), "g", ConsumerKind(), wanted)
        return consumers.subscribed

    assert take(1, Subscription("t", "a", "TAG", 1), Subscription("u", "b", "TAG", 1)) == 10
    assert take(1, Subscription("t", "longer", "TAG", 1)) == 5
    assert take(2, Subscription("t", "longer", "TAG", 2)) == 10
    consumers.unregister("c1", "g")
    assert consumers.subscribed == 10
    consumers.connection_lost(cast("Channel", channel))
    assert consumers.subscribed == 0


def test_a_group_has_locks_while_its_newest_lives() -> None:
    """A lock that is renewed keeps its group one that consumes in order, whichever was taken first."""
    now = 0.0
    locks = QueueLocks(lambda: now)
    first, second = (QueueName("b", number, "t") for number in range(2))
    locks.lock("g", "c", [first, second])
    now = 50.0
    locks.lock("g", "c", [first])
    now = 100.0
    assert locks.has_locks("g")
    now = 111.0
    assert not locks.has_locks("g")


def test_locks_of_other_groups_are_not_looked_at() -> None:
    """A group's locks are those under its name; the number of all locks is right after each way to end one."""
    now = 0.0
    locks = QueueLocks(lambda: now)
    queues = [QueueName("b", number, "t") for number in range(3)]
    assert locks.lock("g", "c", queues) == queues
    assert locks.lock("h", "c", queues[:1]) == queues[:1]
    assert not locks.has_locks("other")
    locks.unlock("g", "c", [*queues[:2], queues[0]])
    locks.unlock("h", "d", queues)
    assert (locks._locks, set(locks._groups)) == (2, {"g", "h"})
    now = 61.0
    locks.forget_expired()
    assert (locks._locks, locks._groups) == (0, {})
