"""The numbers of a writer's queues: where each goes on, and what the store keeps of that when it is closed."""

from __future__ import annotations

from collections.abc import Mapping

from reput.errors import DamagedStoreError
from reput.formats.own import files as own
from reput.formats.own.given_offsets import GivenOffsets
from reput.formats.queue.consume_queue import QueueKey
from reput.log.encode.message import illegal
from reput.store.disk.frontier import read_frontier
from reput.store.disk.given_offsets import read_given_offsets, write_given_offsets
from reput.store.read.view import StoreView
from reput.store.recover.recovery import fingerprint_before


def drop_unbelieved(view: StoreView, log_end: int) -> None:
    """Remove the offsets of before if others have written since: a writer's watermark would make them count again.

    Raises:
        DamagedStoreError: Others have written, and the file is damaged.
    """
    if view.kept_ends.wrote_offset < log_end:
        given = read_given_offsets(view.layout)
        if given is not None and given.log_end < log_end:
            write_given_offsets(view.layout, GivenOffsets(log_end, None, {}))


def next_offset(view: StoreView, topic: bytes, queue_id: int) -> int:
    """Return the next offset of a queue, for the first message put to it.

    Raises:
        MessageRefusedError: the queue's files are damaged or lost, or are those of another queue.
    """
    end = view.stored_next_offset(topic, queue_id)
    try:
        return view.kept_end(QueueKey(topic, queue_id), end)
    except DamagedStoreError as error:
        raise illegal(str(error)) from error


def keep_next_offsets(view: StoreView, next_offsets: Mapping[tuple[bytes, int], int], log_end: int) -> None:
    """Keep where each queue goes on. All messages are durable; without one nothing is written.

    Raises:
        DamagedStoreError: The file of before is damaged; nothing is written then.
    """
    if next_offsets:
        batches = view.settings.types.batch
        now = {QueueKey(*key): offset for key, offset in next_offsets.items() if key[0] not in batches}
        write_given_offsets(view.layout, GivenOffsets(log_end, _last_record(view, log_end), view.kept_ends.all() | now))


def _last_record(view: StoreView, log_end: int) -> own.Fingerprint | None:
    """Return the fingerprint of the log's last record. After a catch-up the frontier has it; to find it takes 1 ms."""
    frontier = read_frontier(view.layout)
    if frontier is not None and frontier.queue_offset == log_end:
        return frontier.queue_fingerprint
    return fingerprint_before(view.log, log_end)
