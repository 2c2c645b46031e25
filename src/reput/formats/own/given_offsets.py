"""The file `given-offsets` of reput's own: the queue offsets that were given, so that no message gets one again.

JSON, replaced whole by rename. Its keys:

    version
    log_end                     the log's end when the file was written
    first, last                 offset, size, crc and store_timestamp of the log's first record and of its last, or null
    crc                         CRC-32 of the list of log_end, first, last and queues, as JSON without spaces
    queues                      a list of [topic, queue id, the offset that the next message gets]
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.own.files import FORMAT_VERSION, Fingerprint
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import stored_bytes, stored_text

_REMEDY = (
    "If no later version of reput wrote it, remove it, and look with `reput check` for what it knew alone: queues that "
    "lost files"
)

_NAMES = ("version", "log_end", "first", "last", "crc", "queues")


class GivenOffsets(NamedTuple):
    """The next offset of each queue, as of a log that ended at `log_end`, from the record `first` to `last`."""

    log_end: int
    first: Fingerprint | None
    last: Fingerprint | None
    queues: Mapping[QueueKey, int]


def encode_given_offsets(given: GivenOffsets) -> bytes:
    """Return the file's bytes."""
    queues = [[stored_text(key.topic), key.queue_id, offset] for key, offset in sorted(given.queues.items())]
    # On one line: the queues may be many.
    first, last = (None if record is None else record.to_json() for record in (given.first, given.last))
    known = {"log_end": given.log_end, "first": first, "last": last, "queues": queues}
    return _compact({"version": FORMAT_VERSION, "crc": _crc([*known.values()]), **known}) + b"\n"


def decode_given_offsets(data: bytes, where: str) -> GivenOffsets:
    """Return the offsets in the bytes of a file.

    Raises:
        DamagedStoreError: it is no such file, or names a queue that cannot be one.
    """
    try:
        value = json.loads(data)
        version, log_end, first, last, crc, queues = (value[name] for name in _NAMES)
        is_number = type(log_end) is int and log_end >= 0
        is_whole = version == FORMAT_VERSION and is_number and crc == _crc([log_end, first, last, queues])
        records = Fingerprint.from_json(first), Fingerprint.from_json(last)
        found = {QueueKey(stored_bytes(topic), queue_id): offset for topic, queue_id, offset in queues}
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedStoreError(f"{where}: this is not a list of offsets ({error!s:.80}). {_REMEDY}") from error
    if not is_whole:
        raise DamagedStoreError(f"{where}: not a file that this version of reput wrote. {_REMEDY}")
    for key, offset in found.items():
        number = key.queue_id
        is_queue = paths.is_topic_folder_name(key.topic) and type(number) is int and 0 <= number <= paths.MAX_QUEUE_ID
        if not is_queue or type(offset) is not int or offset < 0:
            raise DamagedStoreError(f"{where}: gives {key} the next offset {offset!r:.40}, which cannot be. {_REMEDY}")
    return GivenOffsets(log_end, *records, found)


def _crc(known: list[Any]) -> int:
    return zlib.crc32(_compact(known))


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
