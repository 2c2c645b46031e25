"""Cuts of the log by queues with gaps: each is the first record from its target on, and no row is wrong or missing."""

from __future__ import annotations

import tempfile
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from reput.files import fs
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import QueueKey
from support import databases, frames, stores
from support.records import LogBuilder
from support.switches import config_of

QUEUE = QueueKey(b"gaps", 0)


def without_blanks(store: Path) -> None:
    """Remove the blanks of the queue from the database: RocketMQ writes none into a gap."""
    kind = databases.rocksdb(store)
    entries = databases.content(store)[fmt.ENTRY_FAMILY].items()
    blanks = [key for key, value in entries if fmt.decode_value(value)[0].is_pre_blank]
    with kind.open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        for key in blanks:
            batch.delete(fmt.ENTRY_FAMILY, key)
        database.write(batch)


@pytest.mark.parametrize("kind", ["file", "rocksdb", "rocksdb without blanks"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.sampled_from([1, 1, 1, 2, 5, 30]), min_size=1, max_size=40), others=st.integers(0, 2))
def test_gaps(kind: str, steps: list[int], others: int) -> None:
    """A queue names its first record at or after a place; each message is in one task, once and in order."""
    log = LogBuilder(1 << 16)
    for offset in accumulate(steps):
        log.message("gaps", queue_offset=offset)
        for _ in range(others):
            log.message("others")
    with tempfile.TemporaryDirectory() as folder:
        store = stores.with_log(Path(folder), log)
        reput.rebuild(store, spark=False, config=config_of(kind.split(maxsplit=1)[0], stores.SMALL))
        if kind == "rocksdb without blanks":
            without_blanks(store)
        planned = frames.plan(store, scan="log", minPartitions=8, columns="physicalOffset")
        places = [placed.offset for placed in log.placed]
        assert frames.rows_of(planned)["physicalOffset"].to_pylist() == places
        with planned.snapshot.queues.opened() as queues:
            queue = queues.one(QUEUE)
            assert queue is not None
            of_queue = (one for one in log.placed if one.record.topic == QUEUE.topic)
            # With a gap after blanks at its start, a queue may begin later, as in RocketMQ.
            named = [one.offset for one in of_queue if one.record.queue_offset >= queue.begin]
            for target in {at for place in (0, *places) for at in (place, place + 1)}:
                assert queue.boundary_from(target) == next((place for place in named if place >= target), None)
        assert all(cut.end == after.begin for cut, after in pairwise(planned.cuts))
