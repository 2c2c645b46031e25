"""Messages of delay levels that wait: queue n - 1 of SCHEDULE_TOPIC_XXXX has those of level n.

Source: `ScheduleMessageService`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import attrgetter

from reput.formats import paths
from reput.formats.topics.system_topics import SCHEDULE_TOPIC
from reput.store.pending.timer_row import PendingTimer, timer_row
from reput.store.pending.verify import verify_queued
from reput.store.progress.delays import DelayProgress
from reput.store.read.queue_walk import walk_queue
from reput.store.read.view import StoreView

LEVEL = "delay level"


def delayed(view: StoreView, delays_ms: tuple[int, ...], damage: list[str]) -> Iterator[PendingTimer]:
    """Yield the messages that wait for the delay of their level, by the time at which they are due.

    Args:
        view: the open store.
        delays_ms: the delay of each level, level 1 first.
        damage: gets what cannot be read.
    """
    queues = [queue for queue in view.queues(SCHEDULE_TOPIC) if queue.queue_id < len(delays_ms)]
    if not queues:
        return
    progress = DelayProgress.load(view.layout.root / paths.CONFIG)
    damage += progress.notes
    begins = {queue.queue_id: progress.table.get(queue.queue_id + 1, 0) for queue in queues}
    levels = [_level(view, queue_id, begin, delays_ms[queue_id]) for queue_id, begin in begins.items()]
    yield from heapq.merge(*levels, key=attrgetter("deliver_timestamp"))


def _level(view: StoreView, queue_id: int, begin: int, delay_ms: int) -> Iterator[PendingTimer]:
    for found in walk_queue(view, SCHEDULE_TOPIC, queue_id, begin):
        verified = verify_queued(view, found, SCHEDULE_TOPIC)
        due = 0 if verified.record is None else verified.record.store_timestamp + delay_ms
        row = timer_row(verified, found.physical_offset, found.size, f"{LEVEL} {queue_id + 1}")
        yield row._replace(deliver_timestamp=due)
