"""The offset of a queue that may be committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reput.client.queue_work import QueueWork
from reput.client.received import ReceivedMessage, messages_in
from reput.formats.log.record import Record, encode_record
from reput.formats.wire.bodies import QueueName
from reput.formats.wire.subscription import Subscription

QUEUE = QueueName("b", 0, "orders")


def received(*offsets: int) -> list[ReceivedMessage]:
    """Messages with these queue offsets."""
    records = [Record(b"orders", b"body", queue_offset=offset) for offset in offsets]
    return messages_in(b"".join(map(encode_record, records)), "b", "")


def work_at(offset: int) -> QueueWork:
    """The work on a queue from an offset on."""
    return QueueWork(QUEUE, Subscription("orders", "*", "TAG", 1), offset)


def test_nothing_is_committed_before_it_is_done() -> None:
    """The offset is that of the first message that waits or is given; without any, that of the next pull."""
    work = work_at(5)
    assert work.committable == 5
    work.next_offset = 6  # a pull whose messages did not match
    assert work.committable == 6
    work.add(received(6, 7, 9))
    work.next_offset = 10
    assert work.committable == 6
    first, second = work.take(2)
    assert work.committable == 6
    work.done(second.queue_offset)
    assert work.committable == 6
    work.done(first.queue_offset)
    assert work.committable == 9
    work.done(work.take(1)[0].queue_offset)
    assert work.committable == 10


@given(st.lists(st.integers(1, 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_any_order_commits_the_first_that_is_not_done(steps: list[int], random: object) -> None:
    """Messages are done in any order, some twice: the offset is that of the least that is not done."""
    offsets = [sum(steps[: number + 1]) for number in range(len(steps))]
    work = work_at(0)
    work.add(received(*offsets))
    work.next_offset = offsets[-1] + 1
    given_now = work.take(len(offsets))
    assert [one.queue_offset for one in given_now] == offsets
    left = set(offsets)
    order = offsets + offsets[::2]
    random.shuffle(order)  # type: ignore[attr-defined]
    for offset in order:
        work.done(offset)
        left.discard(offset)
        assert work.committable == min(left, default=work.next_offset)
    assert (work.count, work.bytes) == (0, 0)


def test_a_queue_that_is_given_up_keeps_its_offset() -> None:
    """Messages that were done are committed, and no others; its memory is free."""
    work = work_at(0)
    work.add(received(0, 1, 2))
    work.next_offset = 3
    work.done(work.take(2)[0].queue_offset)
    assert work.drop() == work.bytes + 2 * len(received(1)[0].raw)
    assert (work.committable, work.count, work.bytes, work.is_dropped) == (1, 0, 0, True)
