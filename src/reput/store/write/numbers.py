"""The numbers of a writer's queues: where each goes on, and what the store keeps of that when it is closed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.own.given_offsets import GivenOffsets
from reput.formats.queue.consume_queue import QueueKey
from reput.log.encode.message import illegal
from reput.store.disk.frontier import read_frontier
from reput.store.disk.given_offsets import MOST_QUEUES, first_record, read_given_offsets, write_given_offsets
from reput.store.metadata.json_files import CONFIGURATION_FILES
from reput.store.metadata.tables import Table
from reput.store.read.view import StoreView
from reput.store.recover.recovery import fingerprint_before


def judge_given_offsets(view: StoreView, log_end: int, is_short: bool) -> None:
    """Remove the offsets of before if others have written since: a writer's watermark would make them count again.

    `is_short`: the log has lost its end. Then they are kept for the end that is left, since the next messages take the
    place of the last one that they name.

    Raises:
        DamagedStoreError: The file is damaged, and one of the two is the case.
    """
    if view.kept_ends.wrote_offset < log_end:
        given = read_given_offsets(view.layout)
        if given is not None and given.log_end < log_end:
            write_given_offsets(view.layout, GivenOffsets(log_end, None, None, {}))
    elif is_short and (kept := view.kept_ends.all()):
        _write(view, log_end, fingerprint_before(view.log, log_end), kept)


def next_offset(view: StoreView, topic: bytes, queue_id: int) -> int:
    """Return the next offset of a queue, for the first message put to it.

    Raises:
        MessageRefusedError: the queue's files are damaged or lost, or are those of another queue.
    """
    end = view.stored_next_offset(topic, queue_id)
    try:
        end, loss = view.goes_on_at(QueueKey(topic, queue_id), end)
    except DamagedStoreError as error:
        raise illegal(str(error)) from error
    if loss:
        raise illegal(loss)
    return end


def keep_tail_ends(view: StoreView) -> None:
    """Keep the ends of queues whose messages are not indexed yet, which a killed program may have put.

    The caller holds the follower's lock, and has settled the tail.
    """
    tails = view.queues_table.tail.queues
    # A damaged file refuses puts, and says so there.
    with contextlib.suppress(DamagedStoreError):
        if 0 < len(tails) <= MOST_QUEUES:
            view.kept_ends.raise_to({key: tail.next for key, tail in tails.items()})


def keep_next_offsets(view: StoreView, next_offsets: Mapping[tuple[bytes, int], int], log_end: int) -> None:
    """Keep where each queue goes on. All messages are durable; without a message nothing is written.

    Raises:
        DamagedStoreError: The file of before is damaged; nothing is written then.
    """
    if not next_offsets and not view.kept_ends.is_raised:
        return
    batches = view.settings.types.batch
    now = {QueueKey(*key): offset for key, offset in next_offsets.items() if key[0] not in batches}
    kept = view.kept_ends.all()
    others = {key.topic for key in kept} - {key.topic for key in now}
    if others and _may_have_topics(view):
        topics = view.topics_of_broker()
        deleted = {topic for topic in others if topics.was_deleted(topic)}
        kept = {key: offset for key, offset in kept.items() if key.topic not in deleted}
    _write(view, log_end, _last_record(view, log_end), kept | now)


def _write(view: StoreView, log_end: int, last: own.Fingerprint | None, kept: Mapping[QueueKey, int]) -> None:
    write_given_offsets(view.layout, GivenOffsets(log_end, first_record(view.log), last, kept))


def _may_have_topics(view: StoreView) -> bool:
    """Return True if there may be topics of a broker, in a file or a database. To ask for them costs more."""
    listed = fs.list_dir(view.layout.root / paths.CONFIG)
    return any(not entry.is_file or entry.name.startswith(CONFIGURATION_FILES[Table.TOPICS]) for entry in listed)


def _last_record(view: StoreView, log_end: int) -> own.Fingerprint | None:
    """Return the fingerprint of the log's last record. After a catch-up the frontier has it; to find it takes 1 ms."""
    frontier = read_frontier(view.layout)
    if frontier is not None and frontier.queue_offset == log_end:
        return frontier.queue_fingerprint
    return fingerprint_before(view.log, log_end)
