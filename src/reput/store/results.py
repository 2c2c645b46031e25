"""What reading a store answers.

Source of the statuses: `GetMessageStatus`, `DefaultMessageStore.getMessage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.store.message import StoredMessage

if TYPE_CHECKING:
    from reput.store.lookup import IndexLookup, QueueLookup


class GetStatus(StrEnum):
    """How a pull ended."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


MAX_PULL_BYTES = 128 << 20
_MIN_PULL_BYTES = 100


def pull_bytes(max_bytes: int) -> int:
    """The bytes at which a pull stops, for the bytes that were asked for."""
    return min(max(max_bytes, _MIN_PULL_BYTES), MAX_PULL_BYTES)


_NOTHING: NDArray[np.int64] = np.empty(0, dtype=np.int64)


class Span(NamedTuple):
    """Where a queue begins and ends."""

    min_offset: int
    max_offset: int


class GetResult:
    """The answer to a pull.

    `next_offset`: where the next pull goes on; `min_offset`, `max_offset`: the queue's span. `physical_offsets` (int64)
    and `sizes` (int32) of the records found. Iterating gives `StoredMessage`s, views of the mapped log: they stay
    valid as long as the result, or they themselves, are kept, even when the log's file is deleted meanwhile.

    Args:
        span: whatever has `min_offset` and `max_offset`.
        found: as `room_for` makes it; the first `count` offsets and sizes are those of the records.
        maps: the files that hold them, each with its start.
    """

    __slots__ = ("_count", "_found", "_maps", "_span", "next_offset", "status")

    def __init__(
        self,
        status: GetStatus,
        next_offset: int,
        span: Span | QueueLookup,
        found: NDArray[np.int64] = _NOTHING,
        count: int = 0,
        maps: Sequence[tuple[int, NDArray[np.uint8]]] = (),
    ) -> None:
        self.status = status
        self.next_offset = next_offset
        self._span = span
        self._found = found
        self._count = count
        self._maps = maps

    @property
    def min_offset(self) -> int:
        """The first offset of the queue whose message is there."""
        return self._span.min_offset

    @property
    def max_offset(self) -> int:
        """The queue's next offset."""
        return self._span.max_offset

    @property
    def physical_offsets(self) -> NDArray[np.int64]:
        """Where the records found begin in the log (int64)."""
        return self._found[: self._count]

    @property
    def sizes(self) -> NDArray[np.int32]:
        """Bytes of each record found (int32)."""
        return sizes_in(self._found)[: self._count]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[StoredMessage]:
        return (self[number] for number in range(self._count))

    def __getitem__(self, number: int) -> StoredMessage:
        offset, size = int(self.physical_offsets[number]), int(self.sizes[number])
        for start, array in self._maps:
            if start <= offset < start + len(array):
                return StoredMessage(array.data[offset - start : offset - start + size])
        raise IndexError(f"no message {number}: this result is closed")

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages found."""
        return list(self)

    @property
    def total_bytes(self) -> int:
        """Bytes of the records found."""
        return int(self.sizes.sum())

    def close(self) -> None:
        """Let go of the log's files; messages that were taken out stay valid as long as they are kept."""
        self._maps = ()

    def __repr__(self) -> str:
        return (
            f"GetResult({self.status}, {len(self)} messages, next_offset={self.next_offset}, "
            f"min_offset={self.min_offset}, max_offset={self.max_offset})"
        )


def room_for(messages: int) -> NDArray[np.int64]:
    """An array for the log offsets of so many messages and behind them their sizes, each of half an int64."""
    return np.empty(messages + (messages + 1 >> 1), dtype=np.int64)


def found_in(physical_offsets: Sequence[int], sizes: Sequence[int]) -> NDArray[np.int64]:
    """An array as `room_for` makes it, with the records at these log offsets."""
    found = room_for(len(sizes))
    found[: len(sizes)], sizes_in(found)[:] = physical_offsets, sizes
    return found


def sizes_in(found: NDArray[np.int64]) -> NDArray[np.int32]:
    """The sizes (int32) in an array that `room_for` has made."""
    messages = 2 * len(found) // 3
    return found[messages:].view(np.int32)[:messages]


class QueryResult:
    """The answer to a question by key: messages in log order.

    `more`: whether there are older ones, which the same question with `before=physical_offsets[0]` finds.

    Args:
        place: how many there are, and of one alone log offset and size: `index` holds its record.
        messages: in log order; None for one alone, or none.
    """

    __slots__ = ("_index", "_messages", "_place", "more")

    def __init__(
        self,
        place: tuple[int, int, int],
        index: IndexLookup | None,
        messages: list[StoredMessage] | None = None,
        more: bool = False,
    ) -> None:
        self._place = place
        self._index = index
        self._messages = messages
        self.more = more

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages, in log order."""
        if self._messages is None:
            assert self._index is not None
            self._messages = [self._index.message(*self._place[1:])] if self._place[0] else []
        return self._messages

    @property
    def physical_offsets(self) -> list[int]:
        """Where the messages stand in the log."""
        return [message.physical_offset for message in self.messages]

    def __len__(self) -> int:
        return self._place[0]

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self.messages)

    def __getitem__(self, number: int) -> StoredMessage:
        return self.messages[number]


def outside(known: bool, offset: int, span: Span) -> GetResult:
    """The answer to a pull at an offset that a queue with this span has not."""
    if not known:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, Span(0, 0))
    if span.max_offset == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, span)
    if offset < span.min_offset:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, span.min_offset, span)
    if offset == span.max_offset:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, span)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, span.max_offset, span)
