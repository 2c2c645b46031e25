"""The contents of a store, from names, ends and headers: a few small reads a queue, and a short walk in the log."""

from __future__ import annotations

import heapq
import os
import struct
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.files import fs, locks
from reput.formats import paths
from reput.formats.checkpoint import CHECKPOINT, Checkpoint, decode_checkpoint
from reput.formats.index.index_database import IndexMarks
from reput.formats.index.index_file import HEADER_SIZE, file_size
from reput.formats.log.record import Record
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import Entry
from reput.formats.queue.queue_types import BATCH
from reput.formats.stored_text import stored_bytes, stored_text
from reput.log.read.files import LogFiles
from reput.log.read.reader import good_record
from reput.nearest import FEW, some
from reput.queue.combined import kind_to_read
from reput.queue.files import list_queues
from reput.queue.kinds import AnyKind, QueueKind, QueueOnDisk, ReadableQueues
from reput.queue.placement import QueuePlacement
from reput.store.disk.abort import is_closed
from reput.store.disk.contradictions import contradictions
from reput.store.disk.database_folder import misplaced_database
from reput.store.disk.index_kinds import NO_INDEX_KEPT
from reput.store.disk.kinds import kinds_beside
from reput.store.disk.layout import StoreLayout
from reput.store.disk.placement import placement_settings
from reput.store.disk.purpose import Purpose
from reput.store.disk.settings import known_index_sizes
from reput.store.disk.store import StoreOnDisk
from reput.store.info.end import Ends, has_keys, read_log_end
from reput.store.info.shorter import judge_ends
from reput.store.info.use import Use, look_at_use
from reput.store.info.values import (
    CLEAN,
    TORN,
    IndexDatabaseInfo,
    IndexInfo,
    LogInfo,
    OwnInfo,
    QueueInfo,
    StoreInfo,
    TopicInfo,
)
from reput.store.metadata.state import metadata_state
from reput.store.owner import swap
from reput.store.owner.deletion import how_to_bring_back, named, still_deleted
from reput.store.owner.holders import Who
from reput.store.owner.strays import list_strays, strays_text

_NEWEST = 64
_SETTLE_S = 0.05


def store_info(
    path: Path | str,
    config: StoreConfig | None = None,
    *,
    topics: Collection[str] = (),
    most_topics: int | None = None,
) -> StoreInfo:
    """Return the contents of the store in `path`; nothing is changed, and a live broker may have it open.

    Every queue is read. With more than `most_topics` topics only the queues of `topics` are read: then `unread_topics`
    counts the others, and the queues are not compared with the log.

    Raises:
        NotAStoreError: there is no store.
        UnsupportedStoreError: the log itself is of a kind that reput does not read.
        DamagedStoreError: files of the log overlap.
    """
    config = config or StoreConfig()
    store = StoreOnDisk.find(path, config, Purpose.LOOK, tolerant=True)
    # Before the log is listed: its files then hold what is confirmed now.
    use = look_at_use(store.layout)
    store = replace(store, below=use.confirmed)
    layout, log = store.layout, store.log
    info = StoreInfo(str(layout.root), _log_info(layout, log))
    info.held_by, info.held_by_pid, info.held_by_server = use.holder
    info.follower_pid = use.follower_pid
    info.damage += [note for note in log.notes if "ignored" not in note]
    info.notes += [note for note in log.notes if "ignored" in note]
    _read_state(store, info)
    info.damage += [text for text in (misplaced_database(layout), store.partial_database) if text]
    info.damage += [one.text for one in store.wrong_types if not one.is_of_queue]
    _read_deleted(layout, log, info)
    ends = Ends()
    only = _chosen_topics(store, info, topics, most_topics)
    if only is not None:
        ends.is_partial = True
        ends.last_entries += _last_below_frontier(log, info)
    _read_indexes(store, info, ends, use, only)
    read_log_end(log, info, ends, use)
    _judge_marks(store, info, use)
    if only is None and use.holder.who is Who.NOBODY and info.log.max_is_exact and info.waiting_is_exact:
        judge_ends(store, info)
    if not info.waiting_is_exact:
        known = {topic.topic for topic in info.topics}
        named = {stored_text(name) for name in store.topics.names}
        info.topics += [TopicInfo(name) for name in sorted(named - known)]
    info.metadata = metadata_state(store.metadata)
    info.notes += [*info.metadata.notes, *(one.text for one in contradictions(store)), *store.contradicted]
    info.damage += info.metadata.damage
    if store.assumed_store_type:
        info.notes.append(f"a rebuild without settings assumes {store.assumed_store_type}")
    if strays := list_strays(layout, in_queues=only is None):
        info.notes.append(strays_text(strays))
    return info


def _log_info(layout: StoreLayout, log: LogFiles) -> LogInfo:
    first = good_record(log, log.min_offset)
    return LogInfo(
        folder=paths.MULTI_PATH_SEPARATOR.join(map(str, layout.log_folders or (log.folder,))),
        files=len(log.files),
        file_size=log.file_size,
        bytes=sum(file.size for file in log.files),
        min_offset=log.min_offset,
        max_offset=log.min_offset,
        first_store_timestamp=None if first is None else first.decode().store_timestamp,
    )


def _chosen_topics(
    store: StoreOnDisk, info: StoreInfo, topics: Collection[str], most_topics: int | None
) -> list[bytes] | None:
    """Return the topics whose queues are read; None for all."""
    if most_topics is None or not store.present:
        return None
    try:
        known = set(kind_to_read(store.present, store.placement).topics())
    except DamagedStoreError:
        # `_read_queues` reports it.
        return None
    if len(known) <= most_topics:
        return None
    chosen = [name for name in sorted({stored_bytes(topic) for topic in topics}) if name in known]
    info.unread_topics = len(known) - len(chosen)
    return chosen


def _last_below_frontier(log: LogFiles, info: StoreInfo) -> list[Entry]:
    """Return the last record that reput indexed, if it is still there: the log's end is near it."""
    last = (info.own.frontier or {}).get("queue_fingerprint")
    if last is None or good_record(log, last["offset"], last["size"]) is None:
        return []
    return [Entry(last["offset"], last["size"], 0)]


# --- the indexes ----------------------------------------------------------------------------------


def _read_indexes(store: StoreOnDisk, info: StoreInfo, ends: Ends, use: Use, only: Sequence[bytes] | None) -> None:
    before = len(info.damage)
    _read_queues(store, info, ends, only)
    for queue in list_queues(store.layout.consume_queue_ext) if only is None else ():
        info.ext_files += len(queue.files)
        info.ext_bytes += sum(file.size for file in queue.files)
    _read_index(store, info, ends)
    if not use.is_held:
        return
    # Double write may have written an entry to one kind only: the other kind is not out of date then.
    info.out_of_date = [one for one in info.out_of_date if one.startswith(str(store.layout.checkpoint))]
    if use.holder.who is not Who.BROKER:
        info.out_of_date.clear()
    if len(info.damage) > before:
        # A new file has an odd length for a moment, and a header that is being written has odd values.
        time.sleep(_SETTLE_S)
        again, later = StoreInfo(info.store, info.log), replace(store)
        _read_queues(later, again, Ends(), only)
        _read_index(later, again, Ends())
        info.damage = [one for number, one in enumerate(info.damage) if number < before or one in again.damage]


def _read_queues(store: StoreOnDisk, info: StoreInfo, ends: Ends, only: Sequence[bytes] | None) -> None:
    kinds, log_min_offset = store.present, store.log.min_offset
    info.queue_kinds = [kind.name for kind in kinds]
    info.queue_folders = {kind.name: os.path.relpath(kind.folder, store.layout.root) for kind in kinds}
    placement = store.placement.of_kinds(info.queue_kinds)
    info.placement = placement_settings(placement)
    newest: list[tuple[int, Entry]] = []
    # A file that was cut shows by those of other queues, if its queue has no other and all queues are read.
    sizes = (kind.found_file_size() for kind in kinds) if only is None else iter(())
    size_of_files = next((size for size in sizes if size), None)
    try:
        for queue in _queues_of(kind_to_read(kinds, placement), only) if kinds else ():
            _read_queue(queue, info, newest, log_min_offset, size_of_files)
        info.queue_bytes += sum(kind.shared_bytes() for kind in kinds)
        if only is None:
            _compare_kinds(kinds, placement, log_min_offset, info)
    except DamagedStoreError as error:
        # A database that cannot be opened; the log and the rest can still be described.
        info.damage.append(str(error))
        ends.is_partial = True
    ends.last_entries += [entry for _, entry in newest]
    # Not `store.kinds`: that looks at queues for the size of their files.
    for kind in kinds_beside(store.layout):
        _read_queues_beside(kind, log_min_offset, info, ends)


def _read_queue(
    queue: QueueOnDisk,
    info: StoreInfo,
    newest: list[tuple[int, Entry]],
    log_min_offset: int,
    size_of_files: int | None,
) -> None:
    """Describe one queue; `newest` is a heap of the entries with the highest log offsets."""
    key, files = queue.key, queue.files
    bounds, last_offset = queue.bounds_and_last(log_min_offset)
    name = stored_text(key.topic)
    if not info.topics or info.topics[-1].topic != name:
        info.topics.append(TopicInfo(name))
    info.queue_bytes += files.bytes
    info.topics[-1].queues.append(
        QueueInfo(
            key.queue_id,
            bounds.min_offset,
            bounds.max_offset,
            files.number,
            files.bytes,
            bounds.max_offset - bounds.min_offset,
        )
    )
    # Only the newest entries help to find the log's end, so others are not read.
    if last_offset >= 0 and (len(newest) < _NEWEST or last_offset > newest[0][0]):
        last = queue.span(log_min_offset).last
        if last is not None:
            (heapq.heappush if len(newest) < _NEWEST else heapq.heappushpop)(newest, (last.physical_offset, last))
    odd = queue.oddities(size_of_files)
    info.notes += odd.notes
    info.damage += [*odd.damage, *odd.empty]


def _queues_of(kind: ReadableQueues, only: Sequence[bytes] | None) -> Iterator[QueueOnDisk]:
    """Yield the queues of these topics, or all."""
    if only is None:
        yield from kind.queues()
        return
    for topic in only:
        yield from kind.queues(topic)


def _read_queues_beside(kind: AnyKind, log_min_offset: int, info: StoreInfo, ends: Ends) -> None:
    """Describe the queues of a kind that a store has beside others; all of them help to find the log's end."""
    for queue in kind.queues():
        span, files = queue.span(log_min_offset), queue.files
        name = stored_text(queue.key.topic)
        if not info.topics or info.topics[-1].topic != name or info.topics[-1].type != BATCH:
            info.topics.append(TopicInfo(name, type=BATCH))
        info.queue_bytes += files.bytes
        info.topics[-1].queues.append(
            QueueInfo(
                queue.key.queue_id, span.min_offset, span.max_offset, files.number, files.bytes, queue.entry_count()
            )
        )
        if span.last is not None:
            ends.last_entries.append(Entry(span.last.physical_offset, span.last.size, span.last.tags_code))
        info.damage += queue.oddities().damage


def _compare_kinds(kinds: Sequence[QueueKind], placement: QueuePlacement, log_min_offset: int, info: StoreInfo) -> None:
    """Report queues that end differently in the two kinds of a double write, of those that belong to both."""
    if len(kinds) < 2:
        return

    def is_in_both(topic: bytes) -> bool:
        return all(placement.holds(kind.name, topic) for kind in kinds)

    ends = {
        (topic.topic, queue.queue_id): queue.max_offset
        for topic in info.topics
        if is_in_both(stored_bytes(topic.topic))
        for queue in topic.queues
    }
    for kind in kinds[1:]:
        for queue in kind.queues():
            if not is_in_both(queue.key.topic):
                continue
            key, end = queue.key, queue.bounds(log_min_offset).max_offset
            other = ends.pop((stored_text(key.topic), key.queue_id), 0)
            if end != other:
                info.out_of_date.append(
                    f"{key} ends at {other} in {kinds[0].name} queues and at {end} in {kind.name} queues"
                )
        lacking = [f"{topic}/{queue_id}" for (topic, queue_id), end in ends.items() if end]
        if lacking:
            info.out_of_date.append(f"{some(lacking, FEW)}: not in {kind.name} queues")


def _read_index(store: StoreOnDisk, info: StoreInfo, ends: Ends) -> None:
    sizes = known_index_sizes(store.config, store.index_files)
    for file in store.index_files:
        if file.header is None:
            info.damage.append(
                f"{file.path}: {file.size} bytes, a header alone has {HEADER_SIZE}. Run `reput rebuild --only index`"
            )
            continue
        if sizes is not None and file.size != file_size(*sizes):
            info.damage.append(
                f"{file.path}: {file.size} bytes, and {sizes[0]} slots with {sizes[1]} items take {file_size(*sizes)}: "
                "it was cut, or is another store's. Run `reput rebuild --only index`"
            )
        header = file.header
        items = max(0, header.index_count - 1)
        info.index_files.append(
            IndexInfo(
                file.path.name,
                file.size,
                items,
                header.begin_timestamp if items else None,
                header.end_timestamp if items else None,
                header.begin_physical_offset,
                header.end_physical_offset,
            )
        )
        if items:
            ends.index_start = max(ends.index_start, header.end_physical_offset)
    ends.keeps_index = bool(store.index_choice.built)
    if not ends.keeps_index and store.config.message_index_enable is not False:
        info.notes.append(NO_INDEX_KEPT)
    for index in store.indexes.values():
        damage = index.damage
        try:
            reached = index.reaches(_record_above(store.log, index.marks, ends))
        except DamagedStoreError as error:
            damage, reached = str(error), None
        if damage:
            info.damage.append(damage)
            info.index_database = IndexDatabaseInfo(str(index.folder), None, None, damage)
        if reached is not None:
            info.index_database = IndexDatabaseInfo(str(index.folder), *reached)
            if index is store.index_read:
                ends.index_start = reached.offset


def _record_above(log: LogFiles, marks: IndexMarks | None, ends: Ends) -> Record | None:
    """Return the newest record above the marks of an index that a queue's last entry names and that has keys."""
    for entry in sorted(ends.last_entries, reverse=True) if marks is not None else ():
        if marks is None or entry.physical_offset <= marks.offset:
            break
        found = good_record(log, entry.physical_offset, entry.size)
        if found is not None and has_keys(record := found.decode()):
            return record
    return None


def _judge_marks(store: StoreOnDisk, info: StoreInfo, use: Use) -> None:
    """Report marks of an index that are wrong; while a process extends it, only those that are no numbers."""
    is_known = use.holder.who is Who.NOBODY and info.log.max_is_exact and info.log.tail in (CLEAN, TORN)
    for index in store.indexes.values():
        wrong = index.wrong_marks(info.log.max_offset if is_known else None)
        if wrong is not None:
            (info.out_of_date if wrong.is_of_crash and info.abort else info.damage).append(wrong.text)


# --- the rest -------------------------------------------------------------------------------------


def _read_state(store: StoreOnDisk, info: StoreInfo) -> None:
    layout = store.layout
    info.abort = not is_closed(layout)
    info.checkpoint = _checkpoint(layout, info)
    info.own = _own_state(store, info)
    # A reput process that holds the store holds RocketMQ's lock too.
    if fs.exists(layout.broker_lock) and not info.own.at_work:
        may_ask = os.access(layout.broker_lock, os.R_OK)
        info.broker_running = locks.broker_is_live(layout.broker_lock) if may_ask else None


def _read_deleted(layout: StoreLayout, log: LogFiles, info: StoreInfo) -> None:
    try:
        deleted = still_deleted(layout, log.min_offset)
    except DamagedStoreError as error:
        info.damage.append(str(error))
        return
    info.own.deleted = [str(one.key) for one in deleted]
    if deleted:
        info.notes.append(
            f"queues that were deleted with reput: {named(deleted)}. The log still has their messages; "
            f"{how_to_bring_back(deleted)}"
        )


def _checkpoint(layout: StoreLayout, info: StoreInfo) -> dict[str, int] | None:
    data = fs.read_bytes(layout.checkpoint, CHECKPOINT.size)
    if not data:
        # Writers, a broker too, create the file before they write it.
        missing = "no such file" if data is None else "not written yet"
        info.out_of_date.append(
            f"{layout.checkpoint}: {missing}; RocketMQ then looks through the whole log when it opens"
        )
        return None
    try:
        value: Checkpoint = decode_checkpoint(data)
    except struct.error:
        info.damage.append(f"{layout.checkpoint}: {len(data)} bytes, at least {CHECKPOINT.size} expected")
        return None
    return value._asdict()


def _frontier_values(frontier: own.Frontier) -> dict[str, Any]:
    values = frontier._asdict()
    for name in ("queue_fingerprint", "index_fingerprint"):
        values[name] = values[name]._asdict() if values[name] else None
    return values


def _own_state(store: StoreOnDisk, info: StoreInfo) -> OwnInfo:
    layout = store.layout
    at_work = locks.owner_is_live(layout.own(own.LOCK_NAME))
    found = OwnInfo(at_work=at_work, pending_swap=swap.pending_swap(layout) and not at_work)
    if not at_work:
        found.leftovers = list(swap.leftovers(layout))
    page = fs.read_bytes(layout.own(own.WATERMARKS_NAME), own.WATERMARKS.size)
    if page is not None and len(page) == own.WATERMARKS.size:
        values = dict(zip(own.WATERMARKS.offsets, own.WATERMARKS.struct.unpack(page), strict=True))
        if values["magic"] == own.WATERMARKS_MAGIC:
            found.epoch, found.writer = values["epoch"], values["writer"] if at_work else 0
    try:
        frontier = store.frontier
    except DamagedStoreError as error:
        info.damage.append(str(error))
    else:
        found.frontier = None if frontier is None else _frontier_values(frontier)
    if found.pending_swap:
        info.out_of_date.append("reput: a killed job left a swap; the next `reput rebuild` finishes it first")
    return found
