"""A batch of messages as columns on its way into the log: two kernels take it from the columns to the log's file."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reput.formats.log import properties as props
from reput.formats.paths import MAX_QUEUE_ID
from reput.kernels import EncodeKernels, encode_kernels
from reput.kernels.layouts.batch import CHANGED, LAID_OUT, NEW_QUEUE, REFUSED, BatchAt, BatchRefusal
from reput.log.encode.batch import Write, numbers_of, raise_numbers
from reput.log.encode.message import MessageRefusedError, PutManyResult, PutStatus, illegal
from reput.log.encode.queue_directory import BatchScratch, QueueDirectory, piece_of
from reput.log.encode.topics import NO_OFFSET

CALL_WORDS = BatchAt.max_body
"""Words that belong to one batch; the others come from the directory's template."""
_pack_words = struct.Struct(f"={CALL_WORDS}q").pack_into
_HOST = slice(BatchAt.sys_flag, BatchAt.born_host_size + 1)
_REASONS = {
    BatchRefusal.BODY_TOO_LONG: "its body is over {max_body} bytes (maxMessageSize)",
    BatchRefusal.PROPERTIES_TOO_LONG: f"its properties, the CRC's included, are over {props.MAX_PROPERTIES_SIZE} bytes",
    BatchRefusal.BAD_TAGS: "its tags hold the characters 0x01 or 0x02",
    BatchRefusal.BAD_KEY: "its key is empty or holds a space, 0x01 or 0x02 (several keys: a list)",
    BatchRefusal.BAD_UNIQUE_KEY: "its unique key holds the characters 0x01 or 0x02",
    BatchRefusal.BAD_OFFSETS: "its Arrow columns point outside their data",
    BatchRefusal.BAD_QUEUE_ID: "queue id {queue_id}: give 0 to {max_queue_id}",
}


class LaidOutBatch(ABC):
    """A batch of columns on its way into the log, as a `CheckedBatch` is.

    Args:
        directory: the queues of the log's writer.
        words: the words of the vector that are the batch's own (`BATCH_LAYOUT`). Without a born host its messages
            are born where they are stored.
        results: three rows of int64 for each message, which the batch fills, and their address.
        kernels: the encode kernels; None for those that suit the work.
    """

    def __init__(
        self,
        directory: QueueDirectory,
        words: list[int],
        results: NDArray[np.int64],
        at: int,
        kernels: EncodeKernels | None = None,
    ) -> None:
        self.size = 0
        self._directory = directory
        self._kernels = kernels or encode_kernels()
        self._rows = rows = words[BatchAt.rows]
        self._scratch: BatchScratch = directory.scratch(rows)
        self._sizes, self._places, self._numbers = results
        words[BatchAt.queue_at], words[BatchAt.touched_at] = self._scratch.queues_at, self._scratch.touched_at
        words[BatchAt.size_at], words[BatchAt.place_at], words[BatchAt.number_at] = at, at + 8 * rows, at + 16 * rows
        words[BatchAt.stamp] = next(directory.stamps)
        if not words[BatchAt.born_host_at]:
            words[_HOST] = directory.template[_HOST].tolist()
        _pack_words(self._scratch.vector.data, 0, *words)

    @abstractmethod
    def _queue_of(self, row: int) -> tuple[bytes, Any]:
        """Return the topic and the queue id of a message."""

    def lay_out(self) -> bool:
        """Check and measure the messages; return False if the directory has no row left for one of their queues.

        Raises:
            MessageRefusedError: One of the messages cannot be stored; the reason says which.
        """
        run, scratch, answer = self._kernels.lay_out, self._scratch, NEW_QUEUE
        while answer == NEW_QUEUE:
            answer = run(scratch.at)
            if answer == NEW_QUEUE and not self._add_queue(int(scratch.vector[BatchAt.done])):
                break
        self.size = int(scratch.vector[BatchAt.size])
        if answer == LAID_OUT:
            return True
        refusal = self._refusal() if answer == REFUSED else None
        scratch.leave()
        if refusal is not None:
            raise refusal
        return False

    def _add_queue(self, row: int) -> bool:
        try:
            topic, queue_id = self._queue_of(row)
            return self._directory.add(topic.decode(), queue_id)
        except (MessageRefusedError, UnicodeDecodeError) as refusal:
            raise illegal(f"message {row} of the batch: {refusal}") from None

    def _refusal(self) -> MessageRefusedError:
        row, why = int(self._scratch.vector[BatchAt.done]), BatchRefusal(int(self._scratch.vector[BatchAt.refusal]))
        status = PutStatus.MESSAGE_ILLEGAL
        if why is BatchRefusal.PROPERTIES_TOO_LONG:
            status = PutStatus.PROPERTIES_SIZE_EXCEEDED
        max_body = int(self._scratch.vector[BatchAt.max_body])
        queue_id = self._queue_of(row)[1] if why is BatchRefusal.BAD_QUEUE_ID else 0
        reason = _REASONS[why].format(max_body=max_body, queue_id=queue_id, max_queue_id=MAX_QUEUE_ID)
        return MessageRefusedError(status, f"message {row} of the batch: {reason}")

    def encode(self, write: Write, position: int, offset: int, now_ms: int) -> PutManyResult:
        """Write the records and number them; see `CheckedBatch`."""
        directory, scratch = self._directory, self._scratch
        touched = scratch.touched[: int(scratch.vector[BatchAt.touched])]
        queues = [directory.queues[row] for row in touched.tolist()]
        before = numbers_of(queues)
        following = before
        if NO_OFFSET in before:
            following = [directory.topics.next_offset(topic, queue_id, offset) for topic, queue_id in queues]
        directory.set_next(touched, following)
        self._write(write, position, offset, now_ms)
        result = PutManyResult(PutStatus.PUT_OK, self._places, self._sizes, self._numbers, now_ms)
        numbers = directory.next_of(touched)
        scratch.leave()
        raise_numbers(queues, numbers, before)
        return result

    def _write(self, write: Write, position: int, offset: int, now_ms: int) -> None:
        directory, rows, run = self._directory, self._rows, self._kernels.write_records
        first, begin = 0, 0
        while first < rows:
            last, end = rows, self.size
            if end - begin > directory.piece_bytes:
                # As many records as the piece holds. One record may be larger than the piece.
                places = self._places[first:]
                last = first + max(1, int(np.searchsorted(places, begin + directory.piece_bytes, "right")) - 1)
                end = int(self._places[last]) if last < rows else end
            piece = directory.piece if end - begin <= directory.piece_bytes else piece_of(end - begin)
            if run(self._scratch.at, first, last, now_ms, offset + begin, piece.address) == CHANGED:
                raise illegal("a column was changed while it was stored: change none until the call returns")
            write(position + begin, piece.memory[: end - begin])
            first, begin = last, end
