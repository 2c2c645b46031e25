"""A topic of the simulation whose queue is deleted at times, beside the topics that stay.

Its messages have ids that always go on, and each one its number in the queue, which begins anew after a deletion. The
body has both, as `ID NUMBER`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import reput

if TYPE_CHECKING:
    from support.power.verdict import Promises

SIDE = "side"
"""The topic."""
BEGUN, DURABLE = "side begun", "side durable"
"""The promises about ids: those below were put, and are durable."""
FIRST, MAY_GO, EXPIRED = "side first", "side may go", "side expired"
"""Those of the queue as it is now begin here; those below may go with a deletion under way, or with their log files."""
SIDE_PROMISES = (BEGUN, DURABLE, FIRST, MAY_GO, EXPIRED)


class SideMessage(NamedTuple):
    """A message as its body has it."""

    id: int
    number: int

    @classmethod
    def of(cls, body: bytes) -> SideMessage:
        """Read the body."""
        return cls(*(int(word) for word in body.split()))

    def message(self) -> reput.Message:
        """Make the message to put."""
        return reput.Message(SIDE, b"%d %d" % self, keys=f"s{self.id % 3}", tags="t")


def side_messages(store: reput.MessageStore) -> list[SideMessage]:
    """Return the messages of the queue; fail unless each has the number that its place in the queue has."""
    found, offset, end = [], store.min_offset(SIDE, 0), store.max_offset(SIDE, 0)
    while offset < end:
        result = store.get_message(SIDE, 0, offset)
        assert result.next_offset > offset, f"{SIDE} stops at {offset} of {end}: {result.status}"
        for one in result:
            message = SideMessage.of(one.body)
            assert message.number == one.queue_offset, f"{message} has the queue offset {one.queue_offset}"
            found.append(message)
        offset = result.next_offset
    ids = [one.id for one in found]
    assert not ids or ids == list(range(ids[0], ids[-1] + 1)), f"messages of {SIDE} are lost or doubled: {ids}"
    return found


def assert_side_kept(store: reput.MessageStore, promises: Promises) -> None:
    """Fail unless the queue has what was promised: all of it, or nothing that a deletion may have taken."""
    begun, durable, first, may_go, expired = (promises.last(name) for name in SIDE_PROMISES)
    found = side_messages(store)
    if not found:
        assert durable <= max(first, may_go, expired), f"the durable messages of {SIDE} are gone: {promises}"
        return
    begin, end = found[0].id, found[-1].id + 1
    assert begin in (first, may_go) or first <= begin <= expired, f"{SIDE} begins at {begin}: {promises}"
    assert durable <= end <= begun, f"{SIDE} ends before {end}: {promises}"
