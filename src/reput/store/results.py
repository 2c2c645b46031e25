"""What reading a store answers.

Source of the statuses: `GetMessageStatus`, `DefaultMessageStore.getMessage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from reput.store.message import StoredMessage


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


_NO_OFFSETS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
_NO_SIZES: NDArray[np.int32] = np.empty(0, dtype=np.int32)


class GetResult:
    """The answer to a pull.

    `next_offset`: where the next pull goes on; `min_offset`, `max_offset`: the queue's span. `physical_offsets` (int64)
    and `sizes` (int32) of the records found. Iterating gives `StoredMessage`s, views of the mapped log: they stay
    valid as long as the result, or they themselves, are kept, even when the log's file is deleted meanwhile.
    """

    __slots__ = ("_maps", "max_offset", "min_offset", "next_offset", "physical_offsets", "sizes", "status")

    def __init__(
        self,
        status: GetStatus,
        next_offset: int,
        min_offset: int,
        max_offset: int,
        physical_offsets: NDArray[np.int64] = _NO_OFFSETS,
        sizes: NDArray[np.int32] = _NO_SIZES,
        maps: Sequence[tuple[int, NDArray[np.uint8]]] = (),
    ) -> None:
        self.status = status
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.physical_offsets = physical_offsets
        self.sizes = sizes
        self._maps = maps

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[StoredMessage]:
        return (self[number] for number in range(len(self.sizes)))

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


class QueryResult:
    """The answer to a question by key: messages in log order.

    `more`: whether there are older ones, which the same question with `before=physical_offsets[0]` finds.
    """

    __slots__ = ("messages", "more")

    def __init__(self, messages: list[StoredMessage], more: bool) -> None:
        self.messages = messages
        self.more = more

    @property
    def physical_offsets(self) -> list[int]:
        """Where the messages stand in the log."""
        return [message.physical_offset for message in self.messages]

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self.messages)

    def __getitem__(self, number: int) -> StoredMessage:
        return self.messages[number]


def outside(known: bool, offset: int, first: int, end: int) -> GetResult:
    """The answer to a pull at an offset that a queue, which spans [first, end), has not."""
    if not known:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    if end == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, first, end)
    if offset < first:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, first, first, end)
    if offset == end:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, first, end)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, end, first, end)
