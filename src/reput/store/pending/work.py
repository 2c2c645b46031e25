"""All that waits in an open store: `MessageStore.pending`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reput.formats.layout import INT64_MAX
from reput.formats.system_topics import HALF_TOPIC
from reput.store.pending.timers import PendingTimer, WheelTimers
from reput.store.pending.transactions import PendingTransaction, half_of_timer, open_halves
from reput.store.progress.progress import ConsumerProgress
from reput.store.read.view import StoreView


class PendingWork:
    """Work that waits in a store. Every row is compared with the log, and nothing is changed.

        with reput.MessageStore.open("/data/store", read_only=True) as store:
            for timer in store.pending.timers():
                print(timer.deliver_timestamp, timer.topic, timer.state)

    `damage` gets what could not be read: the other rows still come. It is complete when the rows have been read.
    """

    def __init__(self, view: StoreView, progress: Callable[[], ConsumerProgress]) -> None:
        self._view = view
        self._progress = progress
        self.damage: list[str] = []

    def timers(self, topic: str | None = None, until_ms: int | None = None) -> Iterator[PendingTimer]:
        """Iterate over the timer messages that have not been delivered.

        First those that the timer wheel holds, by the time at which it gives them out; then those that it has not
        taken in from its queue yet. Memory does not grow with their number.

        Args:
            topic: Only messages for this topic.
            until_ms: Only messages that are due at this time or before (ms since 1970).

        Returns:
            The messages.
        """
        for timer in self._timers(INT64_MAX if until_ms is None else until_ms):
            if (topic is None or timer.topic == topic) and (until_ms is None or timer.deliver_timestamp <= until_ms):
                yield timer

    def _timers(self, until_ms: int) -> Iterator[PendingTimer]:
        self._view.catch_up()
        wheel = WheelTimers(self._view, self.damage)
        try:
            yield from wheel.in_wheel(until_ms)
            yield from wheel.in_queue()
        finally:
            wheel.close()

    def transactions(self, topic: str | None = None) -> Iterator[PendingTransaction]:
        """Iterate over the half messages that have neither been committed nor rolled back.

        First those of the half topic, in its order; then those that still wait for a time, as timer messages.

        Args:
            topic: Only messages for this topic.

        Returns:
            The messages.
        """
        for half in self._transactions():
            if topic is None or half.topic == topic:
                yield half

    def _transactions(self) -> Iterator[PendingTransaction]:
        self._view.catch_up()
        yield from open_halves(self._view, self._progress())
        for timer in self.timers(HALF_TOPIC):
            yield half_of_timer(self._view, timer)
