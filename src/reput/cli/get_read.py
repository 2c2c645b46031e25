"""Reading queues for `reput get`: one queue on and on, and several in the order in which their messages were stored."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from reput.cli import opened as stores
from reput.cli import output

if TYPE_CHECKING:
    from reput.embedded import MessageStore
    from reput.store.message import StoredMessage
    from reput.store.results import GetResult
    from reput.store.sql_filter import SqlFilter

EARLIEST, LATEST = "earliest", "latest"
_AT_ONCE = 500
_POLL_S = 0.1
_LOOK_FOR_QUEUES_S = 1.0


class QueueReader:
    """Reads a queue from `offset` on.

    `end_time_ms` is the last store time that is wanted, and `end` the queue offset behind it; `floor` is the first log
    offset that is wanted. `name` stands in front of notes where several queues are read.
    """

    def __init__(
        self, opened: MessageStore, topic: str, queue_id: int, offset: int, wanted: str | SqlFilter | None
    ) -> None:
        self.opened, self.topic, self.queue_id, self.wanted = opened, topic, queue_id, wanted
        self.begin = self.offset = offset
        self.end: int | None = None
        self.end_time_ms: int | None = None
        self.floor = 0
        self.name = ""
        self.last: GetResult | None = None

    def until(self, time_ms: int) -> None:
        """Read no message that was stored after a time."""
        self.end_time_ms = time_ms
        last = self.opened.offset_by_time(self.topic, self.queue_id, time_ms, "upper")
        self.end = last + 1

    def available(self, room: Callable[[], int], follow: bool) -> Iterator[StoredMessage]:
        """The wanted messages that are there now; `room` tells how many more may come."""
        while (count := room()) > 0 and (self.end is None or self.offset < self.end):
            asked = min(_AT_ONCE, count, _AT_ONCE if self.end is None else self.end - self.offset)
            result = self.last = self.opened.get_message(self.topic, self.queue_id, self.offset, asked, self.wanted)
            at, self.offset = self.offset, result.next_offset
            is_bounded = self.floor or self.end_time_ms is not None
            yield from filter(self._is_wanted, result) if is_bounded else result
            if not self._goes_on(at, result, follow):
                return

    def _is_wanted(self, message: StoredMessage) -> bool:
        return message.physical_offset >= self.floor and (
            self.end_time_ms is None or message.store_timestamp <= self.end_time_ms
        )

    def _goes_on(self, at: int, result: GetResult, follow: bool) -> bool:
        """Whether there may be more now."""
        from reput.store.results import GetStatus

        if result.status in {GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE}:
            return self.offset > at
        if result.status in {
            GetStatus.OFFSET_TOO_SMALL,
            GetStatus.OFFSET_FOUND_NULL,
            GetStatus.MESSAGE_WAS_REMOVING,
        }:
            output.say(f"note: {self.name}{result.status} at {at}: {_span_text(result)}; going on at {self.offset}")
            return self.offset > at
        if result.status is GetStatus.OFFSET_OVERFLOW_BADLY and follow:
            output.say(f"note: {self.name}{result.status} at {at}: {_span_text(result)}; waiting for {self.offset}")
        return False

    def say_nothing(self) -> None:
        """Say why no message came."""
        from reput.store.results import GetStatus

        result = self.last
        if result is None:
            output.say("note: no message was stored in that time")
        elif result.status is GetStatus.OFFSET_OVERFLOW_ONE and self.begin < result.max_offset:
            output.say(f"note: no message from {self.begin} on matches; {_span_text(result)}")
        else:
            output.say(f"note: {result.status} at {self.begin}: {_span_text(result)}")


class Reader:
    """Reads queues in the order in which their messages were stored; `shown` messages so far."""

    def __init__(self, readers: Sequence[QueueReader], show: Callable[[StoredMessage], None]) -> None:
        self.readers, self.show = list(readers), show
        self.shown = 0
        if len(self.readers) > 1:
            for reader in self.readers:
                reader.name = f"{reader.topic}/{reader.queue_id}: "

    def read(self, count: int | None) -> None:
        """Show `count` messages, or all that are there."""
        self._show_available(count, follow=False)
        if self.shown or count == 0:
            return
        if len(self.readers) == 1:
            self.readers[0].say_nothing()
        else:
            output.say(
                f"note: none of {len(self.readers)} queues has such a message; `reput offset STORE -t TOPIC` shows "
                "what they hold"
            )

    def follow(self, count: int | None, queues: Callable[[], Sequence[QueueReader]]) -> None:
        """Show `count` messages, or all that come; `queues` gives those that are new."""
        looked_at = time.monotonic()
        while True:
            self._show_available(count, follow=True)
            if count is not None and self.shown >= count:
                return
            if time.monotonic() - looked_at > _LOOK_FOR_QUEUES_S:
                self.readers += queues()
                looked_at = time.monotonic()
            output.flush()
            time.sleep(_POLL_S)

    def _show_available(self, count: int | None, *, follow: bool) -> None:
        def room() -> int:
            return _AT_ONCE if count is None else count - self.shown

        streams = (reader.available(room, follow) for reader in self.readers)
        for message in heapq.merge(*streams, key=lambda message: message.physical_offset):
            if room() <= 0:
                return
            self.show(message)
            self.shown += 1


def keep_last(readers: Sequence[QueueReader], count: int) -> None:
    """Let readers, which each begin at most `count` messages before their ends, give the `count` stored last of all."""
    if len(readers) == 1:
        return
    offsets = (offset for reader in readers for offset in _physical_offsets(reader, count))
    kept = heapq.nlargest(count, offsets)
    for reader in readers:
        reader.floor = kept[-1] if kept else 0


def _physical_offsets(reader: QueueReader, count: int) -> Iterator[int]:
    """The log offsets of a queue's messages from its begin on, whatever the filter."""
    every = QueueReader(reader.opened, reader.topic, reader.queue_id, reader.offset, None)
    left = count

    def room() -> int:
        return left

    for message in every.available(room, follow=False):
        yield message.physical_offset
        left -= 1


def begin_of(reader: QueueReader, offset: str | int) -> int:
    """The queue offset that `-o` asks for: a number from the start, a negative one from the end, or a name."""
    span = stores.queues_of(reader.opened, reader.topic, reader.queue_id)[0]
    if offset == EARLIEST:
        return span.min_offset
    if offset == LATEST:
        return span.max_offset
    wanted = int(offset)
    return wanted if wanted >= 0 else max(span.min_offset, span.max_offset + wanted)


def _span_text(result: GetResult) -> str:
    if result.max_offset <= result.min_offset:
        return "the queue holds no message"
    return f"the queue holds {result.min_offset} to {result.max_offset - 1}"
