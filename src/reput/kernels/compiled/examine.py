"""The verdict on a place of the log (the twin of `reput.formats.log.record.examine`), and the search for a record."""

from __future__ import annotations

import numpy as np

from reput.formats.log import properties as props
from reput.formats.log import record as fmt
from reput.formats.log.properties import PROPERTY_SEPARATOR
from reput.formats.paths import MAX_TOPIC_BYTES
from reput.kernels.compiled.tools.crc import crc32_at
from reput.kernels.compiled.tools.hashing import is_utf8
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, byte_at, load_be16, load_be32, load_be64, load_le64

_V1, _V2, _BLANK = fmt.MAGIC_V1, fmt.MAGIC_V2, fmt.MAGIC_BLANK
_MIN_SIZE, _BLANK_SIZE, _MAGIC_AT = fmt.MIN_RECORD_SIZE, fmt.BLANK_SIZE, fmt.MAGIC_AT
_BODY_CRC_AT, _QUEUE_ID_AT = fmt.HEAD.offsets["body_crc"], fmt.HEAD.offsets["queue_id"]
_QUEUE_OFFSET_AT, _PHYSICAL_AT = fmt.HEAD.offsets["queue_offset"], fmt.PHYSICAL_OFFSET_AT
_SYS_FLAG_AT, _PHYSICAL_END = fmt.SYS_FLAG_AT, fmt.PHYSICAL_OFFSET_END
_BODY_AT, _BODY_LENGTH_SIZE, _V6_MORE = fmt.BODY_AT_V4, fmt.BODY_LENGTH_SIZE, fmt.V6_MORE
_TOPIC_LENGTH_V1, _TOPIC_LENGTH_V2 = fmt.TOPIC_LENGTH_V1.size, fmt.TOPIC_LENGTH_V2.size
PROPERTIES_LENGTH_SIZE = fmt.PROPERTIES_LENGTH.size
"""The bytes between the end of a topic, which `examine_parts` returns, and the properties."""
_BORN_V6, _STORE_V6 = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_STORE_HOST_V6
_SLACK, _MAX_BATCH, _INNER_BATCH = fmt.QUEUE_OFFSET_SLACK, fmt.MAX_BATCH_MESSAGES, fmt.FLAG_INNER_BATCH
_CRC_SIZE = fmt.CRC_PROPERTY_SIZE
_CRC_NAME = np.frombuffer(props.CRC32 + props.NAME_END, dtype=np.uint8)
_CHECK_BODY, _CHECK_PROPERTY = fmt.CHECK_BODY, fmt.CHECK_PROPERTY
_CHECK_MASK, _STRICT = fmt.CHECK_MASK, fmt.STRICT_OFFSETS

GOOD, BLANK, ZERO, TRUNCATED = (
    int(fmt.Verdict.GOOD),
    int(fmt.Verdict.BLANK),
    int(fmt.Verdict.ZERO),
    int(fmt.Verdict.TRUNCATED),
)
BAD_MAGIC, BAD_OFFSET, BAD_SIZE = (
    int(fmt.Verdict.BAD_MAGIC),
    int(fmt.Verdict.BAD_OFFSET),
    int(fmt.Verdict.BAD_SIZE),
)
BAD_CRC, BAD_QUEUE, BAD_TOPIC = (
    int(fmt.Verdict.BAD_CRC),
    int(fmt.Verdict.BAD_QUEUE),
    int(fmt.Verdict.BAD_TOPIC),
)

_MAGIC_START = np.uint64(0x20A3DA)
"""The first three bytes of both magics, DA A3 20, as a little-endian number."""


@kernel
def _crc_property_matches(begin, end, properties_at):
    covered = end - _CRC_SIZE
    if covered < properties_at or byte_at(end - 1) != PROPERTY_SEPARATOR:
        return False
    for n in range(len(_CRC_NAME)):
        if byte_at(covered + n) != _CRC_NAME[n]:
            return False
    crc = crc32_at(begin, covered)
    for at in range(covered + len(_CRC_NAME), end - 1):
        if byte_at(at) != 0x30 + crc % 10:
            return False
        crc //= 10
    return crc == 0


@kernel
def is_topic_folder_name(begin, end):
    """Return True if the topic in [begin, end) can be a folder's name; the twin of `paths.is_topic_folder_name`."""
    if begin == end or end - begin > MAX_TOPIC_BYTES:
        return False
    if byte_at(begin) == 0x2E and (end - begin == 1 or (end - begin == 2 and byte_at(begin + 1) == 0x2E)):
        return False
    for at in range(begin, end):
        if byte_at(at) == 0x2F or byte_at(at) == 0:
            return False
    return is_utf8(begin, end)


@kernel
def examine_parts(begin, limit, physical_offset, crc_check):
    """Examine address `begin`; return verdict, size, body_at, topic_at, topic_end (addresses) and sys_flag.

    The topic's spelling is not checked here; the decoder checks it once for each queue. Every length is compared with
    the record's end, and the record's end with `limit`, before a byte after it is read.
    """
    left = limit - begin
    if left < _BLANK_SIZE:
        for at in range(begin, limit):
            if byte_at(at):
                return TRUNCATED, 0, 0, 0, 0, 0
        return ZERO, 0, 0, 0, 0, 0
    size = load_be32(begin)
    magic = load_be32(begin + _MAGIC_AT)
    if magic != _V1 and magic != _V2:
        if magic == _BLANK and size == left:
            return BLANK, size, 0, 0, 0, 0
        return (ZERO if size == 0 and magic == 0 else BAD_MAGIC), 0, 0, 0, 0, 0
    if left < _PHYSICAL_END:
        return TRUNCATED, 0, 0, 0, 0, 0
    if load_be64(begin + _PHYSICAL_AT) != physical_offset:
        return BAD_OFFSET, 0, 0, 0, 0, 0
    if size > left:
        return TRUNCATED, 0, 0, 0, 0, 0
    if size < _MIN_SIZE:
        return BAD_SIZE, 0, 0, 0, 0, 0
    end = begin + size
    sys_flag = load_be32(begin + _SYS_FLAG_AT)
    more = (_V6_MORE if sys_flag & _BORN_V6 else 0) + (_V6_MORE if sys_flag & _STORE_V6 else 0)
    body_at = begin + _BODY_AT + more
    if body_at > end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    body_length = load_be32(body_at - _BODY_LENGTH_SIZE)
    body_end = body_at + body_length
    topic_at = body_end + (_TOPIC_LENGTH_V2 if magic == _V2 else _TOPIC_LENGTH_V1)
    if body_length < 0 or topic_at > end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    topic_length = load_be16(body_end) if magic == _V2 else np.int64(np.int8(byte_at(body_end)))
    topic_end = topic_at + topic_length
    properties_at = topic_end + PROPERTIES_LENGTH_SIZE
    if topic_length < 0 or properties_at > end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    properties_length = load_be16(topic_end)
    if properties_length < 0 or properties_at + properties_length != end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    verdict = GOOD
    check = crc_check & _CHECK_MASK
    if check == _CHECK_BODY:
        if body_length > 0 and crc32_at(body_at, body_end) != load_be32(begin + _BODY_CRC_AT):
            verdict = BAD_CRC
    elif check == _CHECK_PROPERTY and not _crc_property_matches(begin, end, properties_at):
        verdict = BAD_CRC
    if verdict == GOOD:
        queue_offset = load_be64(begin + _QUEUE_OFFSET_AT)
        records = physical_offset // _MIN_SIZE
        bound = (records if crc_check & _STRICT and not sys_flag & _INNER_BATCH else records * _MAX_BATCH) + _SLACK
        if load_be32(begin + _QUEUE_ID_AT) < 0 or queue_offset < 0 or queue_offset > bound:
            verdict = BAD_QUEUE
    return verdict, size, body_at, topic_at, topic_end, sys_flag


@kernel
def _is_record(begin, limit, physical_offset, crc_check):
    verdict, _, _, topic_at, topic_end, _ = examine_parts(begin, limit, physical_offset, crc_check)
    return verdict == GOOD and is_topic_folder_name(topic_at, topic_end)


@kernel
def find_boundary(log, begin, end, crc_check):
    """Return the first position in [begin, end) where a record begins, -1 for none."""
    buffer, base, limit = log
    data = address_of(buffer)
    position = begin
    while position < end and position + _MIN_SIZE <= limit:
        word = load_le64(data + position + _MAGIC_AT)
        if word == 0:
            # Eight zeros from there on hold no magic, wherever they begin.
            position += 8
            continue
        if word & np.uint64(0xFFFFFF) == _MAGIC_START and _is_record(
            data + position, data + limit, base + position, crc_check
        ):
            return position
        position += 1
    return -1
