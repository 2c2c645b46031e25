"""Inner batches and further queues (light message queues), which few records have.

This is a second step after `decode_range`, over the records that it has flagged; other records cost nothing more. The
twin of `reput.kernels.reference.further`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats.layout import INT64_MAX
from reput.formats.log import properties as props
from reput.formats.log import record as fmt
from reput.formats.topics.system_topics import LMQ_PREFIX
from reput.kernels.compiled.decode import next_separator
from reput.kernels.compiled.examine import GOOD, PROPERTIES_LENGTH_SIZE, examine_parts, is_topic_folder_name
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, byte_at
from reput.kernels.compiled.tools.rows import add_row, find_row, queue_key_of, row_places, starts_with
from reput.kernels.layouts.columns import StateAt, Stop

_NUM = np.frombuffer(props.INNER_NUM + props.NAME_END, dtype=np.uint8)
_BASE = np.frombuffer(props.INNER_BASE + props.NAME_END, dtype=np.uint8)
_DISPATCH = np.frombuffer(props.INNER_MULTI_DISPATCH + props.NAME_END, dtype=np.uint8)
_OFFSETS = np.frombuffer(props.INNER_MULTI_QUEUE_OFFSET + props.NAME_END, dtype=np.uint8)
_LMQ = np.frombuffer(LMQ_PREFIX, dtype=np.uint8)
_COMMA, _MINUS, _PLUS = 0x2C, 0x2D, 0x2B
_CHECK_NONE, _MAX_MESSAGES = fmt.CHECK_NONE, fmt.MAX_BATCH_MESSAGES
_MIN_SIZE, _SLACK = fmt.MIN_RECORD_SIZE, fmt.QUEUE_OFFSET_SLACK
_REACHED_END, _RECORDS_FULL, _QUEUES_FULL = int(Stop.REACHED_END), int(Stop.RECORDS_FULL), int(Stop.QUEUES_FULL)


@kernel
def _find_property(begin, end, limit, name):
    """Return begin and end of a property's value (0, 0: none); the last of several counts."""
    value, value_end = np.int64(0), np.int64(0)
    piece = begin
    while piece < end:
        stop = next_separator(piece, end, limit)
        if stop - piece > len(name) and starts_with(piece, stop, name):
            value, value_end = piece + len(name), stop
        piece = stop + 1
    return value, value_end


@kernel
def _parse_number(begin, end):
    """Read a number that is not negative, as Long.parseLong reads ASCII text; return -1 for anything else."""
    at = begin + 1 if begin < end and (byte_at(begin) == _PLUS or byte_at(begin) == _MINUS) else begin
    if at >= end:
        return np.int64(-1)
    value = np.int64(0)
    for place in range(at, end):
        digit = byte_at(place) - 0x30
        if digit < 0 or digit > 9 or value > (INT64_MAX - digit) // 10:
            return np.int64(-1)
        value = value * 10 + digit
    return np.int64(-1) if byte_at(begin) == _MINUS and value > 0 else value


@kernel
def _properties(log, position):
    """Return begin and end of the properties of the record at log offset `position`; 0, 0 if there is no record."""
    buffer, base, limit = log
    begin = address_of(buffer) + position - base
    last = address_of(buffer) + limit
    verdict, size, _, _, topic_end, _ = examine_parts(begin, last, position, _CHECK_NONE)
    if verdict != GOOD:
        return np.int64(0), np.int64(0)
    return topic_end + PROPERTIES_LENGTH_SIZE, begin + size


@kernel
def inner_batches(log, position, base_out, messages_out):
    """Write the first queue offset and the number of messages of each inner batch; see the twin."""
    last = address_of(log.data) + log.limit
    for n in range(len(position)):
        base_out[n] = -1
        begin, end = _properties(log, position[n])
        first, first_end = _find_property(begin, end, last, _BASE)
        count, count_end = _find_property(begin, end, last, _NUM)
        messages_out[n] = first_end == 0 or count_end == 0
        if messages_out[n]:
            continue
        offset, messages = _parse_number(first, first_end), _parse_number(count, count_end)
        bound = position[n] // _MIN_SIZE * _MAX_MESSAGES + _SLACK
        if 0 <= offset <= bound and 0 < messages <= _MAX_MESSAGES:
            base_out[n] = offset
            messages_out[n] = messages


@kernel
def _next_comma(begin, end):
    at = begin
    while at < end and byte_at(at) != _COMMA:
        at += 1
    return at


@kernel
def _parts(begin, end):
    """Return the number of parts that Java's split(",") gives: empty ones at the end do not count."""
    while end > begin and byte_at(end - 1) == _COMMA:
        end -= 1
    if end == begin:
        return 0
    count = 1
    for at in range(begin, end):
        count += byte_at(at) == _COMMA
    return count


@kernel
def further_queues(log, begin, asked, queues, state, out):
    """Append the entries of further queues; see the twin."""
    last, places = address_of(log.data) + log.limit, row_places(queues)
    record, position, record_queue_id = asked
    record_out, queue_out, offset_out = out
    for n in range(begin, len(record)):
        at, end = _properties(log, position[n])
        name, names_end = _find_property(at, end, last, _DISPATCH)
        number, numbers_end = _find_property(at, end, last, _OFFSETS)
        parts = _parts(name, names_end)
        if names_end == 0 or numbers_end == 0 or parts != _parts(number, numbers_end):
            continue
        found = state[StateAt.further]
        if found + parts > len(record_out):
            return _RECORDS_FULL, n
        bound = position[n] // _MIN_SIZE + _SLACK
        for _ in range(parts):
            name_end, number_end = _next_comma(name, names_end), _next_comma(number, numbers_end)
            offset = _parse_number(number, number_end)
            topic, topic_end = name, name_end
            name, number = name_end + 1, number_end + 1
            if offset < 0 or offset > bound or not is_topic_folder_name(topic, topic_end):
                continue
            queue_id = np.int64(0) if starts_with(topic, topic_end, _LMQ) else np.int64(record_queue_id[n])
            key = queue_key_of(topic, topic_end, queue_id)
            row, place = find_row(places, state[StateAt.queues], topic, topic_end, queue_id, key)
            if row < 0:
                row = add_row(queues, state, place, topic, topic_end, queue_id, key)
                if row < 0:
                    return _QUEUES_FULL, n
            record_out[found], queue_out[found], offset_out[found] = record[n], row, offset
            found += 1
        state[StateAt.further] = found
    return _REACHED_END, len(record)
