"""The end of a store's log, and what the indexes lack below it: a short walk from the last record in a queue."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from reput.files import fs
from reput.formats.java.java_numbers import parse_whole
from reput.formats.log import properties as props
from reput.formats.log.record import (
    CHECK_NONE,
    FLAG_INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    Record,
    Verdict,
)
from reput.formats.queue.consume_queue import Entry
from reput.formats.stored_text import stored_text
from reput.halving import first_where
from reput.log.read.files import LogFile, LogFiles
from reput.log.read.reader import confirmed_damage, end_of, good_record, next_boundary, place, record_at
from reput.log.read.scan import LogRecord, LogWalk, checking
from reput.store.disk.frontier import NO_INDEX_FILE_NEEDED, needs_no_index_file
from reput.store.info.use import Use
from reput.store.info.values import CLEAN, DAMAGED, TORN, UNKNOWN, QueueInfo, StoreInfo, TopicInfo
from reput.store.owner.holders import Who

_UNCHECKED = checking(CHECK_NONE)
_WALK_SECONDS = 0.3
_TAIL_SEARCH_BYTES = 64 << 20
_ENTRIES_TRIED = 64
_NEAR_BYTES = 16 << 20
_JUMP_BYTES = 1 << 20
_PAGE = 4096


@dataclass(slots=True)
class Ends:
    """The ends of the indexes in the log: each queue's last entry, and the last record that an item names (-1: none).

    `astray`: last entries that point to no record, newest first. `queue`: the newest that points to one. `is_partial`:
    not all queues were read, so what they lack is not reported. `keeps_index`: the store extends one by key.
    """

    last_entries: list[Entry] = field(default_factory=list)
    queue: Entry | None = None
    astray: list[Entry] = field(default_factory=list)
    index_start: int = -1
    is_partial: bool = False
    keeps_index: bool = True

    @property
    def queue_start(self) -> int:
        """Log offset of the last record that a queue names, -1 for none."""
        return self.queue.physical_offset if self.queue else -1


@dataclass(slots=True)
class _WalkToEnd:
    """The result of a walk to the log's end: the last record, and what the queues or the IndexFiles lack.

    Queues are complete below log offset `queued_to`; `waiting` has the spans of later messages, by queue.
    `jumped`: the walk left out a range in the middle.
    """

    begin: int
    queued_to: int
    last: LogRecord | None = None
    not_queued: int = 0
    first_not_queued: int = -1
    first_not_indexed: int = -1
    jumped: bool = False
    waiting: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)


def read_log_end(log: LogFiles, info: StoreInfo, ends: Ends, use: Use) -> None:
    """Find the log's end, and report what is there and what the indexes lack below it."""
    if use.holder.who in (Who.WRITER, Who.BROKER):
        _read_confirmed(log, info, ends, use)
        return
    if not log.files:
        _say_that_all_is_lost(f"{log.folder}: no log file", info)
        return
    begin = _walk_begin(log, ends)
    queued_to = ends.queue_start + 1 if use.frontier is None else use.frontier
    walk = LogWalk(log, begin, _UNCHECKED)
    walked = _WalkToEnd(walk.offset, queued_to)
    if not _walk_on(walk, walked, ends):
        jumped = LogWalk(log, _near_end(log, walk.offset), _UNCHECKED)
        last = walked.last
        info.log.max_is_exact = _walk_on(jumped, walked, ends) and walked.last is not last
        if walked.last is not last:
            walk, walked.jumped = jumped, True
    info.log.max_offset = walk.offset
    if walked.last is not None:
        info.log.last_store_timestamp = walked.last.decode().store_timestamp
    if info.log.max_is_exact and use.holder.who is not Who.OPENING:
        _judge_end(log, walk, info)
    else:
        info.log.tail = UNKNOWN
    if walked.last is None and info.log.first_store_timestamp is None and info.log.tail == CLEAN:
        _say_that_all_is_lost(f"{log.folder}: no record in the log's files", info)
        return
    if use.holder.who in (Who.JOB, Who.OPENING):
        info.notes.append(f"{use.holder.text} is at work on this store: its indexes are not judged")
        return
    _look_between(log, walked, ends)
    if use.holder.who is Who.NOBODY:
        _say_what_is_astray(log, info, ends)
    if walked.last is not None or info.log.first_store_timestamp is not None:
        _say_what_is_missing(walked, info, ends, use)
    # A range that the walk left out has messages too.
    if not walked.jumped and info.log.max_is_exact and walked.begin <= max(queued_to, log.min_offset):
        _add_waiting(walked, info)


def _read_confirmed(log: LogFiles, info: StoreInfo, ends: Ends, use: Use) -> None:
    """Look at a log that a writer or a broker extends, up to its confirmed end; nothing later is judged."""
    if log.files:
        _walk_begin(log, ends)
    limit, queued_to = use.confirmed, use.frontier
    if limit is None or queued_to is None:
        # A broker confirms nothing: the log is whole up to the last record in its queues.
        limit = queued_to = ends.queue.physical_offset + ends.queue.size if ends.queue else log.min_offset
    info.confirmed_offset = info.log.max_offset = limit
    begin = max(queued_to, log.min_offset)
    walk = LogWalk(log, begin, _UNCHECKED, limit)
    walked = _WalkToEnd(begin, queued_to)
    is_whole = _walk_on(walk, walked, ends)
    if is_whole and (why := confirmed_damage(walk.offset, walk.verdict, limit)):
        info.log.tail, info.log.max_is_exact = DAMAGED, False
        info.damage.append(f"{place(log, walk.offset)}: {why}. `reput check` shows more")
    if not is_whole:
        _walk_on(
            LogWalk(log, next_boundary(log, max(walk.offset, limit - _JUMP_BYTES)), _UNCHECKED, limit), walked, ends
        )
        info.waiting_is_exact = False
    last = walked.last
    if last is None and ends.queue is not None:
        last = good_record(log, ends.queue_start)
    if last is not None:
        info.log.last_store_timestamp = last.decode().store_timestamp
    _add_waiting(walked, info)


def _add_waiting(walked: _WalkToEnd, info: StoreInfo) -> None:
    """Add the messages without entries to the topics."""
    info.waiting_messages = walked.not_queued
    topics = {topic.topic: topic for topic in info.topics}
    for (name, queue_id), (first, end) in sorted(walked.waiting.items()):
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicInfo(name)
            info.topics.append(topic)
        queue = next((one for one in topic.queues if one.queue_id == queue_id), None)
        if queue is None:
            queue = QueueInfo(queue_id, first, first, 0, 0, 0)
            topic.queues.append(queue)
        # An indexer may have added some of them meanwhile.
        queue.waiting = max(0, end - max(first, queue.max_offset))
        queue.max_offset = max(queue.max_offset, end)


def _say_that_all_is_lost(what: str, info: StoreInfo) -> None:
    """Report a log without a record: the store is new, or its log is gone and its indexes are not."""
    there = "queues" if info.queue_entries else "IndexFiles" if info.index_items else None
    if there is None:
        info.out_of_date.append(f"{what}; the store is new")
    else:
        info.damage.append(
            f"{what}, though there are {there} with entries. Is its disk mounted, and does storePathCommitLog name "
            "another folder?"
        )


def _walk_on(walk: LogWalk, walked: _WalkToEnd, ends: Ends) -> bool:
    """Walk to the end of the records; returns True if the walk reached it in time."""
    deadline = time.monotonic() + _WALK_SECONDS
    for number, found in enumerate(walk):
        walked.last = found
        _compare(found, ends, walked)
        if number % 256 == 255 and time.monotonic() > deadline:
            return False
    return True


def _near_end(log: LogFiles, begin: int) -> int:
    """Find a boundary shortly before the last written page of the log; zeros inside bodies may mislead the search."""
    file = _last_file(log)
    first, end = (max(begin, file.start) - file.start) // _PAGE, -(-(file.data_end - file.start) // _PAGE)

    def is_empty(page: int) -> bool:
        return not (fs.read_bytes(file.path, _PAGE, page * _PAGE) or b"").strip(b"\0")

    first_empty = first_where(first + 1, end, is_empty)
    return next_boundary(log, max(begin, file.start + first_empty * _PAGE - _JUMP_BYTES))


def _last_file(log: LogFiles) -> LogFile:
    """Return the last file that begins with data; the first file if none does."""
    with_data = [file for file in log.files if record_at(log, file.start, CHECK_NONE) is not Verdict.ZERO]
    return with_data[-1] if with_data else log.files[0]


def _walk_begin(log: LogFiles, ends: Ends) -> int:
    """Find a boundary near the log's end: a record that a queue names, or the start of the last file with data."""
    last_file = _last_file(log).start
    for entry in sorted(ends.last_entries, reverse=True)[:_ENTRIES_TRIED]:
        if good_record(log, entry.physical_offset, entry.size) is not None:
            ends.queue = entry
            break
        ends.astray.append(entry)
    near = ends.queue_start >= last_file - _NEAR_BYTES
    return ends.queue_start if ends.queue is not None and near else last_file


def _compare(found: LogRecord, ends: Ends, walked: _WalkToEnd) -> None:
    if found.offset < min(walked.queued_to, ends.index_start + 1):
        return
    record = found.decode()
    if found.offset >= walked.queued_to and record.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT):
        walked.not_queued += 1
        if walked.first_not_queued < 0:
            walked.first_not_queued = found.offset
        first, end = _numbers_of(record)
        key = stored_text(record.topic), record.queue_id
        known = walked.waiting.get(key, (first, end))
        walked.waiting[key] = min(first, known[0]), max(end, known[1])
    if found.offset > ends.index_start and walked.first_not_indexed < 0 and has_keys(record):
        walked.first_not_indexed = found.offset


def _numbers_of(record: Record) -> tuple[int, int]:
    """Return the queue offsets [first, end) of a record: a batch has one for each of its messages."""
    if record.sys_flag & FLAG_INNER_BATCH:
        named = props.decode_properties(record.properties)
        numbers = named.get(props.INNER_BASE, b""), named.get(props.INNER_NUM, b"")
        base, count = (parse_whole(one, 64) for one in numbers)
        if base is not None and count is not None and min(base, count) >= 0:
            return base, base + count
    return record.queue_offset, record.queue_offset + 1


def has_keys(record: Record) -> bool:
    """Return True if every version of RocketMQ makes index items of a record."""
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return False
    named = props.decode_properties(record.properties)
    return props.UNIQUE_KEY in named or bool(named.get(props.KEYS, b"").strip(props.KEY_SEPARATOR))


def _look_between(log: LogFiles, walked: _WalkToEnd, ends: Ends) -> None:
    """Look for a record with keys between the end of the IndexFiles and the walk; mostly the next record has keys."""
    begin = max(ends.index_start, log.min_offset)
    if ends.index_start < 0 or begin >= walked.begin or good_record(log, begin) is None:
        return
    deadline = time.monotonic() + _WALK_SECONDS / 3
    for number, found in enumerate(LogWalk(log, begin, _UNCHECKED)):
        if found.offset >= walked.begin or (number % 256 == 255 and time.monotonic() > deadline):
            return
        if found.offset > ends.index_start and has_keys(found.decode()):
            walked.first_not_indexed = found.offset
            return


def _judge_end(log: LogFiles, walk: LogWalk, info: StoreInfo) -> None:
    end = end_of(walk, _TAIL_SEARCH_BYTES)
    info.log.tail_bytes = end.written
    if end.is_damage:
        info.log.tail = DAMAGED
        info.log.max_is_exact = False
        info.damage.append(
            f"{place(log, end.offset)}: {end.verdict.meaning}, and records follow from log offset {end.next_record} "
            "on. Restore these bytes from a replica or a backup; "
            f"`reput dump log --physical-offset {end.next_record}` shows what follows"
        )
    elif end.is_torn:
        info.log.tail = TORN
        cut = "" if log.has_odd_size else "; RocketMQ cuts it off when it opens the store"
        info.out_of_date.append(
            f"{place(log, end.offset)}: torn tail, {end.written} bytes that are not a whole record "
            f"({end.verdict.meaning}){cut}"
        )


def _say_what_is_astray(log: LogFiles, info: StoreInfo, ends: Ends) -> None:
    cut = info.log.max_offset if info.log.tail in (CLEAN, TORN) else log.end_offset
    ahead = [entry for entry in ends.astray if entry.physical_offset >= cut]
    if ahead:
        many = "at least " if len(ends.astray) == _ENTRIES_TRIED else ""
        queues = f"{len(ahead)} queues name records" if len(ahead) > 1 else "1 queue names a record"
        removed = "" if log.has_odd_size else "; RocketMQ removes such entries when it opens the store"
        info.out_of_date.append(
            f"consumequeue: {many}{queues} after the log's end, from log offset {ahead[-1].physical_offset} on{removed}"
        )
    for entry in ends.astray[len(ahead) :]:
        info.damage.append(
            f"{place(log, entry.physical_offset)}: a queue's last entry names a record of {entry.size} bytes here, and "
            "there is none. `reput check` shows more"
        )


def _needs_no_item(info: StoreInfo, use: Use) -> bool:
    """Return True if IndexFiles without an item are whole up to reput's frontier: no message below it has a key."""
    return bool(info.index_files) and (info.own.frontier is not None or use.frontier is not None)


def _remedy(info: StoreInfo, use: Use, first: int, trusted_to: int, only: str) -> str:
    """Name what adds the entries or items of records from log offset `first` on; `only` is empty for both.

    A follower begins at the frontier; without a frontier it assumes that nothing below `trusted_to` is missing.
    """
    if use.holder.who is Who.FOLLOWER:
        return f"{use.holder.text} adds them"
    if info.own.frontier is not None:
        trusted_to = min(info.own.frontier[f"{part}_offset"] for part in ([only] if only else ["queue", "index"]))
    elif info.abort:
        # The follower begins below the checkpoint.
        trusted_to = 0
    if first < trusted_to:
        return f"`reput rebuild{only and f' --only {only}'}` builds them again"
    return f"`reput follow {info.store} --until-caught-up`, or a broker that opens the store, adds them"


def _say_what_is_missing(walked: _WalkToEnd, info: StoreInfo, ends: Ends, use: Use) -> None:
    queues = index = ""
    if ends.queue is None and not ends.astray and not ends.is_partial:
        # Of the kinds only a database can be there without a queue.
        none = "the database of queues is empty, as after a kill before its first flush"
        queues = "no queue has an entry" if info.topics else none if info.queue_kinds else "no queues"
    # The damage of a database of the index is reported with its remedy.
    is_unknown = ends.index_start < 0 and info.index_database is not None and bool(info.index_database.damage)
    may_lack = ends.keeps_index and not is_unknown
    if may_lack and ends.index_start < 0 and not _needs_no_item(info, use):
        index = "no IndexFile has an item" if info.index_files else "no IndexFiles"
    if queues and index:
        remedy = _remedy(info, use, info.log.min_offset, 0, "")
        info.out_of_date.append(f"consumequeue and index: {queues}, {index}; {remedy}")
        return
    if queues:
        info.out_of_date.append(f"consumequeue: {queues}; `reput rebuild --only queue` builds them from the log")
    elif ends.queue is not None and walked.not_queued and not ends.is_partial:
        rough = walked.queued_to < walked.begin or walked.jumped or not info.log.max_is_exact
        remedy = _remedy(info, use, walked.first_not_queued, walked.queued_to, "queue")
        lacking = f"{walked.not_queued} messages have" if walked.not_queued > 1 else "1 message has"
        info.out_of_date.append(
            f"consumequeue: ends at log offset {ends.queue_start + ends.queue.size}, the log at {info.log.max_offset}: "
            f"{'at least ' if rough else ''}{lacking} no entry yet; {remedy}"
        )
    if index:
        own = info.own.frontier
        if own is not None and not info.index_files and needs_no_index_file(own["index_offset"], own["index_file"]):
            info.notes.append(f"index: {index}; {NO_INDEX_FILE_NEEDED}")
            return
        info.out_of_date.append(f"index: {index}; `reput rebuild --only index` builds them from the log")
    elif walked.first_not_indexed >= 0 and may_lack:
        ends_with = f"ends with the record at log offset {ends.index_start}" if ends.index_start >= 0 else "has no item"
        remedy = _remedy(info, use, walked.first_not_indexed, walked.queued_to, "index")
        info.out_of_date.append(
            f"index: {ends_with}, and a later one has keys (log offset {walked.first_not_indexed}); {remedy}"
        )
