"""The verdict on a place of the log (the twin of `reput.formats.record.examine`), and the search for a record."""

from __future__ import annotations

import numpy as np

from reput.formats import properties as props
from reput.formats import record as fmt
from reput.formats.paths import MAX_TOPIC_BYTES
from reput.formats.properties import PROPERTY_SEPARATOR
from reput.kernels.compiled.tools.crc import crc32_at
from reput.kernels.compiled.tools.hashing import is_utf8
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, byte_at, load_be16, load_be32, load_be64, load_le64

_V1, _V2, _BLANK = fmt.MAGIC_V1, fmt.MAGIC_V2, fmt.MAGIC_BLANK
_HEAD_SIZE, _MIN_SIZE = fmt.HEAD_SIZE, fmt.MIN_RECORD_SIZE
_BODY_CRC_AT, _QUEUE_ID_AT = fmt.HEAD.offsets["body_crc"], fmt.HEAD.offsets["queue_id"]
_QUEUE_OFFSET_AT, _PHYSICAL_AT = fmt.HEAD.offsets["queue_offset"], fmt.PHYSICAL_OFFSET_AT
_SYS_FLAG_AT = fmt.SYS_FLAG_AT
_V4, _V6 = fmt.HOST_V4_SIZE, fmt.HOST_V6_SIZE
_BORN_V6, _STORE_V6 = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_STORE_HOST_V6
_SLACK, _MAX_BATCH, _INNER_BATCH = fmt.QUEUE_OFFSET_SLACK, fmt.MAX_BATCH_MESSAGES, fmt.FLAG_INNER_BATCH
_CRC_SIZE = fmt.CRC_PROPERTY_SIZE
_CRC_NAME = np.frombuffer(props.CRC32 + props.NAME_END, dtype=np.uint8)
_CHECK_BODY, _CHECK_PROPERTY, _STRICT = fmt.CHECK_BODY, fmt.CHECK_PROPERTY, fmt.STRICT_OFFSETS

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
    if left < 8:
        for at in range(begin, limit):
            if byte_at(at):
                return TRUNCATED, 0, 0, 0, 0, 0
        return ZERO, 0, 0, 0, 0, 0
    size = load_be32(begin)
    magic = load_be32(begin + 4)
    if magic != _V1 and magic != _V2:
        if magic == _BLANK and size == left:
            return BLANK, size, 0, 0, 0, 0
        return (ZERO if size == 0 and magic == 0 else BAD_MAGIC), 0, 0, 0, 0, 0
    if left < _PHYSICAL_AT + 8:
        return TRUNCATED, 0, 0, 0, 0, 0
    if load_be64(begin + _PHYSICAL_AT) != physical_offset:
        return BAD_OFFSET, 0, 0, 0, 0, 0
    if size > left:
        return TRUNCATED, 0, 0, 0, 0, 0
    if size < _MIN_SIZE:
        return BAD_SIZE, 0, 0, 0, 0, 0
    end = begin + size
    sys_flag = load_be32(begin + _SYS_FLAG_AT)
    hosts = (_V6 if sys_flag & _BORN_V6 else _V4) + (_V6 if sys_flag & _STORE_V6 else _V4)
    body_at = begin + _HEAD_SIZE + hosts + 24
    if body_at > end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    body_length = load_be32(body_at - 4)
    body_end = body_at + body_length
    topic_at = body_end + (2 if magic == _V2 else 1)
    if body_length < 0 or topic_at > end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    topic_length = load_be16(body_end) if magic == _V2 else np.int64(np.int8(byte_at(body_end)))
    topic_end = topic_at + topic_length
    if topic_length < 0 or topic_end + 2 > end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    properties_length = load_be16(topic_end)
    if properties_length < 0 or topic_end + 2 + properties_length != end:
        return BAD_SIZE, 0, 0, 0, 0, 0
    verdict = GOOD
    check = crc_check & 3
    if check == _CHECK_BODY:
        if body_length > 0 and crc32_at(body_at, body_end) != load_be32(begin + _BODY_CRC_AT):
            verdict = BAD_CRC
    elif check == _CHECK_PROPERTY and not _crc_property_matches(begin, end, topic_end + 2):
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
def find_boundary(buffer, base, begin, end, limit, crc_check):
    """Return the first position in [begin, end) where a record begins, -1 for none."""
    data = address_of(buffer)
    position = begin
    while position < end and position + _MIN_SIZE <= limit:
        word = load_le64(data + position + 4)
        if word == 0:
            # A record's magic is its bytes 4 to 7; eight zeros there hold none, wherever they begin.
            position += 8
            continue
        if word & np.uint64(0xFFFFFF) == _MAGIC_START and _is_record(
            data + position, data + limit, base + position, crc_check
        ):
            return position
        position += 1
    return -1
