"""The encode kernels in plain Python: the specification of `reput.kernels.compiled.encode`.

`reput.kernels.layouts.batch` describes the vector that they are called with.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from reput.formats.layout import WORD_SIZE
from reput.formats.log import properties as props
from reput.formats.log.record import (
    AFTER_STORE_HOST,
    CRC_PROPERTY_SIZE,
    HOST_V4_SIZE,
    MAGIC_V2,
    Host,
    Record,
    crc32,
    encode_record,
    record_size,
)
from reput.formats.paths import MAX_QUEUE_ID
from reput.kernels.layouts.batch import (
    CHANGED,
    LAID_OUT,
    NEW_QUEUE,
    REFUSED,
    TEXTS_LAYOUT,
    BatchAt,
    BatchRefusal,
    TextsAt,
)
from reput.kernels.reference.memory import int32_at, set_int32, set_word, word

_TAIL_V4_SIZE = HOST_V4_SIZE + AFTER_STORE_HOST.size
_WORD_MASK = (1 << 64) - 1
_HASH_SHIFT = 20
_BAD_TEXT = props.NAME_END + props.PROPERTY_END
_BAD_KEY = _BAD_TEXT + props.KEY_SEPARATOR


def _bit(valid: int, bit: int) -> bool:
    return not valid or bool(ctypes.string_at(valid + bit // 8, 1)[0] >> bit % 8 & 1)


class _TextColumn:
    """A column of texts."""

    def __init__(self, batch: int, place: int) -> None:
        fields = (word(batch, place + number) for number in range(TEXTS_LAYOUT.word_count))
        self.fields = type(TextsAt)(*fields)

    def _offset(self, row: int) -> int:
        at = self.fields.offsets_at
        return word(at, row) if self.fields.width == WORD_SIZE else int32_at(at, row)

    def is_there(self, row: int) -> bool:
        """Return True if a row has a text, which may be empty."""
        return bool(self.fields.width) and _bit(self.fields.valid_at, self.fields.first_bit + row)

    def text(self, row: int) -> bytes | None:
        """Return the text of a row, empty if there is none; None if it lies outside the data."""
        if not self.is_there(row):
            return b""
        begin, end = self._offset(row), self._offset(row + 1)
        if not 0 <= begin <= end <= self.fields.data_size:
            return None
        return ctypes.string_at(self.fields.data_at + begin, end - begin)


class _MessageRow:
    """A row of the batch; a text is None if it lies outside its data."""

    def __init__(self, batch: int, row: int) -> None:
        def text(place: int) -> bytes | None:
            return _TextColumn(batch, place).text(row)

        self.body, self.further = text(BatchAt.body), text(BatchAt.properties)
        self.tags, self.keys, self.unique_key = text(BatchAt.tags), text(BatchAt.keys), text(BatchAt.unique_key)
        self.has_no_key = _TextColumn(batch, BatchAt.keys).is_there(row) and not self.keys

    @property
    def properties(self) -> bytes:
        """Return the properties' bytes, without the CRC."""
        named = ((props.TAGS, self.tags), (props.KEYS, self.keys), (props.UNIQUE_KEY, self.unique_key))
        return (self.further or b"") + b"".join(
            name + props.NAME_END + value + props.PROPERTY_END for name, value in named if value
        )

    @property
    def is_inside(self) -> bool:
        """True if all texts lie in their data."""
        return None not in (self.body, self.further, self.tags, self.keys, self.unique_key)

    def refusal(self, batch: int) -> BatchRefusal:
        """Return the first reason why the message cannot be stored."""
        if self.body is None:
            return BatchRefusal.BAD_OFFSETS
        if len(self.body) > word(batch, BatchAt.max_body):
            return BatchRefusal.BODY_TOO_LONG
        is_one_key = not word(batch, BatchAt.keys_are_joined)
        for text, bad, why in (
            (self.further, b"", BatchRefusal.BAD_OFFSETS),
            (self.tags, _BAD_TEXT, BatchRefusal.BAD_TAGS),
            (self.keys, _BAD_KEY if is_one_key else _BAD_TEXT, BatchRefusal.BAD_KEY),
            (self.unique_key, _BAD_TEXT, BatchRefusal.BAD_UNIQUE_KEY),
        ):
            if text is None:
                return BatchRefusal.BAD_OFFSETS
            if set(text) & set(bad) or (why is BatchRefusal.BAD_KEY and is_one_key and self.has_no_key):
                return why
        is_too_long = len(self.properties) + _crc_size(batch) > props.MAX_PROPERTIES_SIZE
        return BatchRefusal.PROPERTIES_TOO_LONG if is_too_long else BatchRefusal.NONE


def _crc_size(batch: int) -> int:
    return CRC_PROPERTY_SIZE if word(batch, BatchAt.append_crc) else 0


def _queue_id(batch: int, row: int) -> int:
    width = word(batch, BatchAt.queue_id_width)
    if not width:
        return 0
    at = word(batch, BatchAt.queue_id_at)
    return word(at, row) if width == WORD_SIZE else int32_at(at, row)


def _hash_of(topic: bytes, queue_id: int, factor: int) -> int:
    factor &= _WORD_MASK
    value = queue_id * factor & _WORD_MASK ^ len(topic)
    whole = len(topic) // 8 * 8
    # After the last whole word come the last eight bytes, some of them for the second time.
    steps = [topic[at : at + 8] for at in range(0, whole, 8)] + ([topic[-8:]] if topic[whole:] else [])
    for step in steps:
        value = (value ^ int.from_bytes(step, "little")) * factor & _WORD_MASK
        value ^= value >> 32
    return value * factor & _WORD_MASK


def _places(batch: int, value: int) -> Iterator[int]:
    mask = word(batch, BatchAt.mask)
    place = value >> _HASH_SHIFT & mask
    while True:
        yield place
        place = place + 1 & mask


def _part(batch: int, row: int) -> bytes:
    begin = word(batch, BatchAt.names_at) + word(word(batch, BatchAt.part_at), row)
    return ctypes.string_at(begin, int32_at(word(batch, BatchAt.part_size_at), row))


def _name(batch: int, row: int) -> bytes:
    prefix = 2 if int32_at(word(batch, BatchAt.magic_at), row) == MAGIC_V2 else 1
    return _part(batch, row)[prefix:]


def _queue_row(batch: int, topic: bytes, queue_id: int) -> int:
    places = _places(batch, _hash_of(topic, queue_id, word(batch, BatchAt.factor)))
    rows = (int32_at(word(batch, BatchAt.table_at), place) - 1 for place in places)
    ids_at = word(batch, BatchAt.id_at)
    # The table always has a free place, whose row is -1.
    return next(row for row in rows if row < 0 or (_name(batch, row) == topic and int32_at(ids_at, row) == queue_id))


def _size(batch: int, row: int, message: _MessageRow) -> int:
    """Return the bytes of a record."""
    size = record_size(_part(batch, row)[1:], message.body or b"", message.properties, 0, 0) + _crc_size(batch)
    return size + word(batch, BatchAt.born_host_size) - HOST_V4_SIZE + word(batch, BatchAt.tail_size) - _TAIL_V4_SIZE


def _refuse(batch: int, row: int, why: BatchRefusal) -> int:
    set_word(batch, BatchAt.done, row)
    set_word(batch, BatchAt.refusal, why)
    return REFUSED


def lay_out(batch: int) -> int:
    """Check and measure all messages, the first time, and find the queues of those from `done` on.

    Fills the fields that `BATCH_LAYOUT` names. Returns LAID_OUT; NEW_QUEUE if the queue of message `done` has no row
    yet, and the next call continues there; or REFUSED if that message cannot be stored, with the reason in `refusal`.
    """
    rows, first = word(batch, BatchAt.rows), word(batch, BatchAt.done)
    for n in range(rows if first == 0 else 0):
        why = _MessageRow(batch, n).refusal(batch)
        if why is not BatchRefusal.NONE:
            return _refuse(batch, n, why)
    for n in range(first, rows):
        topic, queue_id = _TextColumn(batch, BatchAt.topic).text(n), _queue_id(batch, n)
        if topic is None:
            return _refuse(batch, n, BatchRefusal.BAD_OFFSETS)
        if not 0 <= queue_id <= MAX_QUEUE_ID:
            return _refuse(batch, n, BatchRefusal.BAD_QUEUE_ID)
        row = _queue_row(batch, topic, queue_id)
        if row < 0:
            return NEW_QUEUE
        if word(word(batch, BatchAt.stamp_at), row) != word(batch, BatchAt.stamp):
            set_word(word(batch, BatchAt.stamp_at), row, word(batch, BatchAt.stamp))
            set_int32(word(batch, BatchAt.touched_at), word(batch, BatchAt.touched), row)
            set_word(batch, BatchAt.touched, word(batch, BatchAt.touched) + 1)
        size = _size(batch, row, _MessageRow(batch, n))
        set_int32(word(batch, BatchAt.queue_at), n, row)
        set_word(word(batch, BatchAt.size_at), n, size)
        set_word(word(batch, BatchAt.place_at), n, word(batch, BatchAt.size))
        set_word(batch, BatchAt.size, word(batch, BatchAt.size) + size)
        set_word(batch, BatchAt.done, n + 1)
    return LAID_OUT


def _born(batch: int, row: int, store_timestamp: int) -> int:
    at = word(batch, BatchAt.born_at)
    is_given = at and _bit(word(batch, BatchAt.born_valid_at), word(batch, BatchAt.born_first_bit) + row)
    return word(at, row) if is_given else store_timestamp


def write_records(batch: int, first: int, last: int, store_timestamp: int, physical_offset: int, buffer: int) -> int:
    """Write the records of messages [first, last) of a batch that is laid out to the address `buffer`.

    The first is at log offset `physical_offset`. Each takes its queue's next offset, which is raised. Returns how
    many bytes were written, or CHANGED: a text is not as long any more as it was measured, or outside its data.
    """
    at = buffer
    tail = ctypes.string_at(word(batch, BatchAt.tail_at), word(batch, BatchAt.tail_size))
    store_host_size = len(tail) - AFTER_STORE_HOST.size
    tries, prepared = AFTER_STORE_HOST.unpack_from(tail, store_host_size)
    born_host = ctypes.string_at(word(batch, BatchAt.born_host_at), word(batch, BatchAt.born_host_size))
    flags, sys_flags = word(batch, BatchAt.flag_at), word(batch, BatchAt.sys_flag_at)
    for n in range(first, last):
        row, message = int32_at(word(batch, BatchAt.queue_at), n), _MessageRow(batch, n)
        if not message.is_inside or _size(batch, row, message) != word(word(batch, BatchAt.size_at), n):
            return CHANGED
        assert message.body is not None
        number = word(word(batch, BatchAt.next_at), row)
        set_word(word(batch, BatchAt.next_at), row, number + 1)
        set_word(word(batch, BatchAt.number_at), n, number)
        set_word(word(batch, BatchAt.place_at), n, physical_offset + at - buffer)
        data = encode_record(
            Record(
                topic=_name(batch, row),
                body=message.body,
                properties=message.properties,
                queue_id=int32_at(word(batch, BatchAt.id_at), row),
                flag=int32_at(flags, n) if flags else 0,
                queue_offset=number,
                physical_offset=physical_offset + at - buffer,
                sys_flag=int32_at(sys_flags, n) if sys_flags else word(batch, BatchAt.sys_flag),
                born_timestamp=_born(batch, n, store_timestamp),
                born_host=Host.decode(born_host),
                store_timestamp=store_timestamp,
                store_host=Host.decode(tail[:store_host_size]),
                reconsume_times=tries,
                prepared_transaction_offset=prepared,
                magic=int32_at(word(batch, BatchAt.magic_at), row),
            ),
            bool(word(batch, BatchAt.append_crc)),
        )
        ctypes.memmove(at, data, len(data))
        at += len(data)
    return at - buffer


def add_queue(batch: int, row: int, begin: int, size: int, queue_id: int) -> int:
    """Have a row of the directory, which is filled, found under a topic's bytes and a queue id."""
    value = _hash_of(ctypes.string_at(begin, size), queue_id, word(batch, BatchAt.factor))
    ctypes.c_uint64.from_address(word(batch, BatchAt.hash_at) + WORD_SIZE * row).value = value
    table = word(batch, BatchAt.table_at)
    free = next(place for place in _places(batch, value) if not int32_at(table, place))
    set_int32(table, free, row + 1)
    return 0


def body_crc(body: bytes) -> int:
    """Return the CRC-32 of a body, as a record holds it."""
    return crc32(body)
