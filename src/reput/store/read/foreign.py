"""Messages of other queues among those of a pull: damaged entries lead to them.

A pull alone looks at no record, so it gives such messages too, and they say so when they are decoded. What shows or
sends records without that asks here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.errors import DamagedLogError, DamagedStoreError
from reput.formats.log.record import CHECK_NONE
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import stored_text
from reput.kernels import field_kernels
from reput.kernels.layouts.fields import SIZE_BELOW, FieldRow, field_table
from reput.kernels.layouts.log import LogBytes, RecordPlaces
from reput.store.read.damaged_entries import DamagedEntries, EntryDamage
from reput.store.read.queue_answers import PullQuestion, QueueAnswers
from reput.store.read.queue_of_record import is_in_queue
from reput.store.read.results import MAX_PULL_BYTES, GetResult, GetStatus
from reput.store.read.tag_filter import ALL_MESSAGES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def without_foreign(result: GetResult, damaged: DamagedEntries) -> GetResult:
    """Return the answer to a pull without messages of other queues, and report the queue if there are any."""
    queue = result.queue
    if queue is None or (is_own := _own_rows(result, queue)).all():
        return result
    damaged.met(queue, result.next_offset, EntryDamage.FOREIGN)
    places = np.array([result.physical_offsets[is_own], result.sizes[is_own]], dtype=np.int64)
    count = places.shape[1]
    status = GetStatus.FOUND if count else GetStatus.NO_MATCHED_MESSAGE
    return GetResult.of(status, result.next_offset, result.span, queue, places.T.ravel(), count, result.maps)


def foreign_end(reader: QueueAnswers, key: QueueKey, end: int) -> str | None:
    """Return a sentence if the last entry of a queue, before queue offset `end`, leads to a message of another queue.

    Then the files are those of another queue, and so is the number that the next message would get.
    """
    asked = PullQuestion(stored_text(key.topic), key.queue_id, end - 1, 1, ALL_MESSAGES, MAX_PULL_BYTES)
    for message in reader.pull(key, asked):
        try:
            _ = message.record
        except DamagedLogError:
            # A read of it says so. The queue ends there all the same.
            return None
        except DamagedStoreError as error:
            return str(error)
    return None


def _own_rows(result: GetResult, queue: QueueKey) -> NDArray[np.bool_]:
    """Return which messages are of the queue. One that cannot be read counts: what shows it says what is wrong."""
    offsets, sizes = result.physical_offsets, result.sizes
    is_own = np.ones(len(offsets), dtype=np.bool_)
    for start, array in result.maps:
        # Mostly one file has all of them.
        rows = np.arange(len(offsets)) if len(result.maps) == 1 else _rows_in(offsets, start, len(array))
        while len(rows):
            table = field_table(len(rows))
            places = RecordPlaces(offsets[rows], sizes[rows])
            read = field_kernels().read_fields(LogBytes.whole(array, start), places, CHECK_NONE, 0, table)
            if not _all_name(array, table[:, :read], queue):
                is_own[rows[:read]] = [_names_queue(array, table[:, row], queue) for row in range(read)]
            rows = rows[read + 1 :]
    return is_own


def _rows_in(offsets: NDArray[np.int64], start: int, size: int) -> NDArray[np.intp]:
    return np.flatnonzero((offsets >= start) & (offsets < start + size))


def _all_name(array: NDArray[np.uint8], table: NDArray[np.int64], queue: QueueKey) -> bool:
    """Return True if all records, of these fields, have this queue for their own."""
    size = len(queue.topic)
    if (table[FieldRow.QUEUE_ID] != queue.queue_id).any() or (table[FieldRow.TOPIC_SIZE] != size).any():
        return False
    topics = array[table[FieldRow.TOPIC_AT][:, None] + np.arange(size)]
    return bool(topics.tobytes() == queue.topic * len(topics))


def _names_queue(array: NDArray[np.uint8], fields: NDArray[np.int64], queue: QueueKey) -> bool:
    """Return True if the record with these fields may have an entry in the queue."""

    def stretch(at: FieldRow) -> bytes:
        begin, size = fields[at : at + SIZE_BELOW + 1].tolist()
        return array[begin : begin + size].tobytes()

    own = QueueKey(stretch(FieldRow.TOPIC_AT), int(fields[FieldRow.QUEUE_ID]))
    return is_in_queue(own, stretch(FieldRow.PROPERTIES_AT), queue)
