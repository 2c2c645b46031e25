"""The kernel of a single put in plain Python: the specification of `reput.kernels.compiled.place`."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, cast

from reput.formats.layout import WORD_SIZE
from reput.formats.log import properties as props
from reput.formats.log.record import BEFORE_BODY_V4, HOST_V4_SIZE, MAGIC_V2, Host, Record, encode_record
from reput.kernels.layouts.place import OWN_HOST, TOPIC_LAYOUT, EndAt, TopicAt

_AFTER_STORE_HOST = struct.Struct(">" + BEFORE_BODY_V4.codes("reconsume_times", "body_length"))
_BAD_TEXT = (props.NAME_END + props.PROPERTY_END).decode()
_BAD_KEY = _BAD_TEXT + props.KEY_SEPARATOR.decode()


def _get(record: int, place: int) -> int:
    return int(ctypes.c_int64.from_address(record + WORD_SIZE * place).value)


def _set(record: int, place: int, value: int) -> None:
    ctypes.c_int64.from_address(record + WORD_SIZE * place).value = value


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
    tail = ctypes.string_at(_get(end, EndAt.tail_at), _get(end, EndAt.tail_size))
    host = ctypes.string_at(_get(end, EndAt.born_host_at), _get(end, EndAt.born_host_size))
    if born_host != OWN_HOST:
        host = born_host.to_bytes(HOST_V4_SIZE, "big", signed=True)
    store_host_size = len(tail) - _AFTER_STORE_HOST.size
    tries, prepared = _AFTER_STORE_HOST.unpack_from(tail, store_host_size)
    return Host.decode(host), Host.decode(tail[:store_host_size]), tries, prepared


def _move_end(end: int, offset: int, now: int) -> None:
    _set(end, EndAt.last_ms, now)
    _set(end, EndAt.offset, offset)
    for published_at in (_get(end, EndAt.wrote_at), _get(end, EndAt.confirmed_at)):
        if published_at:
            _set(published_at, 0, offset)


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

    Returns: the answer, a PutResult; None if nothing was written: there is no room, the queue is new, or a value is not
    what nearly all messages have, so that a put of any kind must look at it.
    """
    try:
        queue = _number(queue_id, 0, _get(topic, TopicAt.queues) - 1)
        own_flag = _number(flag, -(1 << 31), (1 << 31) - 1)
        own_born = None if born is None else _number(born, 1 - (1 << 63), (1 << 63) - 1)
        data = _properties(tags, keys, unique_key, properties)
    except ValueError:
        return None
    if type(body) is not bytes or len(body) > _get(end, EndAt.max_body):
        return None
    number, offset = _get(_get(topic, TopicAt.numbers_at), queue), _get(end, EndAt.offset)
    if number < 0:
        return None
    own_host, store_host, tries, prepared = _hosts(end, born_host)
    magic, part = (
        _get(topic, TopicAt.magic),
        ctypes.string_at(topic + TOPIC_LAYOUT.size, _get(topic, TopicAt.part_size)),
    )
    now = max(now_ns // 1_000_000, _get(end, EndAt.last_ms))
    record = encode_record(
        Record(
            topic=part[2 if magic == MAGIC_V2 else 1 :],
            body=body,
            properties=data,
            queue_id=queue,
            flag=own_flag,
            queue_offset=number,
            physical_offset=offset,
            sys_flag=_get(end, EndAt.sys_flag),
            born_timestamp=now if own_born is None else own_born,
            born_host=own_host,
            store_timestamp=now,
            store_host=store_host,
            reconsume_times=tries,
            prepared_transaction_offset=prepared,
            magic=magic,
        )
    )
    following = offset + len(record)
    if following > _get(end, EndAt.room_end):
        return None
    if now_ns // 1_000_000 < now:
        _set(end, EndAt.steps_back, _get(end, EndAt.steps_back) + 1)
    ctypes.memmove(_get(end, EndAt.memory_at) + offset, record, len(record))
    _set(_get(topic, TopicAt.numbers_at), queue, number + 1)
    _move_end(end, following, now)
    model = ctypes.cast(_get(end, EndAt.answer_at), ctypes.py_object).value
    return cast("tuple[Any, ...]", type(model)._make((model[0], offset, len(record), number, now, *model[5:])))
