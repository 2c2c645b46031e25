"""What stands at a place of the log (the twin of `reput.formats.record.examine`), and where one begins."""

from __future__ import annotations

import numpy as np
from numba import njit

from reput.formats import properties as props
from reput.formats import record as fmt
from reput.formats.paths import MAX_TOPIC_BYTES
from reput.kernels.compiled.crc import crc32
from reput.kernels.compiled.hashing import is_utf8
from reput.kernels.compiled.memory import load_be16, load_be32, load_be64, load_le64

_V1, _V2, _BLANK = fmt.MAGIC_V1, fmt.MAGIC_V2, fmt.MAGIC_BLANK
_HEAD_SIZE, _MIN_SIZE = fmt.HEAD_SIZE, fmt.MIN_RECORD_SIZE
_BODY_CRC_AT, _QUEUE_ID_AT = fmt.HEAD.offsets["body_crc"], fmt.HEAD.offsets["queue_id"]
_QUEUE_OFFSET_AT, _PHYSICAL_AT = fmt.HEAD.offsets["queue_offset"], fmt.PHYSICAL_OFFSET_AT
_SYS_FLAG_AT = fmt.SYS_FLAG_AT
_V4, _V6 = fmt.HOST_V4_SIZE, fmt.HOST_V6_SIZE
_BORN_V6, _STORE_V6 = fmt.FLAG_BORN_HOST_V6, fmt.FLAG_STORE_HOST_V6
_SLACK = fmt.QUEUE_OFFSET_SLACK
_CRC_SIZE = fmt.CRC_PROPERTY_SIZE
_CRC_NAME = np.frombuffer(props.CRC32 + b"\x01", dtype=np.uint8)
_CHECK_BODY, _CHECK_PROPERTY = fmt.CHECK_BODY, fmt.CHECK_PROPERTY

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

_FIRST_MAGIC_BYTE, _SECOND_MAGIC_BYTE, _THIRD_MAGIC_BYTE = 0xDA, 0xA3, 0x20


@njit(cache=True, nogil=True)
def _crc_property_matches(buffer, position, end, properties_at):
    covered = end - _CRC_SIZE
    if covered < properties_at or buffer[end - 1] != 0x02:
        return False
    for n in range(len(_CRC_NAME)):
        if buffer[covered + n] != _CRC_NAME[n]:
            return False
    crc = crc32(buffer, position, covered)
    for n in range(covered + len(_CRC_NAME), end - 1):
        if buffer[n] != 0x30 + crc % 10:
            return False
        crc //= 10
    return crc == 0


@njit(cache=True, nogil=True)
def is_topic_folder_name(buffer, begin, end):
    """Whether these bytes can be a folder's name; the twin of `reput.formats.paths.is_topic_folder_name`."""
    if begin == end or end - begin > MAX_TOPIC_BYTES:
        return False
    if buffer[begin] == 0x2E and (end - begin == 1 or (end - begin == 2 and buffer[begin + 1] == 0x2E)):
        return False
    plain = True
    for n in range(begin, end):
        if buffer[n] == 0x2F or buffer[n] == 0:
            return False
        plain = plain and buffer[n] < 0x80
    return plain or is_utf8(buffer, begin, end)


@njit(cache=True, nogil=True)
def examine(buffer, position, limit, physical_offset, crc_check):
    """Verdict and size of what stands at `position`; the whole of the specification."""
    verdict, size, _, _, topic_at, topic_end, _ = examine_parts(
        buffer, position, limit, physical_offset, crc_check
    )
    if verdict == GOOD and not is_topic_folder_name(buffer, topic_at, topic_end):
        verdict = BAD_TOPIC
    return verdict, size


@njit(cache=True, nogil=True)
def examine_parts(buffer, position, limit, physical_offset, crc_check):
    """Verdict and, of a record or blank, size, body_at, body_end, topic_at, topic_end and sys_flag.

    All but the topic's spelling, which the decoder looks at once a queue. Every length is compared with the
    record's end, and the record's end with `limit`, before a byte behind it is read.
    """
    nothing = (0, 0, 0, 0, 0, 0)
    left = limit - position
    if left < 8:
        for n in range(position, limit):
            if buffer[n]:
                return (TRUNCATED, *nothing)
        return (ZERO, *nothing)
    size = np.int64(load_be32(buffer, position))
    magic = load_be32(buffer, position + 4)
    if magic != _V1 and magic != _V2:
        if magic == _BLANK and size == left:
            return (BLANK, size, 0, 0, 0, 0, 0)
        return (ZERO if size == 0 and magic == 0 else BAD_MAGIC, *nothing)
    if left < _PHYSICAL_AT + 8:
        return (TRUNCATED, *nothing)
    if load_be64(buffer, position + _PHYSICAL_AT) != physical_offset:
        return (BAD_OFFSET, *nothing)
    if size > left:
        return (TRUNCATED, *nothing)
    if size < _MIN_SIZE:
        return (BAD_SIZE, *nothing)
    end = position + size
    sys_flag = np.int64(load_be32(buffer, position + _SYS_FLAG_AT))
    hosts = (_V6 if sys_flag & _BORN_V6 else _V4) + (_V6 if sys_flag & _STORE_V6 else _V4)
    body_at = position + _HEAD_SIZE + hosts + 24
    if body_at > end:
        return (BAD_SIZE, *nothing)
    body_length = np.int64(load_be32(buffer, body_at - 4))
    body_end = body_at + body_length
    topic_at = body_end + (2 if magic == _V2 else 1)
    if body_length < 0 or topic_at > end:
        return (BAD_SIZE, *nothing)
    topic_length = (
        np.int64(load_be16(buffer, body_end)) if magic == _V2 else np.int64(np.int8(buffer[body_end]))
    )
    topic_end = topic_at + topic_length
    if topic_length < 0 or topic_end + 2 > end:
        return (BAD_SIZE, *nothing)
    properties_length = np.int64(load_be16(buffer, topic_end))
    if properties_length < 0 or topic_end + 2 + properties_length != end:
        return (BAD_SIZE, *nothing)
    verdict = GOOD
    if crc_check == _CHECK_BODY:
        if body_length > 0 and crc32(buffer, body_at, body_end) != load_be32(buffer, position + _BODY_CRC_AT):
            verdict = BAD_CRC
    elif crc_check == _CHECK_PROPERTY and not _crc_property_matches(buffer, position, end, topic_end + 2):
        verdict = BAD_CRC
    if verdict == GOOD:
        queue_offset = load_be64(buffer, position + _QUEUE_OFFSET_AT)
        bound = physical_offset // _MIN_SIZE + _SLACK
        if load_be32(buffer, position + _QUEUE_ID_AT) < 0 or queue_offset < 0 or queue_offset > bound:
            verdict = BAD_QUEUE
    return (verdict, size, body_at, body_end, topic_at, topic_end, sys_flag)


@njit(cache=True, nogil=True)
def find_boundary(buffer, base, begin, end, limit, crc_check):
    """The first position in [begin, end) where a record stands, -1 for none."""
    position = begin
    while position < end:
        # A record's magic is its bytes 4 to 7; eight zeros there hold none, wherever they begin.
        while position + 12 <= limit and position < end and load_le64(buffer, position + 4) == 0:
            position += 8
        if position >= end or position + _MIN_SIZE > limit:
            return -1
        if (
            buffer[position + 4] == _FIRST_MAGIC_BYTE
            and buffer[position + 5] == _SECOND_MAGIC_BYTE
            and buffer[position + 6] == _THIRD_MAGIC_BYTE
            and examine(buffer, position, limit, base + position, crc_check)[0] == GOOD
        ):
            return position
        position += 1
    return -1
