"""Decoded columns grouped by queue: entries in log order, ranges, and which queues are consecutive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from reput.dispatch.batch import group_by_queue
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey, decode_entry
from support.records import LogBuilder
from support.twins import decode

if TYPE_CHECKING:
    from support.records import Transaction

KINDS: tuple[Transaction, ...] = ("", "", "", "commit", "prepared", "rollback")
messages = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.sampled_from(KINDS), st.integers(0, 5)))


@settings(deadline=None)
@given(messages)
def test_grouped_as_one_message_after_the_other(wanted: list[tuple[str, int, Transaction, int]]) -> None:
    """Each queue gets the entries of its plain and committed messages, in log order, and nothing else."""
    log = LogBuilder(1 << 16)
    queues: dict[QueueKey, list[tuple[int, int, int]]] = {}
    for topic, queue_id, kind, offset in wanted:
        placed = log.message(topic, queue_id=queue_id, transaction=kind, queue_offset=offset)
        if kind in ("", "commit"):
            queues.setdefault(QueueKey(topic.encode(), queue_id), []).append((offset, placed.offset, placed.size))
    batch = group_by_queue(decode("compiled", bytes(log)).columns)
    assert dict(batch.queues()).keys() == set(batch.rows.tolist())
    assert {key for _, key in batch.queues()} == set(queues)
    for row, key in batch.queues():
        own, data = queues[key], batch.queue_entries(row)
        entries = [decode_entry(data, at) for at in range(0, len(data), ENTRY_SIZE)]
        assert [(entry.physical_offset, entry.size) for entry in entries] == [place[1:] for place in own]
        offsets = [place[0] for place in own]
        assert (batch.first[row], batch.last[row]) == (offsets[0], offsets[-1])
        assert bool(batch.steady[row]) == (offsets == list(range(offsets[0], offsets[0] + len(offsets))))


def test_names_of_queues() -> None:
    """A queue is shown as topic and id, for people, whatever the topic's bytes are."""
    assert str(QueueKey("订单".encode(), 3)) == "订单/3"
    assert str(QueueKey(b"\xff", 0)) == "\N{REPLACEMENT CHARACTER}/0"
