"""The results of reading a store.

Source of the statuses: `GetMessageStatus`, `DefaultMessageStore.getMessage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from reput.files.forks import NotPickled
from reput.formats.layout import INT64_MAX
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.kernels.layouts.lookup import (
    ASK,
    COUNT_BITS,
    COUNT_MASK,
    FIRST_PLACE,
    MIN_PULL_BYTES,
    PLACE_WORDS,
    AnswersAt,
    PlaceAt,
    answer_at,
    answer_count,
)
from reput.kernels.layouts.vectors import address_of
from reput.store.read.message import StoredMessage

if TYPE_CHECKING:
    from reput.store.read.lookup import IndexLookup, QueueLookup


class GetStatus(StrEnum):
    """The status of a pull; the names are RocketMQ's."""

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
_BUFFER_WORDS = 1 << 12
_NOTHING: NDArray[np.int64] = np.empty(0, dtype=np.int64)


def pull_bytes(max_bytes: int) -> int:
    """Return the number of bytes at which a pull stops, for the number that it asks for."""
    return min(max(max_bytes, MIN_PULL_BYTES), MAX_PULL_BYTES)


class AnswerBuffer:
    """A buffer into which kernels write the places of messages in the log (`ANSWERS_LAYOUT`).

    Many answers share one buffer: to make one for each answer would cost more than the look-up.
    """

    __slots__ = ("address", "words")

    def __init__(self, messages: int = 0) -> None:
        size = max(_BUFFER_WORDS, FIRST_PLACE + PLACE_WORDS * messages)
        self.words: NDArray[np.int64] = np.empty(size, dtype=np.int64)
        self.words[AnswersAt.free], self.words[AnswersAt.end] = FIRST_PLACE, size
        self.address = address_of(self.words)


class GetResult(NotPickled):
    """The answer to a pull: `status`, and `next_offset`, at which the next pull begins.

    Iteration gives `StoredMessage`s, views of the mapped log. They stay valid as long as the result, or they
    themselves, are kept, even if the log's file is deleted meanwhile.

    `queue` is the queue, None if there are no messages. `span` has its `min_offset` and `max_offset`. `words` has
    `count` places from word `at` on. `maps` are the files that hold the records, each with its start.
    `Reading.get_message` and the static methods fill all slots; an `__init__` would cost more than the kernel.
    """

    _instead = "Send its messages: list(result)"
    __slots__ = ("at", "count", "maps", "next_offset", "queue", "span", "status", "words")

    status: GetStatus
    next_offset: int
    span: OffsetRange | QueueLookup
    queue: QueueKey | None
    words: NDArray[np.int64]
    at: int
    count: int
    maps: Sequence[tuple[int, NDArray[np.uint8]]]

    @staticmethod
    def nothing(status: GetStatus, next_offset: int, span: OffsetRange | QueueLookup) -> GetResult:
        """Make the result without messages."""
        return GetResult.of(status, next_offset, span, None, _NOTHING, 0, ())

    @staticmethod
    def of(
        status: GetStatus,
        next_offset: int,
        span: OffsetRange | QueueLookup,
        queue: QueueKey | None,
        words: NDArray[np.int64],
        count: int,
        maps: Sequence[tuple[int, NDArray[np.uint8]]],
    ) -> GetResult:
        """Make the result with `count` messages, whose places begin at word 0."""
        result = GetResult()
        result.status, result.next_offset, result.span, result.queue = status, next_offset, span, queue
        result.words, result.at, result.count, result.maps = words, 0, count, maps
        return result

    @property
    def min_offset(self) -> int:
        """The first queue offset whose message is there."""
        return self.span.min_offset

    @property
    def max_offset(self) -> int:
        """The queue's next offset."""
        return self.span.max_offset

    @property
    def physical_offsets(self) -> NDArray[np.int64]:
        """The log offset of each record found (int64)."""
        return self._places()[:, PlaceAt.log_offset].copy()

    @property
    def sizes(self) -> NDArray[np.int32]:
        """The length of each record found (bytes, int32)."""
        return self._places()[:, PlaceAt.size].astype(np.int32)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[StoredMessage]:
        return self._messages(self.at, self.count)

    def __getitem__(self, number: int) -> StoredMessage:
        return next(self._messages(range(self.at, self.at + PLACE_WORDS * self.count, PLACE_WORDS)[number], 1))

    def _messages(self, at: int, count: int) -> Iterator[StoredMessage]:
        """Make the messages whose places begin at word `at`."""
        queue, places = self.queue, self.words[at : at + PLACE_WORDS * count].tolist()
        start, end, data = 0, 0, memoryview(b"")
        for offset, size in zip(
            places[PlaceAt.log_offset :: PLACE_WORDS], places[PlaceAt.size :: PLACE_WORDS], strict=True
        ):
            if not start <= offset < end:
                start, data = self._file_of(offset)
                end = start + len(data)
            yield StoredMessage(data[offset - start : offset - start + size], start, offset - start, queue)

    def _file_of(self, offset: int) -> tuple[int, memoryview]:
        """Return the start and the bytes of the log's file at a log offset."""
        for start, array in self.maps:
            if start <= offset < start + len(array):
                return start, array.data
        raise IndexError(f"no message at {offset}: this result is closed")

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages found."""
        return list(self)

    @property
    def total_bytes(self) -> int:
        """Bytes of the records found."""
        return int(self._places()[:, PlaceAt.size].sum())

    def pieces(self) -> list[memoryview]:
        """Return the bytes of the records, as views of the mapped log: one for each run of neighbours."""
        if not self.count:
            return []
        places = self.words[self.at : self.at + PLACE_WORDS * self.count].tolist()
        starts, sizes = places[PlaceAt.log_offset :: PLACE_WORDS], places[PlaceAt.size :: PLACE_WORDS]
        pieces: list[memoryview] = []
        at = 0
        # Mostly all are neighbours, as the records of a batch are.
        are_neighbours = starts == [*accumulate(sizes[:-1], initial=starts[0])]
        while at < len(starts):
            begin, end = starts[at], starts[at] + sizes[at]
            map_start, data = self._file_of(begin)
            map_end = map_start + len(data)
            at += 1
            if are_neighbours and at == 1 and begin + sum(sizes) <= map_end:
                end, at = begin + sum(sizes), len(starts)
            while at < len(starts) and starts[at] == end < map_end:
                end += sizes[at]
                at += 1
            pieces.append(data[begin - map_start : end - map_start])
        return pieces

    def _places(self) -> NDArray[np.int64]:
        """Return the place of each record found, one row each."""
        return self.words[self.at : self.at + PLACE_WORDS * self.count].reshape(-1, PLACE_WORDS)

    def close(self) -> None:
        """Release the log's files. Messages taken from the result stay valid as long as they are kept."""
        self.maps = ()

    def __repr__(self) -> str:
        return (
            f"GetResult({self.status}, {len(self)} messages, next_offset={self.next_offset}, "
            f"min_offset={self.min_offset}, max_offset={self.max_offset})"
        )


class QueryResult(NotPickled):
    """The answer to a question by key: messages in log order.

    `count` is their number. `kept` is the messages themselves, or the answer buffer with their places, newest first, as
    `index` reads them. `answer` is the kernel's, whose count is higher if there are older messages; without a kernel it
    is -1 if there are, else 0. `of` and `of_answer` fill all slots; each costs some 10 ns.
    """

    _instead = "Send its messages: list(result)"
    __slots__ = ("answer", "count", "index", "kept")

    answer: int
    count: int
    index: IndexLookup
    kept: NDArray[np.int64] | list[StoredMessage]

    @staticmethod
    def of(messages: Sequence[StoredMessage], more: bool) -> QueryResult:
        """Make the result with these messages, in any order."""
        result = QueryResult()
        result.kept = sorted(messages, key=lambda message: message.physical_offset)
        result.answer, result.count = -1 if more else 0, len(messages)
        return result

    @staticmethod
    def of_answer(answer: int, max_messages: int, index: IndexLookup, buffer: AnswerBuffer) -> QueryResult:
        """Make the result with the kernel's answer, and the buffer that has its places."""
        result = QueryResult()
        # To count at each len() takes 0.6 us, a fifth of a look-up; a call of `answer_count` or `min` 0.05 us.
        count = answer & COUNT_MASK
        result.answer, result.count = answer, count if count <= max_messages else max_messages  # noqa: FURB136
        result.index, result.kept = index, buffer.words
        return result

    @property
    def more(self) -> bool:
        """True if there are older messages; the same question with `before=physical_offsets[0]` finds them."""
        return self.answer < 0 or answer_count(self.answer) > self.count

    @property
    def messages(self) -> list[StoredMessage]:
        """The messages, in log order."""
        kept = self.kept
        if not isinstance(kept, list):
            at = answer_at(self.answer)
            places = kept[at : at + PLACE_WORDS * self.count].reshape(-1, PLACE_WORDS).tolist()
            self.kept = kept = [self.index.message(*place) for place in sorted(places)]
        return kept

    @property
    def physical_offsets(self) -> list[int]:
        """The log offset of each message."""
        return [message.physical_offset for message in self.messages]

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"QueryResult({len(self)} messages, more={self.more})"

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self.messages)

    def __getitem__(self, number: int) -> StoredMessage:
        return self.messages[number]


def outside(known: bool, offset: int, span: OffsetRange) -> GetResult:
    """Return the answer to a pull at an offset outside the queue's span."""
    if not known:
        return GetResult.nothing(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, OffsetRange(0, 0))
    if span.max_offset == 0:
        return GetResult.nothing(GetStatus.NO_MESSAGE_IN_QUEUE, 0, span)
    if offset < span.min_offset:
        return GetResult.nothing(GetStatus.OFFSET_TOO_SMALL, span.min_offset, span)
    if offset == span.max_offset:
        return GetResult.nothing(GetStatus.OFFSET_OVERFLOW_ONE, offset, span)
    return GetResult.nothing(GetStatus.OFFSET_OVERFLOW_BADLY, span.max_offset, span)


class QueryResults(NotPickled, Sequence[QueryResult]):
    """The answers to many questions by key, in the order of the questions.

    Each access makes the `QueryResult` of a question. `counts` and `physical_offsets` are about all questions, and make
    none.
    """

    _instead = "Send its counts and physical_offsets, or the messages of each answer"
    __slots__ = ("_answers", "_buffers", "_single", "_source", "max_messages")

    def __init__(self, count: int, max_messages: int) -> None:
        self.max_messages = max(0, min(max_messages, INT64_MAX))
        self._answers: NDArray[np.int64] = np.full(count, ASK, dtype=np.int64)
        self._source: NDArray[np.intp] = np.zeros(count, dtype=np.intp)
        """The place in `_buffers` of what an answer refers to."""
        self._buffers: list[tuple[IndexLookup, AnswerBuffer]] = []
        self._single: dict[int, QueryResult] = {}

    def take(
        self, numbers: NDArray[np.intp], answers: NDArray[np.int64], index: IndexLookup, buffer: AnswerBuffer
    ) -> None:
        """Take the kernel's answers to some questions, and the buffer that has their places."""
        self._answers[numbers], self._source[numbers] = answers, len(self._buffers)
        self._buffers.append((index, buffer))

    def take_single(self, number: int, result: QueryResult) -> None:
        """Take the result of one question, which the kernel has left open."""
        self._single[number] = result

    def open_questions(self) -> list[int]:
        """Return the numbers of the questions that the kernel has left open."""
        return np.flatnonzero(self._answers < 0).tolist()

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of messages in each answer (int64)."""
        counts = np.where(self._answers < 0, 0, np.minimum(self._answers & COUNT_MASK, self.max_messages))
        for number, result in self._single.items():
            counts[number] = len(result)
        return counts

    @property
    def physical_offsets(self) -> NDArray[np.int64]:
        """The log offset of each message (int64), answer after answer; those of an answer are in log order."""
        counts = self.counts
        ends, questions = np.cumsum(counts), np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(questions)) - (ends - counts)[questions]
        word = (self._answers >> COUNT_BITS)[questions] + PLACE_WORDS * place + PlaceAt.log_offset
        found, source = np.empty(len(questions), dtype=np.int64), self._source[questions]
        is_single = np.isin(questions, list(self._single))
        for number, (_, buffer) in enumerate(self._buffers):
            chosen = (source == number) & ~is_single
            found[chosen] = buffer.words[word[chosen]]
        for number, result in self._single.items():
            found[ends[number] - counts[number] : ends[number]] = result.physical_offsets
        return found[np.lexsort((found, questions))]

    def __len__(self) -> int:
        return len(self._answers)

    @overload
    def __getitem__(self, number: int) -> QueryResult: ...
    @overload
    def __getitem__(self, number: slice) -> list[QueryResult]: ...
    def __getitem__(self, number: int | slice) -> QueryResult | list[QueryResult]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        if number in self._single:
            return self._single[number]
        index, buffer = self._buffers[self._source[number]]
        return QueryResult.of_answer(int(self._answers[number]), self.max_messages, index, buffer)

    def __iter__(self) -> Iterator[QueryResult]:
        """Make the answers one after the other, quicker than one by one by their numbers."""
        made, most, single, buffers = QueryResult.of_answer, self.max_messages, self._single, self._buffers
        for number, (answer, source) in enumerate(zip(self._answers.tolist(), self._source.tolist(), strict=True)):
            if answer < 0:
                yield single[number]
            else:
                index, buffer = buffers[source]
                yield made(answer, most, index, buffer)

    def __repr__(self) -> str:
        return f"QueryResults({len(self)} answers, {int(self.counts.sum())} messages)"
