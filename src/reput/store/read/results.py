"""What reading a store answers.

Source of the statuses: `GetMessageStatus`, `DefaultMessageStore.getMessage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reput.files.forks import NotPickled
from reput.files.maps import address_of
from reput.formats.consume_queue import OffsetRange
from reput.kernels.lookup_columns import COUNT_BITS, COUNT_MASK, Room
from reput.store.read.message import StoredMessage

if TYPE_CHECKING:
    from reput.store.read.lookup import IndexLookup, QueueLookup


class GetStatus(StrEnum):
    """How a pull ended; the names are RocketMQ's."""

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
_ROOM_WORDS = 1 << 12
_NOTHING: NDArray[np.int64] = np.empty(0, dtype=np.int64)


def pull_bytes(max_bytes: int) -> int:
    """The bytes at which a pull stops, for the bytes that were asked for."""
    return min(max(max_bytes, _MIN_PULL_BYTES), MAX_PULL_BYTES)


class Places:
    """Room for the places of messages in the log, two int64 each: log offset and size; see `lookup_columns.Room`.

    Many answers share one: room of its own for each would cost more than to find what is put there.
    """

    __slots__ = ("address", "words")

    def __init__(self, messages: int = 0) -> None:
        self.words: NDArray[np.int64] = np.empty(max(_ROOM_WORDS, Room.PLACES + 2 * messages), dtype=np.int64)
        self.words[Room.FREE], self.words[Room.END] = Room.PLACES, len(self.words)
        self.address = address_of(self.words)


class GetResult(NotPickled):
    """The answer to a pull: `status`, and `next_offset`, where the next pull goes on.

    Iterating gives `StoredMessage`s, views of the mapped log: they stay valid as long as the result, or they
    themselves, are kept, even when the log's file is deleted meanwhile.

    Whoever makes one fills in the rest, too (a constructor would cost more than the kernel). `span`: whatever has
    `min_offset` and `max_offset`; `count` places from word `at` of `words` on; `maps`: the files that hold the records,
    each with its start.
    """

    _instead = "Send its messages: list(result)"
    __slots__ = ("at", "count", "maps", "next_offset", "span", "status", "words")

    status: GetStatus
    next_offset: int
    span: OffsetRange | QueueLookup
    words: NDArray[np.int64]
    at: int
    count: int
    maps: Sequence[tuple[int, NDArray[np.uint8]]]

    @classmethod
    def nothing(cls, status: GetStatus, next_offset: int, span: OffsetRange | QueueLookup) -> GetResult:
        """The answer without messages."""
        return cls.of(status, next_offset, span, _NOTHING, 0, ())

    @classmethod
    def of(
        cls,
        status: GetStatus,
        next_offset: int,
        span: OffsetRange | QueueLookup,
        words: NDArray[np.int64],
        count: int,
        maps: Sequence[tuple[int, NDArray[np.uint8]]],
    ) -> GetResult:
        """The answer with `count` messages, whose places begin at word 0."""
        result = cls()
        result.status, result.next_offset, result.span = status, next_offset, span
        result.words, result.at, result.count, result.maps = words, 0, count, maps
        return result

    @property
    def min_offset(self) -> int:
        """The first offset of the queue whose message is there."""
        return self.span.min_offset

    @property
    def max_offset(self) -> int:
        """The queue's next offset."""
        return self.span.max_offset

    @property
    def physical_offsets(self) -> NDArray[np.int64]:
        """Where the records found start in the log (bytes, int64)."""
        return self.words[self.at : self.at + 2 * self.count : 2].copy()

    @property
    def sizes(self) -> NDArray[np.int32]:
        """The length of each record found (bytes, int32)."""
        return self.words[self.at + 1 : self.at + 2 * self.count : 2].astype(np.int32)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[StoredMessage]:
        return (self[number] for number in range(self.count))

    def __getitem__(self, number: int) -> StoredMessage:
        place = range(self.at, self.at + 2 * self.count, 2)[number]
        offset, size = self.words[place : place + 2].tolist()
        for start, array in self.maps:
            if start <= offset < start + len(array):
                position = offset - start
                return StoredMessage(array.data[position : position + size], start, position)
        raise IndexError(f"no message {number}: this result is closed")

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages found."""
        return list(self)

    @property
    def total_bytes(self) -> int:
        """Bytes of the records found."""
        return int(self.words[self.at + 1 : self.at + 2 * self.count : 2].sum())

    def close(self) -> None:
        """Let go of the log's files. Messages that were taken out stay valid as long as they are kept."""
        self.maps = ()

    def __repr__(self) -> str:
        return (
            f"GetResult({self.status}, {len(self)} messages, next_offset={self.next_offset}, "
            f"min_offset={self.min_offset}, max_offset={self.max_offset})"
        )


class QueryResult(NotPickled):
    """The answer to a question by key: messages in log order.

    As of `GetResult`, whoever makes one fills in what it stands for. `count`: how many messages; `answer`: the
    kernel's, whose count is higher where there are older ones (or -1 there, without a kernel); `kept`: the room with
    the places, newest first, of records that `index` finds, or the messages themselves. Each slot costs some 10 ns.
    """

    _instead = "Send its messages: list(result)"
    __slots__ = ("answer", "count", "index", "kept")

    answer: int
    count: int
    index: IndexLookup
    kept: NDArray[np.int64] | list[StoredMessage]

    @classmethod
    def of(cls, messages: Sequence[StoredMessage], more: bool) -> QueryResult:
        """The answer with these messages, in any order."""
        result = cls()
        result.kept = sorted(messages, key=lambda message: message.physical_offset)
        result.count, result.answer = len(messages), -1 if more else 0
        return result

    @property
    def more(self) -> bool:
        """Whether there are older messages; the same question with `before=physical_offsets[0]` finds them."""
        return self.answer < 0 or self.answer & COUNT_MASK > self.count

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages, in log order."""
        kept = self.kept
        if not isinstance(kept, list):
            at = self.answer >> COUNT_BITS
            places = kept[at : at + 2 * self.count].reshape(-1, 2).tolist()
            self.kept = kept = [self.index.message(*place) for place in sorted(places)]
        return kept

    @property
    def physical_offsets(self) -> list[int]:
        """Where the messages start in the log (bytes)."""
        return [message.physical_offset for message in self.messages]

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"QueryResult({self.count} messages, more={self.more})"

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self.messages)

    def __getitem__(self, number: int) -> StoredMessage:
        return self.messages[number]


def outside(known: bool, offset: int, span: OffsetRange) -> GetResult:
    """The answer to a pull at an offset that a queue with this span has not."""
    if not known:
        return GetResult.nothing(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, OffsetRange(0, 0))
    if span.max_offset == 0:
        return GetResult.nothing(GetStatus.NO_MESSAGE_IN_QUEUE, 0, span)
    if offset < span.min_offset:
        return GetResult.nothing(GetStatus.OFFSET_TOO_SMALL, span.min_offset, span)
    if offset == span.max_offset:
        return GetResult.nothing(GetStatus.OFFSET_OVERFLOW_ONE, offset, span)
    return GetResult.nothing(GetStatus.OFFSET_OVERFLOW_BADLY, span.max_offset, span)
