"""The queue offsets that reput has given, as the last writer or rebuild left them: no message gets one of them again.

A queue that has lost its last file, or its folder, shows nothing of it, nor does a log that has lost its end. So the
store keeps the next offset of each queue beside them.

They count as long as only reput has written to the log: no record was added by another program, the last one is there,
or lost, and the first one is there, damaged or expired. A broker may have deleted queues, and begun them again.
"""

from __future__ import annotations

from collections.abc import Mapping

from reput.files import fs
from reput.formats.log.record import CHECK_NONE, queue_offset_bound
from reput.formats.own import files as own
from reput.formats.own.files import Fingerprint
from reput.formats.own.given_offsets import GivenOffsets, decode_given_offsets, encode_given_offsets
from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.maps import LogMaps
from reput.store.disk.layout import StoreLayout
from reput.store.disk.store import StoreOnDisk

MOST_QUEUES = 100_000
"""A store of more queues keeps no offsets beside them: the file would take seconds to read and write."""
_LIMIT = 64 << 20


def read_given_offsets(layout: StoreLayout) -> GivenOffsets | None:
    """Read the store's own file; None without one.

    Raises:
        DamagedStoreError: the file is damaged.
    """
    path = layout.own(own.GIVEN_OFFSETS_NAME)
    data = fs.read_bytes(path, _LIMIT)
    return None if data is None else decode_given_offsets(data, str(path))


def write_given_offsets(layout: StoreLayout, given: GivenOffsets) -> None:
    """Replace the file durably; without a queue, or with too many, it is removed."""
    path = layout.own(own.GIVEN_OFFSETS_NAME)
    if 0 < len(given.queues) <= MOST_QUEUES:
        fs.write_whole(path, encode_given_offsets(given), fs.owner_of(layout.root))
    elif fs.exists(path):
        fs.remove_file(path)
        fs.sync_path(layout.reput)


def believed_offsets(given: GivenOffsets | None, log: LogMaps, log_end: int, wrote_offset: int) -> dict[QueueKey, int]:
    """Return the next offset of each queue; none if another program may have written since.

    Args:
        given: what the file says.
        log: the log.
        log_end: where it ends now.
        wrote_offset: the watermark: where reput's last record ends.
    """
    if given is None or len(given.queues) > MOST_QUEUES:
        return {}
    if log_end > max(given.log_end, wrote_offset) or _has_another(given, log, log_end):
        return {}
    # A hostile number would become a file position.
    highest = queue_offset_bound(log_end)
    return {key: offset for key, offset in given.queues.items() if 0 < offset <= highest}


def offsets_of_store(
    store: StoreOnDisk, given: GivenOffsets | None, log_end: int, wrote_offset: int
) -> dict[QueueKey, int]:
    """Return `believed_offsets` of a store that nobody has open, without topics that the broker has deleted."""
    with store.maps() as log:
        found = believed_offsets(given, log, log_end, wrote_offset)
    return {key: offset for key, offset in found.items() if not store.topics.was_deleted(key.topic)}


def goes_past(given: GivenOffsets, log: LogMaps, log_end: int) -> bool:
    """Return True if the log goes on past the end that the caller has read: they are of later messages, too."""
    last = given.last
    if last is None or last.offset + last.size <= log_end:
        return False
    log.refresh()
    return log.has_record(last)


def first_record(log: LogMaps) -> Fingerprint | None:
    """Return the fingerprint of the log's first record; None if the log does not begin with one."""
    begin = log.min_offset
    return log.fingerprint(begin, log.record_end(begin, CHECK_NONE) - begin)


def _has_another(given: GivenOffsets, log: LogMaps, log_end: int) -> bool:
    """Return True if the log has another record in the place of the first or last one.

    A log that begins after the first one, or ends before the last one, has it no more. A first record that is damaged
    is no other one: it has the size and the time of before.
    """
    first, last = given.first, given.last
    if first is not None and _may_have(log, first, log_end):
        end = log.record_end(first.offset, CHECK_NONE)
        if end >= 0 and (end - first.offset, log.store_time(first.offset)) != (first.size, first.store_timestamp):
            return True
    return last is not None and _may_have(log, last, log_end) and not log.has_record(last)


def _may_have(log: LogMaps, record: Fingerprint, log_end: int) -> bool:
    return log.min_offset <= record.offset and record.offset + record.size <= log_end


def forget_given_offsets(layout: StoreLayout, topic: bytes, queue_id: int | None) -> None:
    """Forget the offsets of a topic's queues, or of this one: it is deleted, and begins again.

    Raises: as `read_given_offsets`.
    """
    given = read_given_offsets(layout)
    if given is not None and (left := without_queues(given.queues, topic, queue_id)) != given.queues:
        write_given_offsets(layout, given._replace(queues=left))


def without_queues(queues: Mapping[QueueKey, int], topic: bytes, queue_id: int | None) -> dict[QueueKey, int]:
    """Return the offsets without those of a topic's queues, or of this one."""
    return {key: offset for key, offset in queues.items() if key.topic != topic or queue_id not in (None, key.queue_id)}
