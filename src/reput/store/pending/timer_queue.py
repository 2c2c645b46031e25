"""The messages of rmq_sys_wheel_timer that no wheel and no database has taken in yet."""

from __future__ import annotations

from collections.abc import Iterator

from reput.formats.log import properties as props
from reput.formats.topics.system_topics import TIMER_TOPIC
from reput.store.pending.timer_row import PendingTimer, timer_row
from reput.store.pending.verify import Verified, verify_queued
from reput.store.read.queue_walk import walk_queue
from reput.store.read.view import StoreView

QUEUE = "queue"


class TimerQueue:
    """Queue 0 of the timer topic from an offset on."""

    def __init__(self, view: StoreView, begin: int) -> None:
        self._view = view
        self._begin = begin

    def rows(self) -> Iterator[PendingTimer]:
        """Yield the messages in the order of the queue. A mark that deletes another message does not come."""
        for physical_offset, size, verified in self._found():
            if props.TIMER_DELETE_KEY not in verified.properties:
                yield timer_row(verified, physical_offset, size, QUEUE)

    def marks(self) -> dict[int, set[str]]:
        """Return the keys that messages of the queue mark as deleted, by the time at which the other one is due."""
        marks: dict[int, set[str]] = {}
        for _, _, verified in self._found():
            key, time = verified.text(props.TIMER_DELETE_KEY), verified.number(props.TIMER_OUT_MS)
            if key is not None and time is not None:
                marks.setdefault(time, set()).add(key)
        return marks

    def _found(self) -> Iterator[tuple[int, int, Verified]]:
        for found in walk_queue(self._view, TIMER_TOPIC, 0, self._begin):
            yield found.physical_offset, found.size, verify_queued(self._view, found, TIMER_TOPIC)


def is_marked(verified: Verified, marked: set[str]) -> bool:
    """Return True if a mark names this message: by its unique key, or with appendTopicForTimerDeleteKey its topic, too.

    Source: `TimerMessageStore.buildDeleteKey`.
    """
    unique_key = verified.text(props.UNIQUE_KEY)
    return unique_key is not None and (unique_key in marked or f"{verified.real_topic}+{unique_key}" in marked)
