"""Readers of queues for `reput get`. Messages of several queues come in the order in which they were stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.cli.get.names import EARLIEST, LATEST
from reput.cli.shared import opened as stores
from reput.cli.shared import output
from reput.cli.shared.lines import fields_of
from reput.kernels.layouts.fields import FieldRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.cli.shared.lines import LineWriter
    from reput.embedded import MessageStore
    from reput.store.read.results import GetResult
    from reput.store.read.sql_filter import SqlFilter

_AT_ONCE, _AT_ONCE_OF_MANY = 8192, 512
"""Messages of a pull from one queue, and from each of several queues."""
_BYTES_AT_ONCE = 16 << 20
_POLL_S = 0.1
_LOOK_FOR_QUEUES_S = 1.0


class Found(NamedTuple):
    """Messages that a pull has found: log offsets, sizes in bytes, and their files with the files' starts."""

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]
    maps: Sequence[tuple[int, NDArray[np.uint8]]]

    def of(self, rows: NDArray[np.bool_] | slice) -> Found:
        """Return some of them."""
        return Found(self.offsets[rows], self.sizes[rows], self.maps)

    def by_file(self) -> Iterator[tuple[int, NDArray[np.uint8], slice]]:
        """Iterate over runs of messages in one file: its start, its bytes, and the rows of the messages."""
        maps = dict(self.maps)
        starts = np.array(sorted(maps), dtype=np.int64)
        file = np.searchsorted(starts, self.offsets, side="right") - 1
        ends = [*(np.flatnonzero(np.diff(file)) + 1).tolist(), len(file)]
        begin = 0
        for end in ends if len(file) else ():
            start = int(starts[file[begin]])
            yield start, maps[start], slice(begin, end)
            begin = end

    def stored_ms(self) -> NDArray[np.int64]:
        """Return store times; -1 if the record cannot be read; showing the message reports that."""
        times = np.full(len(self.offsets), -1, dtype=np.int64)
        for start, array, rows in self.by_file():
            done = rows.start
            while done < rows.stop:
                left = slice(done, rows.stop)
                table, readable = fields_of(array, start, self.offsets[left], self.sizes[left])
                times[done : done + readable] = table[FieldRow.STORE_TIMESTAMP]
                done += readable + 1
        return times


class QueueReader:
    """Reads a queue from `offset` on.

    `begin_time_ms` and `end_time_ms` are the first and the last wanted store time, and `end` the queue offset after it;
    `floor` is the first wanted log offset. Notes begin with `name` if several queues are read.
    """

    def __init__(
        self, opened: MessageStore, topic: str, queue_id: int, offset: int, wanted: str | SqlFilter | None
    ) -> None:
        self.opened, self.topic, self.queue_id, self.wanted = opened, topic, queue_id, wanted
        self.begin = self.offset = offset
        self.end: int | None = None
        self.begin_time_ms: int | None = None
        self.end_time_ms: int | None = None
        self.floor = 0
        self.at_once = _AT_ONCE
        self.name = ""
        self.last: GetResult | None = None

    def until(self, time_ms: int) -> None:
        """End at the last message that was stored at this time or before."""
        self.end_time_ms = time_ms
        end = self.opened.offset_by_time(self.topic, self.queue_id, time_ms, "upper") + 1
        self.end = end if self.end is None else min(self.end, end)

    def available(self, limit: int | None, follow: bool) -> Iterator[Found]:
        """Iterate over the wanted messages that are there now, at most `limit`."""
        from reput.store.read.own_messages import own_messages
        from reput.store.read.queue_walk import pulls_of

        left = limit

        def pull(offset: int, most: int) -> GetResult:
            asked = most if left is None else min(most, left)
            return own_messages(self.opened, self.topic, self.queue_id, offset, asked, self.wanted, _BYTES_AT_ONCE)

        if limit == 0:
            return
        for at, result in pulls_of(pull, self.offset, self.end, self.at_once):
            self.last, self.offset = result, result.next_offset
            found = self._wanted_of(Found(result.physical_offsets, result.sizes, tuple(result.maps)))
            left = None if left is None else left - len(found.offsets)
            yield found
            self._note_gap(at, result, follow)
            if left == 0:
                return

    def _wanted_of(self, found: Found) -> Found:
        if self.floor:
            found = found.of(found.offsets >= self.floor)
        return found if self.end_time_ms is None else found.of(found.stored_ms() <= self.end_time_ms)

    def _note_gap(self, at: int, result: GetResult, follow: bool) -> None:
        """Note an offset without a message, from which the queue goes on elsewhere."""
        from reput.store.read.results import GetStatus

        text = f"note: {self.name}{_status_text(result, at)}"
        if result.status in {
            GetStatus.OFFSET_TOO_SMALL,
            GetStatus.OFFSET_FOUND_NULL,
            GetStatus.MESSAGE_WAS_REMOVING,
        }:
            output.say(f"{text}. Going on at {self.offset}")
        elif result.status is GetStatus.OFFSET_OVERFLOW_BADLY and follow:
            output.say(f"{text}. Waiting for {self.offset}")

    def say_nothing(self) -> None:
        """Say why no message came."""
        from reput.store.read.results import GetStatus

        result = self.last
        if result is None and self.end_time_ms is None:
            # The last messages of the queue are wanted, and it is empty.
            output.say(f"note: the queue holds no message ({GetStatus.NO_MESSAGE_IN_QUEUE})")
        elif result is None or (self.begin_time_ms is not None and self.begin >= result.max_offset):
            output.say("note: no message was stored in that time")
        elif result.status is GetStatus.OFFSET_OVERFLOW_ONE and self.begin < result.max_offset:
            output.say(f"note: no message from {self.begin} on matches; {_span_text(result)}")
        else:
            output.say(f"note: {_status_text(result, self.begin)}")


class Reader:
    """Shows messages of queues in the order in which they were stored; `shown` counts them."""

    def __init__(self, readers: Sequence[QueueReader], writer: LineWriter) -> None:
        self.readers, self.writer = list(readers), writer
        self.shown = 0
        if len(self.readers) > 1:
            for reader in self.readers:
                reader.name = f"{reader.topic}/{reader.queue_id}: "
                reader.at_once = _AT_ONCE_OF_MANY

    def read(self, count: int | None) -> None:
        """Show `count` messages, or all present messages."""
        self._show_available(count, follow=False)
        if self.shown or count == 0:
            return
        if len(self.readers) == 1:
            self.readers[0].say_nothing()
        elif self.readers:
            output.say(
                f"note: none of {len(self.readers)} queues has such a message; `reput offset STORE -t TOPIC` shows "
                "what they hold"
            )

    def follow(self, count: int | None, queues: Callable[[], Sequence[QueueReader]]) -> None:
        """Show `count` messages, or all that come; `queues` returns readers of new queues."""
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
        limit = None if count is None else count - self.shown
        for found in in_log_order([reader.available(limit, follow) for reader in self.readers]):
            chosen = found if count is None else found.of(slice(0, count - self.shown))
            for start, array, rows in chosen.by_file():
                self.writer.write(array, start, chosen.offsets[rows], chosen.sizes[rows])
            self.shown += len(chosen.offsets)
            if self.shown == count:
                return


def in_log_order(streams: Sequence[Iterator[Found]]) -> Iterator[Found]:
    """Iterate over the messages of several queues in log order, and in queue order within each queue.

    If the order of a queue differs from that of the log, its messages wait for the previous messages of the queue.
    """
    if len(streams) == 1:
        yield from streams[0]
        return
    waiting = [_QueueAhead(stream) for stream in streams]
    while waiting := [one for one in waiting if one.fill()]:
        # Later messages of these queues have higher log offsets than this.
        bound = min((int(one.keys[-1]) for one in waiting if one.ahead is not None), default=None)
        parts = [(one.found.maps, *one.take(bound)) for one in waiting]
        keys, offsets, sizes = (np.concatenate([part[n] for part in parts]) for n in (1, 2, 3))
        order = np.argsort(keys, kind="stable")
        maps = {start: array for part in parts for start, array in part[0]}
        yield Found(offsets[order], sizes[order], list(maps.items()))


class _QueueAhead:
    """Messages of a queue that wait for those of others; `ahead` has the next ones, None at the end.

    `keys` has the highest log offset up to each message.
    """

    def __init__(self, stream: Iterator[Found]) -> None:
        self._stream = stream
        self._top = -1
        self.ahead = next(stream, None)
        self.found = Found(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), ())
        self.keys = self.found.offsets

    def fill(self) -> bool:
        """Load the next messages if none wait; return True if messages wait."""
        while not len(self.keys) and self.ahead is not None:
            self.found, self.ahead = self.ahead, next(self._stream, None)
            self.keys = np.maximum(np.maximum.accumulate(self.found.offsets), self._top)
            self._top = int(self.keys[-1]) if len(self.keys) else self._top
        return len(self.keys) > 0

    def take(self, bound: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Remove the messages with keys up to a bound; return their keys, log offsets and sizes."""
        count = len(self.keys) if bound is None else int(np.searchsorted(self.keys, bound, side="right"))
        taken, keys = self.found.of(slice(0, count)), self.keys[:count]
        self.found, self.keys = self.found.of(slice(count, None)), self.keys[count:]
        return keys, taken.offsets, taken.sizes


def keep_last(readers: Sequence[QueueReader], count: int) -> None:
    """Limit readers, each with at most `count` messages, to the `count` messages that were stored last of all."""
    if len(readers) == 1:
        return
    offsets = np.sort(np.concatenate([_physical_offsets(reader, count) for reader in readers]))
    for reader in readers:
        reader.floor = int(offsets[-count:][0]) if len(offsets) else 0


def _physical_offsets(reader: QueueReader, count: int) -> NDArray[np.int64]:
    """Return the log offsets of a queue's messages from its begin on, without the filter."""
    every = QueueReader(reader.opened, reader.topic, reader.queue_id, reader.offset, None)
    every.end = reader.end
    found = [found.offsets for found in every.available(count, follow=False)]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def range_of(reader: QueueReader, offset: str | int) -> tuple[int, int]:
    """Return the queue offset of `-o`, and the queue's end.

    `-o` is a number from the start, a negative number from the end, or a name.
    """
    span = stores.queues_of(reader.opened, reader.topic, reader.queue_id)[0]
    begin = {EARLIEST: span.min_offset, LATEST: span.max_offset}.get(str(offset))
    if begin is None:
        wanted = int(offset)
        begin = wanted if wanted >= 0 else max(span.min_offset, span.max_offset + wanted)
    return begin, span.max_offset


def _status_text(result: GetResult, offset: int) -> str:
    """Return the reason why a pull from an offset gave nothing, in words, and RocketMQ's name for it."""
    from reput.store.read.results import GetStatus

    if result.max_offset <= result.min_offset:
        return f"{_span_text(result)} ({result.status})"
    words = {
        GetStatus.OFFSET_OVERFLOW_ONE: f"offset {offset} is the queue's end, and no message has it yet",
        GetStatus.OFFSET_OVERFLOW_BADLY: f"offset {offset} is past the queue's end",
        GetStatus.OFFSET_TOO_SMALL: f"offset {offset} is before the queue's first message",
        GetStatus.OFFSET_FOUND_NULL: f"there is no message at offset {offset}",
        GetStatus.MESSAGE_WAS_REMOVING: f"the log does not have the message at offset {offset}",
    }.get(result.status)
    if words is None:
        return f"no message from {offset} on matches; {_span_text(result)}"
    return f"{words} ({result.status}); {_span_text(result)}"


def _span_text(result: GetResult) -> str:
    if result.max_offset <= result.min_offset:
        return "the queue holds no message"
    return f"the queue holds {result.min_offset} to {result.max_offset - 1}"
