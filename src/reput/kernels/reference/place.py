"""The kernel of a single put in plain Python: the specification of `reput.kernels.compiled.place`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from reput.formats.layout import INT64_MAX, INT64_MIN
from reput.formats.log import properties as props
from reput.formats.log.record import AFTER_STORE_HOST, HOST_V4_SIZE, MAGIC_V2, Host, Record, encode_record
from reput.kernels.layouts.place import NO_ROOM, NOT_PLACED, OWN_HOST, TOPIC_LAYOUT, EndAt, MessageAt, TopicAt
from reput.kernels.reference.memory import set_word, word

_BAD_TEXT = (props.NAME_END + props.PROPERTY_END).decode()
_BAD_KEY = _BAD_TEXT + props.KEY_SEPARATOR.decode()


def _property(name: bytes, text: object, bad: str) -> bytes:
    """Return a property as a record holds it, empty without one.

    Raises:
        ValueError: A put of any kind refuses the text, or knows what to do with it.
    """
    if text is None or (text == "" and name == props.TAGS):
        return b""
    if type(text) is not str or any(character in text for character in bad):
        raise ValueError(f"property {name!r}: {text!r}")
    # Half a character is a ValueError, too, and so is an empty text.
    return props.encode_properties({name: text.encode()})


def _properties(tags: object, keys: object, unique_key: object, further: object) -> bytes:
    if not (further is None or type(further) is bytes):
        raise ValueError(f"further properties: {further!r}")
    data = b"".join(
        (
            further or b"",
            _property(props.TAGS, tags, _BAD_TEXT),
            _property(props.KEYS, keys, _BAD_KEY),
            _property(props.UNIQUE_KEY, unique_key, _BAD_TEXT),
        )
    )
    if len(data) > props.MAX_PROPERTIES_SIZE:
        raise ValueError(f"properties of {len(data)} bytes")
    return data


def _number(given: object, least: int, most: int) -> int:
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"number {given!r}")
    return given


def _hosts(end: int, born_host: int) -> tuple[Host, Host, int, int]:
    """Return born host and store host, and the tries and prepared offset of all messages."""
    tail = ctypes.string_at(word(end, EndAt.tail_at), word(end, EndAt.tail_size))
    host = ctypes.string_at(word(end, EndAt.born_host_at), word(end, EndAt.born_host_size))
    if born_host != OWN_HOST:
        host = born_host.to_bytes(HOST_V4_SIZE, "big", signed=True)
    store_host_size = len(tail) - AFTER_STORE_HOST.size
    tries, prepared = AFTER_STORE_HOST.unpack_from(tail, store_host_size)
    return Host.decode(host), Host.decode(tail[:store_host_size]), tries, prepared


def _move_end(end: int, offset: int, now: int) -> None:
    set_word(end, EndAt.last_ms, now)
    set_word(end, EndAt.offset, offset)
    for published_at in (word(end, EndAt.wrote_at), word(end, EndAt.confirmed_at)):
        if published_at:
            set_word(published_at, 0, offset)


class _Parts(NamedTuple):
    """The checked values of a message."""

    queue_id: int
    flag: int
    born: int | None
    body: bytes
    properties: bytes


def _look(end: int, topic: int, values: Sequence[object]) -> _Parts | None:
    """Check queue id, flag, born timestamp, body, tags, keys, unique key and properties; None for the general way."""
    queue_id, flag, born, body, tags, keys, unique_key, properties = values
    if type(body) is not bytes or len(body) > word(end, EndAt.max_body):
        return None
    try:
        queue = _number(queue_id, 0, word(topic, TopicAt.queues) - 1)
        own_flag = _number(flag, -(1 << 31), (1 << 31) - 1)
        own_born = None if born is None else _number(born, INT64_MIN + 1, INT64_MAX)
        data = _properties(tags, keys, unique_key, properties)
    except ValueError:
        return None
    is_known = word(word(topic, TopicAt.numbers_at), queue) >= 0
    return _Parts(queue, own_flag, own_born, body, data) if is_known else None


def _record(end: int, topic: int, born_host: int, parts: _Parts, number: int, offset: int, now: int) -> bytes:
    own_host, store_host, tries, prepared = _hosts(end, born_host)
    magic, size = word(topic, TopicAt.magic), word(topic, TopicAt.part_size)
    return encode_record(
        Record(
            topic=ctypes.string_at(topic + TOPIC_LAYOUT.size, size)[2 if magic == MAGIC_V2 else 1 :],
            body=parts.body,
            properties=parts.properties,
            queue_id=parts.queue_id,
            flag=parts.flag,
            queue_offset=number,
            physical_offset=offset,
            sys_flag=word(end, EndAt.sys_flag),
            born_timestamp=now if parts.born is None else parts.born,
            born_host=own_host,
            store_timestamp=now,
            store_host=store_host,
            reconsume_times=tries,
            prepared_transaction_offset=prepared,
            magic=magic,
        )
    )


def _has_room(end: int, offset: int) -> bool:
    return offset <= word(end, EndAt.room_end) and ctypes.string_at(word(end, EndAt.held_at), 1)[0] & 1 == 0


def _store(end: int, records: bytes, now: int) -> None:
    """Put records, for which there is room, at the log's end."""
    offset = word(end, EndAt.offset)
    ctypes.memmove(word(end, EndAt.memory_at) + offset, records, len(records))
    _move_end(end, offset + len(records), now)


def place_record(
    end: int,
    topic: int,
    queue_id: object,
    flag: object,
    born: object,
    born_host: int,
    now_ns: int,
    body: object,
    tags: object,
    keys: object,
    unique_key: object,
    properties: object,
) -> tuple[Any, ...] | None:
    """Write the record of an ordinary message at a log's end, and number it; see `reput.kernels.layouts.place`.

    `born` is in ms, or None for the store time. `born_host` is an IPv4 host in one number, or OWN_HOST. `properties`
    are the bytes of further ones, or None. Nothing else may change the log's end or the topic's numbers meanwhile.

    Returns: the answer, a PutResult; None if nothing was written: there is no room, a thread holds the lock, the queue
    is new, or a value is not what nearly all messages have, so that a put of any kind must look at it.
    """
    values = (queue_id, flag, born, body, tags, keys, unique_key, properties)
    parts, offset = _look(end, topic, values), word(end, EndAt.offset)
    if parts is None:
        return None
    number = word(word(topic, TopicAt.numbers_at), parts.queue_id)
    now = max(now_ns // 1_000_000, word(end, EndAt.last_ms))
    record = _record(end, topic, born_host, parts, number, offset, now)
    if not _has_room(end, offset + len(record)):
        return None
    _store(end, record, now)
    set_word(word(topic, TopicAt.numbers_at), parts.queue_id, number + 1)
    model = ctypes.cast(word(end, EndAt.answer_at), ctypes.py_object).value
    return cast("tuple[Any, ...]", type(model)._make((model[0], offset, len(record), number, now, *model[5:])))


_NEVER = {"born_host": None, "properties": None, "sys_flag": 0, "reconsume_times": 0, "prepared_transaction_offset": 0}
"""The values of an ordinary message, as lists take them."""
_TAKEN = ("flag", "born_timestamp", "body", "tags", "keys", "unique_key", "properties")


def _is_ordinary(message: object, kind: type) -> bool:
    return type(message) is kind and all(
        getattr(message, name) == value and type(getattr(message, name)) is type(value)
        for name, value in _NEVER.items()
    )


def place_message(
    end: int, fields: int, topics: dict[str, int], message: Any, queue_id: object, now_ns: int
) -> tuple[Any, ...] | None:
    """Do what `place_record` does with the values of a message; `fields` and `topics` are those of `place_messages`."""
    kind = ctypes.cast(word(fields, MessageAt.class_at), ctypes.py_object).value
    topic = topics.get(message.topic) if _is_ordinary(message, kind) and type(message.topic) is str else None
    if topic is None:
        return None
    return place_record(
        end, topic, queue_id, message.flag, message.born_timestamp, OWN_HOST, now_ns, message.body, message.tags,
        message.keys, message.unique_key, None,
    )  # fmt: skip


def place_messages(
    end: int, fields: int, topics: dict[str, int], messages: object, queue_ids: object, now_ns: int, results: int
) -> int:
    """Write the records of a list of ordinary messages at a log's end, all or none, and number them.

    `fields` is a vector of `MESSAGE_LAYOUT`, `topics` has the vectors of topics by name, `queue_ids` one id or a list
    of one for each message. `results` has room for three columns of int64, which get log offsets, sizes and queue
    offsets, and for the store time; they are of no use if nothing is written.

    Returns: the bytes of the records; NOT_PLACED if nothing was written because a put of any kind must look at the
    list; if there is no room in memory, NO_ROOM less the bytes.
    """
    kind = ctypes.cast(word(fields, MessageAt.class_at), ctypes.py_object).value
    if type(messages) is not list or (type(queue_ids) is list and len(queue_ids) != len(messages)):
        return NOT_PLACED
    ids = queue_ids if type(queue_ids) is list else [queue_ids] * len(messages)
    now, offset = max(now_ns // 1_000_000, word(end, EndAt.last_ms)), word(end, EndAt.offset)
    following: dict[tuple[int, int], int] = {}
    records, answers = b"", []
    for message, queue_id in zip(messages, ids, strict=True):
        topic = topics.get(message.topic) if _is_ordinary(message, kind) and type(message.topic) is str else None
        if topic is None:
            return NOT_PLACED
        parts = _look(end, topic, (queue_id, *(getattr(message, name) for name in _TAKEN)))
        if parts is None:
            return NOT_PLACED
        queue = topic, parts.queue_id
        number = following.get(queue, word(word(topic, TopicAt.numbers_at), parts.queue_id))
        following[queue] = number + 1
        record = _record(end, topic, OWN_HOST, parts, number, offset + len(records), now)
        answers.append((offset + len(records), len(record), number))
        records += record
    if not _has_room(end, offset + len(records)):
        return NO_ROOM - len(records)
    _store(end, records, now)
    for (topic, queue_id), number in following.items():
        set_word(word(topic, TopicAt.numbers_at), queue_id, number)
    for row, answer in enumerate(answers):
        for column, value in enumerate(answer):
            set_word(results, column * len(messages) + row, value)
    set_word(results, 3 * len(messages), now)
    return len(records)
