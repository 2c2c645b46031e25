"""The kernels of plain batches in plain Python: the specification of `reput.kernels.compiled.plain`.

What the vector holds stands at `reput.kernels.batch_words`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

from reput.formats import properties as props
from reput.formats.record import HOST_V4_SIZE, MAGIC_V2, Host, Record, encode_record, record_size
from reput.kernels.batch_words import CHANGED, LAID_OUT, NEW_QUEUE, NOT_PLAIN, TEXT_WORDS, Batch, Text

_MAX_QUEUE_ID = 0x7FFFFFFF
_TAIL_V4_SIZE = HOST_V4_SIZE + 4 + 8
_WORD_MASK = (1 << 64) - 1
_HASH_SHIFT = 20


def _get(words: int, place: int) -> int:
    return int(ctypes.c_int64.from_address(words + 8 * place).value)


def _set(words: int, place: int, value: int) -> None:
    ctypes.c_int64.from_address(words + 8 * place).value = value


def _int32(address: int, row: int) -> int:
    return int(ctypes.c_int32.from_address(address + 4 * row).value)


def _set_int32(address: int, row: int, value: int) -> None:
    ctypes.c_int32.from_address(address + 4 * row).value = value


class _Column:
    """A column of texts."""

    def __init__(self, words: int, place: int) -> None:
        self.words = [_get(words, place + number) for number in range(TEXT_WORDS)]

    def _offset(self, row: int) -> int:
        at, width = self.words[Text.OFFSETS_AT], self.words[Text.WIDTH]
        return _get(at, row) if width == struct.calcsize("q") else _int32(at, row)

    def text(self, row: int) -> bytes | None:
        """The text of a row, empty where there is none; None where it lies outside the data."""
        if not self.words[Text.WIDTH]:
            return b""
        bit = self.words[Text.FIRST_BIT] + row
        valid = self.words[Text.VALID_AT]
        if valid and not ctypes.string_at(valid + bit // 8, 1)[0] >> bit % 8 & 1:
            return b""
        begin, end = self._offset(row), self._offset(row + 1)
        if not 0 <= begin <= end <= self.words[Text.DATA_SIZE]:
            return None
        return ctypes.string_at(self.words[Text.DATA_AT] + begin, end - begin)

    def is_plain(self, rows: int, bad: bytes = b"") -> bool:
        """Whether all texts stand in the data in order, and neither they nor what nulls leave there has bad bytes."""
        if not self.words[Text.WIDTH]:
            return True
        offsets = [self._offset(row) for row in range(rows + 1)]
        if offsets != sorted(offsets) or offsets[0] < 0 or offsets[-1] > self.words[Text.DATA_SIZE]:
            return False
        data = ctypes.string_at(self.words[Text.DATA_AT] + offsets[0], offsets[-1] - offsets[0])
        return not set(bad) & set(data)

    def is_there(self, row: int) -> bool:
        """Whether a row has a text, though it may be empty."""
        bit = self.words[Text.FIRST_BIT] + row
        valid = self.words[Text.VALID_AT]
        return bool(self.words[Text.WIDTH]) and (
            not valid or bool(ctypes.string_at(valid + bit // 8, 1)[0] >> bit % 8 & 1)
        )


def _columns(words: int) -> list[_Column]:
    return [_Column(words, place) for place in (Batch.TOPIC, Batch.BODY, Batch.TAGS, Batch.KEYS, Batch.UNIQUE_KEY)]


def _queue_id(words: int, row: int) -> int:
    width = _get(words, Batch.QUEUE_ID_WIDTH)
    if not width:
        return 0
    at = _get(words, Batch.QUEUE_ID_AT)
    return _get(at, row) if width == struct.calcsize("q") else _int32(at, row)


def _properties(tags: bytes, key: bytes, unique_key: bytes) -> bytes:
    named = ((props.TAGS, tags), (props.KEYS, key), (props.UNIQ_KEY, unique_key))
    return b"".join(name + b"\x01" + value + b"\x02" for name, value in named if value)


def _hash_of(topic: bytes, queue_id: int, factor: int) -> int:
    factor &= _WORD_MASK
    value = queue_id * factor & _WORD_MASK ^ len(topic)
    whole = len(topic) // 8 * 8
    # Behind the last whole word the last eight bytes, some of them for the second time.
    steps = [topic[at : at + 8] for at in range(0, whole, 8)] + ([topic[-8:]] if topic[whole:] else [])
    for step in steps:
        value = (value ^ int.from_bytes(step, "little")) * factor & _WORD_MASK
        value ^= value >> 32
    return value * factor & _WORD_MASK


def _places(words: int, value: int) -> Iterator[int]:
    mask = _get(words, Batch.MASK)
    place = value >> _HASH_SHIFT & mask
    while True:
        yield place
        place = place + 1 & mask


def _part(words: int, row: int) -> bytes:
    begin = _get(words, Batch.NAMES_AT) + _get(_get(words, Batch.PART_AT), row)
    return ctypes.string_at(begin, _int32(_get(words, Batch.PART_SIZE_AT), row))


def _name(words: int, row: int) -> bytes:
    prefix = 2 if _int32(_get(words, Batch.MAGIC_AT), row) == MAGIC_V2 else 1
    return _part(words, row)[prefix:]


def _queue_row(words: int, topic: bytes, queue_id: int) -> int:
    for place in _places(words, _hash_of(topic, queue_id, _get(words, Batch.FACTOR))):
        row = _int32(_get(words, Batch.TABLE_AT), place) - 1
        if row < 0 or (_name(words, row) == topic and _int32(_get(words, Batch.ID_AT), row) == queue_id):
            return row
    return -1


def _are_plain(words: int, columns: list[_Column]) -> bool:
    """Whether all messages are, but for their queues."""
    rows = _get(words, Batch.ROWS)
    _, body, tags, keys, unique_keys = columns
    return (
        body.is_plain(rows)
        and tags.is_plain(rows, b"\x01\x02")
        and keys.is_plain(rows, b"\x01\x02 ")
        and unique_keys.is_plain(rows, b"\x01\x02")
        and all(len(body.text(n) or b"") <= _get(words, Batch.MAX_BODY) for n in range(rows))
        and all(keys.text(n) or not keys.is_there(n) for n in range(rows))
        and all(_properties_size(n, columns) <= props.MAX_PROPERTIES_SIZE for n in range(rows))
    )


def _properties_size(n: int, columns: list[_Column]) -> int:
    return len(_properties(*(column.text(n) or b"" for column in columns[2:])))


def _size(words: int, row: int, body: bytes, properties: int) -> int:
    """Bytes of a record."""
    size = record_size(_part(words, row)[1:], body, b"", 0, 0) + properties
    return size + _get(words, Batch.BORN_HOST_SIZE) - HOST_V4_SIZE + _get(words, Batch.TAIL_SIZE) - _TAIL_V4_SIZE


def lay_out(words: int) -> int:
    """Check and measure all messages, the first time, and find the queues of those from DONE on.

    Fills what `Batch` says. Returns LAID_OUT, or for message DONE that its queue has no row yet (NEW_QUEUE; the next
    call goes on there), or that it is left to the general way (NOT_PLAIN).
    """
    columns = _columns(words)
    if _get(words, Batch.DONE) == 0 and not _are_plain(words, columns):
        return NOT_PLAIN
    for n in range(_get(words, Batch.DONE), _get(words, Batch.ROWS)):
        topic, queue_id = columns[0].text(n), _queue_id(words, n)
        if topic is None or not 0 <= queue_id <= _MAX_QUEUE_ID:
            return NOT_PLAIN
        row = _queue_row(words, topic, queue_id)
        if row < 0:
            return NEW_QUEUE
        if _get(_get(words, Batch.STAMP_AT), row) != _get(words, Batch.STAMP):
            _set(_get(words, Batch.STAMP_AT), row, _get(words, Batch.STAMP))
            _set_int32(_get(words, Batch.TOUCHED_AT), _get(words, Batch.TOUCHED), row)
            _set(words, Batch.TOUCHED, _get(words, Batch.TOUCHED) + 1)
        size = _size(words, row, columns[1].text(n) or b"", _properties_size(n, columns))
        _set_int32(_get(words, Batch.QUEUE_AT), n, row)
        _set(_get(words, Batch.SIZE_AT), n, size)
        _set(_get(words, Batch.PLACE_AT), n, _get(words, Batch.SIZE))
        _set(words, Batch.SIZE, _get(words, Batch.SIZE) + size)
        _set(words, Batch.DONE, n + 1)
    return LAID_OUT


def write_rows(words: int, first: int, last: int, store_timestamp: int, physical_offset: int, buffer: int) -> int:
    """Write the records of messages [first, last) of a batch that is laid out to the address `buffer`.

    The first stands at log offset `physical_offset`. Each takes its queue's next offset, which is raised. Returns how
    many bytes were written, or CHANGED: a text is not as long any more as it was measured, or outside its data.
    """
    columns, at = _columns(words), buffer
    tail = ctypes.string_at(_get(words, Batch.TAIL_AT), _get(words, Batch.TAIL_SIZE))
    *store_host, tries, prepared = struct.unpack(f">{len(tail) - 16}siiq", tail)
    born_host = ctypes.string_at(_get(words, Batch.BORN_HOST_AT), _get(words, Batch.BORN_HOST_SIZE))
    flags, born = _get(words, Batch.FLAG_AT), _get(words, Batch.BORN_AT)
    for n in range(first, last):
        row = _int32(_get(words, Batch.QUEUE_AT), n)
        body, *own = (column.text(n) for column in columns[1:])
        there = [text for text in own if text is not None]
        if body is None or len(there) < len(own):
            return CHANGED
        properties = _properties(*there)
        if _size(words, row, body, len(properties)) != _get(_get(words, Batch.SIZE_AT), n):
            return CHANGED
        number = _get(_get(words, Batch.NEXT_AT), row)
        _set(_get(words, Batch.NEXT_AT), row, number + 1)
        _set(_get(words, Batch.NUMBER_AT), n, number)
        _set(_get(words, Batch.PLACE_AT), n, physical_offset + at - buffer)
        data = encode_record(
            Record(
                topic=_name(words, row),
                body=body,
                properties=properties,
                queue_id=_int32(_get(words, Batch.ID_AT), row),
                flag=_int32(flags, n) if flags else 0,
                queue_offset=number,
                physical_offset=physical_offset + at - buffer,
                sys_flag=_get(words, Batch.SYS_FLAG),
                born_timestamp=_get(born, n) if born else store_timestamp,
                born_host=Host(born_host[:-4], struct.unpack(">i", born_host[-4:])[0]),
                store_timestamp=store_timestamp,
                store_host=Host(*store_host),
                reconsume_times=tries,
                prepared_transaction_offset=prepared,
                magic=_int32(_get(words, Batch.MAGIC_AT), row),
            )
        )
        ctypes.memmove(at, data, len(data))
        at += len(data)
    return at - buffer


def add_queue(words: int, row: int, begin: int, size: int, queue_id: int) -> int:
    """Have a row of the directory, which is filled, found under a topic's bytes and a queue id."""
    value = _hash_of(ctypes.string_at(begin, size), queue_id, _get(words, Batch.FACTOR))
    ctypes.c_uint64.from_address(_get(words, Batch.HASH_AT) + 8 * row).value = value
    table = _get(words, Batch.TABLE_AT)
    for place in _places(words, value):
        if not _int32(table, place):
            _set_int32(table, place, row + 1)
            return 0
    return 0
