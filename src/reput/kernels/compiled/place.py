"""Write the record of one ordinary message at the log's end, in one call from what its sender gives to the answer.

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
    copy_bytes,
    publish_64,
    store_64,
    store_be16,
    store_be32,
    store_be64,
    word,
)
from reput.kernels.compiled.tools.objects import ANSWER, NO_INT, OBJECT, answer, bytes_of, int_of, is_none, text_of
from reput.kernels.layouts.place import OWN_HOST, TOPIC_LAYOUT, EndAt, TopicAt

__all__ = ["place_record"]

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
def _publish(end, number_at, number, now, offset):
    """Raise the queue's next offset and the log's end."""
    store_64(number_at, number + 1)
    store_64(end + 8 * EndAt.last_ms, now)
    store_64(end + 8 * EndAt.offset, offset)
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
    """Return the store time in ms, not before that of the last record; count it if the clock was set back."""
    now, last = now_ns // 1_000_000, word(end, EndAt.last_ms)
    if now < last:
        now = last
        store_64(end + 8 * EndAt.steps_back, word(end, EndAt.steps_back) + 1)
    return now


@entry_kernel(INT, INT, OBJECT, OBJECT, OBJECT, INT, INT, OBJECT, OBJECT, OBJECT, OBJECT, OBJECT, returns=ANSWER)
def place_record(
    end, topic, queue_id, flag, born, born_host, now_ns, body, tags, keys, unique_key, properties
):  # fmt: skip
    """Write the record of an ordinary message at the log's end, and number it.

    Returns: the answer, a PutResult; None if nothing was written.
    """
    queue, own_flag, own_born = int_of(queue_id), int_of(flag), NO_INT if is_none(born) else int_of(born)
    body_at, body_size = bytes_of(body)
    tag, key = _property(tags, NAME_4, False), _property(keys, NAME_4, True)
    unique = _property(unique_key, NAME_8, False)
    if tag[1] == tag[0]:
        tag = (tag[0], tag[1], min(tag[2], np.int64(0)))
    further_at, further_size = (np.int64(0), np.int64(0)) if is_none(properties) else bytes_of(properties)
    further = (further_at, further_at + further_size, further_size)
    properties_size = tag[2] + key[2] + unique[2] + further_size
    if (
        queue < 0
        or queue >= word(topic, TopicAt.queues)
        or own_flag != np.int32(own_flag)
        or (own_born == NO_INT and not is_none(born))
        or body_at == 0
        or body_size > word(end, EndAt.max_body)
        or min(tag[2], key[2], unique[2]) < 0
        or key[2] == NAME_4 + 1
        or unique[2] == NAME_8 + 1
        or (further_at == 0 and not is_none(properties))
        or properties_size > _MAX_PROPERTIES
    ):
        return answer(np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    number_at = word(topic, TopicAt.numbers_at) + 8 * queue
    number, host_size, bits = word(number_at, 0), word(end, EndAt.born_host_size), word(end, EndAt.sys_flag)
    if born_host != OWN_HOST:
        host_size, bits = np.int64(_HOST_V4_SIZE), bits & ~_BORN_HOST_V6
    part_size, offset = word(topic, TopicAt.part_size), word(end, EndAt.offset)
    size = (
        _HEAD_SIZE + host_size + _TIME_SIZE + word(end, EndAt.tail_size) + _BODY_LENGTH_SIZE + body_size + part_size
        + _PROPERTIES_LENGTH_SIZE + properties_size
    )  # fmt: skip
    if number < 0 or offset + size > word(end, EndAt.room_end):
        return answer(np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    record, now = word(end, EndAt.memory_at) + offset, _now(end, now_ns)
    write_head(
        record, size, word(topic, TopicAt.magic), crc32_at(body_at, body_at + body_size), queue, own_flag, number,
        offset, bits, now if own_born == NO_INT else own_born,
    )  # fmt: skip
    at = _write_after_head(record, end, born_host, now, host_size)
    store_be32(at, np.int32(body_size))
    at += _BODY_LENGTH_SIZE
    copy_bytes(at, body_at, body_size)
    at += body_size
    copy_bytes(at, topic + _TOPIC_SIZE, part_size)
    at += part_size
    store_be16(at, np.int16(properties_size))
    _write_properties(at + _PROPERTIES_LENGTH_SIZE, further, tag, key, unique)
    _publish(end, number_at, number, now, offset + size)
    return answer(word(end, EndAt.answer_at), offset, size, number, now)
