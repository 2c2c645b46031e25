"""Write the records of ordinary messages at the log's end, in one call from what their senders give to the answer.

The twin of `reput.kernels.reference.place`, which is the specification. It looks at the sender's objects itself
(`tools/objects.py`): a conversion of each on the way in costs more than its part of the record.
"""

from __future__ import annotations

import numpy as np

from reput.formats.log import properties as props
from reput.formats.log import record as fmt
from reput.kernels.compiled.encode import (
    KEYS,
    NAME_4,
    NAME_8,
    TAGS,
    UNIQUE,
    copy_named_4,
    copy_named_8,
    has_bad,
    write_head,
)
from reput.kernels.compiled.tools.crc import crc32_at
from reput.kernels.compiled.tools.jit import INT, entry_kernel, kernel
from reput.kernels.compiled.tools.memory import (
    byte_at,
    copy_bytes,
    publish_64,
    set_word,
    store_64,
    store_be16,
    store_be32,
    store_be64,
    word,
    word_address,
)
from reput.kernels.compiled.tools.objects import (
    ANSWER,
    NO_INT,
    OBJECT,
    answer,
    bytes_of,
    class_at,
    dict_number,
    int_of,
    is_none,
    list_item,
    list_size,
    object_at,
    text_of,
)
from reput.kernels.layouts.place import NO_ROOM, NOT_PLACED, OWN_HOST, TOPIC_LAYOUT, EndAt, MessageAt, TopicAt

__all__ = ["place_message", "place_messages", "place_record"]

_HEAD_SIZE, _TIME_SIZE = fmt.HEAD_SIZE, fmt.BEFORE_BODY_V4.sizes["store_timestamp"]
_BODY_LENGTH_SIZE, _PROPERTIES_LENGTH_SIZE = fmt.BODY_LENGTH_SIZE, fmt.PROPERTIES_LENGTH.size
_HOST_V4_SIZE, _BORN_HOST_V6 = fmt.HOST_V4_SIZE, fmt.FLAG_BORN_HOST_V6
_MAX_PROPERTIES, _TOPIC_SIZE = props.MAX_PROPERTIES_SIZE, TOPIC_LAYOUT.size
_REFUSED = -1
"""In place of a property's size: its text is for the general way."""


@kernel
def _property(text, name_size, is_key):
    """Return address and end of a property's text, and its bytes in the record, 0 if there is none, or _REFUSED."""
    if is_none(text):
        return np.int64(0), np.int64(0), np.int64(0)
    at, size = text_of(text)
    if at == 0 or size > _MAX_PROPERTIES or has_bad(at, at + size, is_key):
        return np.int64(0), np.int64(0), np.int64(_REFUSED)
    return at, at + size, np.int64(name_size + size + 1)


@kernel
def _write_properties(at, further, tags, keys, unique):
    """Write the properties, each an address, an end and a size."""
    if further[2] > 0:
        copy_bytes(at, further[0], further[2])
        at += further[2]
    if tags[2] > 0:
        at = copy_named_4(at, TAGS, tags[0], tags[1])
    if keys[2] > 0:
        at = copy_named_4(at, KEYS, keys[0], keys[1])
    if unique[2] > 0:
        copy_named_8(at, UNIQUE, unique[0], unique[1])


@kernel
def _publish(end, now, offset):
    """Raise the log's end."""
    set_word(end, EndAt.last_ms, now)
    set_word(end, EndAt.offset, offset)
    publish_64(word(end, EndAt.wrote_at), offset)
    if word(end, EndAt.confirmed_at) != 0:
        publish_64(word(end, EndAt.confirmed_at), offset)


@kernel
def _write_after_head(record, end, born_host, now, host_size):
    """Write what lies between the born timestamp and the body's length; return the address after it."""
    at, tail_size = record + _HEAD_SIZE, word(end, EndAt.tail_size)
    if born_host != OWN_HOST:
        store_be64(at, born_host)
    else:
        copy_bytes(at, word(end, EndAt.born_host_at), host_size)
    at += host_size
    store_be64(at, now)
    copy_bytes(at + _TIME_SIZE, word(end, EndAt.tail_at), tail_size)
    return at + _TIME_SIZE + tail_size


@kernel
def _now(end, now_ns):
    """Return the store time in ms, not before that of the last record: the clock may have been set back."""
    return max(now_ns // 1_000_000, word(end, EndAt.last_ms))


@kernel
def _has_room(end, offset):
    """Return True if the memory takes records up to a log offset, and no thread holds the lock."""
    return offset <= word(end, EndAt.room_end) and byte_at(word(end, EndAt.held_at)) & 1 == 0


@kernel
def _look(queue_id, flag, born, body, tags, keys, unique_key, properties):
    """Look at what a sender gives; return the parts of a record, the first False if the general way must look at it.

    The parts: queue id, flag, born timestamp (NO_INT: none), address and size of the body, the properties (each an
    address, an end and a size), and their size.
    """
    queue, own_flag, own_born = int_of(queue_id), int_of(flag), NO_INT if is_none(born) else int_of(born)
    body_at, body_size = bytes_of(body)
    tag, key = _property(tags, NAME_4, False), _property(keys, NAME_4, True)
    unique = _property(unique_key, NAME_8, False)
    if tag[1] == tag[0]:
        tag = (tag[0], tag[1], min(tag[2], np.int64(0)))
    further_at, further_size = (np.int64(0), np.int64(0)) if is_none(properties) else bytes_of(properties)
    properties_size = tag[2] + key[2] + unique[2] + further_size
    is_good = (
        queue >= 0
        and own_flag == np.int32(own_flag)
        and (own_born != NO_INT or is_none(born))
        and body_at != 0
        and min(tag[2], key[2], unique[2]) >= 0
        and key[2] != NAME_4 + 1
        and unique[2] != NAME_8 + 1
        and (further_at != 0 or is_none(properties))
        and properties_size <= _MAX_PROPERTIES
    )
    further = (further_at, further_at + further_size, further_size)
    return is_good, queue, own_flag, own_born, body_at, body_size, (further, tag, key, unique), properties_size


@kernel
def _record_size(end, topic, born_host, parts):
    """Return the size of a message's record, -1 if its queue is new or its body too long."""
    is_good, queue, _, _, _, body_size, _, properties_size = parts
    if not is_good or queue >= word(topic, TopicAt.queues) or body_size > word(end, EndAt.max_body):
        return np.int64(-1)
    if word(word(topic, TopicAt.numbers_at), queue) < 0:
        return np.int64(-1)
    host_size = word(end, EndAt.born_host_size) if born_host == OWN_HOST else np.int64(_HOST_V4_SIZE)
    return (
        _HEAD_SIZE + host_size + _TIME_SIZE + word(end, EndAt.tail_size) + _BODY_LENGTH_SIZE + body_size
        + word(topic, TopicAt.part_size) + _PROPERTIES_LENGTH_SIZE + properties_size
    )  # fmt: skip


@kernel
def _write(end, topic, born_host, parts, offset, size, now):
    """Write a record, and raise its queue's next offset; return the message's number."""
    _, queue, flag, born, body_at, body_size, properties, properties_size = parts
    number_at = word_address(word(topic, TopicAt.numbers_at), queue)
    number, host_size, bits = word(number_at, 0), word(end, EndAt.born_host_size), word(end, EndAt.sys_flag)
    if born_host != OWN_HOST:
        host_size, bits = np.int64(_HOST_V4_SIZE), bits & ~_BORN_HOST_V6
    record = word(end, EndAt.memory_at) + offset
    write_head(
        record, size, word(topic, TopicAt.magic), crc32_at(body_at, body_at + body_size), queue, flag, number, offset,
        bits, now if born == NO_INT else born,
    )  # fmt: skip
    at = _write_after_head(record, end, born_host, now, host_size)
    store_be32(at, np.int32(body_size))
    at += _BODY_LENGTH_SIZE
    copy_bytes(at, body_at, body_size)
    at += body_size
    part_size = word(topic, TopicAt.part_size)
    copy_bytes(at, topic + _TOPIC_SIZE, part_size)
    at += part_size
    store_be16(at, np.int16(properties_size))
    _write_properties(at + _PROPERTIES_LENGTH_SIZE, properties[0], properties[1], properties[2], properties[3])
    store_64(number_at, number + 1)
    return number


@kernel
def _place(end, topic, born_host, now_ns, parts):
    """Store a message whose parts are known; return the answer."""
    size, offset = _record_size(end, topic, born_host, parts), word(end, EndAt.offset)
    if size < 0 or not _has_room(end, offset + size):
        return answer(np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    now = _now(end, now_ns)
    number = _write(end, topic, born_host, parts, offset, size, now)
    _publish(end, now, offset + size)
    return answer(word(end, EndAt.answer_at), offset, size, number, now)


@entry_kernel(INT, INT, OBJECT, OBJECT, OBJECT, INT, INT, OBJECT, OBJECT, OBJECT, OBJECT, OBJECT, returns=ANSWER)
def place_record(end, topic, queue_id, flag, born, born_host, now_ns, body, tags, keys, unique_key, properties):
    """Write the record of an ordinary message at the log's end, and number it.

    Returns: the answer, a PutResult; None if nothing was written.
    """
    parts = _look(queue_id, flag, born, body, tags, keys, unique_key, properties)
    return _place(end, topic, born_host, now_ns, parts)


@kernel
def _parts_of(fields, message, queue_id):
    """Look at a message of the class that `fields` describe."""
    return _look(
        queue_id,
        object_at(message, word(fields, MessageAt.flag)),
        object_at(message, word(fields, MessageAt.born_timestamp)),
        object_at(message, word(fields, MessageAt.body)),
        object_at(message, word(fields, MessageAt.tags)),
        object_at(message, word(fields, MessageAt.keys)),
        object_at(message, word(fields, MessageAt.unique_key)),
        object_at(message, word(fields, MessageAt.properties)),
    )


@kernel
def _is_ordinary(fields, message):
    """Return True if a message is one, and has none of the values that only records of another kind hold."""
    return (
        class_at(message) == word(fields, MessageAt.class_at)
        and is_none(object_at(message, word(fields, MessageAt.born_host)))
        and is_none(object_at(message, word(fields, MessageAt.properties)))
        and int_of(object_at(message, word(fields, MessageAt.sys_flag))) == 0
        and int_of(object_at(message, word(fields, MessageAt.reconsume_times))) == 0
        and int_of(object_at(message, word(fields, MessageAt.prepared_transaction_offset))) == 0
    )


@entry_kernel(INT, INT, OBJECT, OBJECT, OBJECT, INT, returns=ANSWER)
def place_message(end, fields, topics, message, queue_id, now_ns):
    """Write the record of an ordinary message, looked at in its slots, at the log's end, and number it.

    Returns: the answer, a PutResult; None if nothing was written.
    """
    if _is_ordinary(fields, message):
        topic = dict_number(topics, object_at(message, word(fields, MessageAt.topic)))
        if topic != NO_INT:
            return _place(end, topic, OWN_HOST, now_ns, _parts_of(fields, message, queue_id))
    return answer(np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@entry_kernel(INT, INT, OBJECT, OBJECT, OBJECT, INT, INT)
def place_messages(end, fields, topics, messages, queue_ids, now_ns, results):
    """Write the records of a list of ordinary messages at the log's end, all or none, and number them.

    Returns: the bytes of the records; NOT_PLACED if the general way must look at the list; if there is no room in
    memory, NO_ROOM less the bytes.
    """
    rows, total, offset = list_size(messages), np.int64(0), word(end, EndAt.offset)
    is_one_queue = list_size(queue_ids) < 0
    if rows < 0 or not (is_one_queue or list_size(queue_ids) == rows):
        return np.int64(NOT_PLACED)
    for row in range(rows):
        message = list_item(messages, row)
        if not _is_ordinary(fields, message):
            return np.int64(NOT_PLACED)
        topic = dict_number(topics, object_at(message, word(fields, MessageAt.topic)))
        if topic == NO_INT:
            return np.int64(NOT_PLACED)
        queue_id = queue_ids if is_one_queue else list_item(queue_ids, row)
        size = _record_size(end, topic, OWN_HOST, _parts_of(fields, message, queue_id))
        if size < 0:
            return np.int64(NOT_PLACED)
        set_word(results, row, offset + total)
        set_word(results, rows + row, size)
        set_word(results, 2 * rows + row, topic)
        total += size
    if not _has_room(end, offset + total):
        return np.int64(NO_ROOM) - total
    now = _now(end, now_ns)
    for row in range(rows):
        topic, size = word(results, 2 * rows + row), word(results, rows + row)
        queue_id = queue_ids if is_one_queue else list_item(queue_ids, row)
        parts = _parts_of(fields, list_item(messages, row), queue_id)
        number = _write(end, topic, OWN_HOST, parts, word(results, row), size, now)
        set_word(results, 2 * rows + row, number)
    set_word(results, 3 * rows, now)
    _publish(end, now, offset + total)
    return total
