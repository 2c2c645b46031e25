"""The inner batches and further queues of flagged records, in plain Python: the specification of the compiled twin.

`position` (int64) holds the log offsets of records that `decode_range` has flagged, and `log` holds these records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats.java.java_numbers import parse_whole
from reput.formats.log import properties
from reput.formats.log.record import MAX_BATCH_MESSAGES, batch_offset_bound, decode_record, queue_offset_bound
from reput.formats.paths import is_topic_folder_name
from reput.formats.topics.system_topics import LMQ_PREFIX
from reput.kernels.layouts.columns import FurtherEntries, FurtherRecords, QueueTable, StateAt, Stop
from reput.kernels.reference.decode import add_queue, queue_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reput.kernels.layouts.log import LogBytes
    from reput.kernels.reference.decode import Int64s


def inner_batches(log: LogBytes, position: Int64s, base_out: Int64s, messages_out: NDArray[np.int16]) -> None:
    """Write the first queue offset (int64) and the number of messages (int16) of each inner batch.

    They are -1 and 1 if one of the two properties is missing: RocketMQ counts such a record as one message, at its own
    queue offset. They are -1 and 0 if the properties are not valid: a count must lie between 1 and 32,767, and a queue
    offset must not exceed what a log of this length can reach.

    Source: `CommitLog.setBatchSizeIfNeeded`, `BatchConsumeQueue.putMessagePositionInfoWrapper`.
    """
    for n, at in enumerate(position.tolist()):
        values = properties.decode_properties(decode_record(log.data.data, at - log.base).properties)
        if properties.INNER_BASE not in values or properties.INNER_NUM not in values:
            base_out[n], messages_out[n] = -1, 1
            continue
        offset, messages = _number(values[properties.INNER_BASE]), _number(values[properties.INNER_NUM])
        good = 0 <= offset <= batch_offset_bound(at) and 0 < messages <= MAX_BATCH_MESSAGES
        base_out[n], messages_out[n] = (offset, messages) if good else (-1, 0)


def further_queues(
    log: LogBytes, begin: int, asked: FurtherRecords, queues: QueueTable, state: Int64s, out: FurtherEntries
) -> tuple[int, int]:
    """Append the entries of records in further queues, the queues that INNER_MULTI_DISPATCH names, in log order.

    The n-th name has the n-th number of INNER_MULTI_QUEUE_OFFSET for its queue offset; if there are not as many numbers
    as names, there are no entries. A queue whose name begins with %LMQ% has id 0, another one the record's own. A name
    that can be no topic is passed over, and so is a text that is no number, and a number too high for this log.

    Appends to `out` from `state[StateAt.further]` on. Returns why it stopped (`Stop`: REACHED_END, or RECORDS_FULL if
    the entries or QUEUES_FULL if the table of queues must grow), and the place in `asked` to go on from.

    Source: `ConsumeQueue.multiDispatchLmqQueue`.
    """
    record, position, record_queue_id = asked
    rows = queue_rows(queues, state)
    for n in range(begin, len(record)):
        at = int(position[n])
        values = properties.decode_properties(decode_record(log.data.data, at - log.base).properties)
        topics = _split(values.get(properties.INNER_MULTI_DISPATCH, b""))
        numbers = _split(values.get(properties.INNER_MULTI_QUEUE_OFFSET, b""))
        if len(topics) != len(numbers):
            continue
        found = int(state[StateAt.further])
        if found + len(topics) > len(out.record):
            return int(Stop.RECORDS_FULL), n
        for topic, number in zip(topics, numbers, strict=True):
            offset = _number(number)
            if not 0 <= offset <= queue_offset_bound(at) or not is_topic_folder_name(topic):
                continue
            queue_id = 0 if topic.startswith(LMQ_PREFIX) else int(record_queue_id[n])
            if (topic, queue_id) not in rows and not add_queue(topic, queue_id, queues, state):
                return int(Stop.QUEUES_FULL), n
            row = rows.setdefault((topic, queue_id), len(rows))
            out.record[found], out.queue[found], out.offset[found] = record[n], row, offset
            found += 1
        state[StateAt.further] = found
    return int(Stop.REACHED_END), len(record)


def _number(text: bytes) -> int:
    """Read a number that is not negative, as `Long.parseLong` reads ASCII text; return -1 for anything else."""
    value = parse_whole(text, 64)
    return -1 if value is None or value < 0 else value


def _split(text: bytes) -> list[bytes]:
    """Split a text as Java's `split` does: empty parts at the end do not count."""
    parts = text.rstrip(properties.QUEUE_SEPARATOR).split(properties.QUEUE_SEPARATOR)
    return parts if parts != [b""] else []
