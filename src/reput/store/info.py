"""What a store holds, from names, ends and headers: a few small reads a queue, and a short walk at the log's end."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.files import fs, locks
from reput.formats import own, paths
from reput.formats import properties as props
from reput.formats.checkpoint import CHECKPOINT, Checkpoint, decode_checkpoint
from reput.formats.consume_queue import ENTRY_SIZE, Entry
from reput.formats.index_file import HEADER_SIZE
from reput.formats.record import (
    CHECK_NONE,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    Record,
    Verdict,
)
from reput.index.files import list_index_files
from reput.log.files import LogFiles, list_log_files
from reput.log.reader import LogRecord, LogWalk, place, record_at
from reput.queue.files import QueueFolder, list_queues
from reput.queue.reader import queue_span
from reput.store import swap
from reput.store.layout import StoreLayout, find_store, unsupported_kinds

_WALK_SECONDS = 0.3
_TAIL_SEARCH_BYTES = 64 << 20
_OWN_FILE_LIMIT = 64 << 20
_ENTRIES_TRIED = 64
_NEAR_BYTES = 16 << 20

_BOTH = "`reput rebuild`"
_ONLY_QUEUE, _ONLY_INDEX = "`reput rebuild --only queue`", "`reput rebuild --only index`"
CLEAN, TORN, DAMAGED, UNKNOWN = "clean", "torn", "damaged", "unknown"


@dataclass(slots=True)
class QueueInfo:
    """One queue: its offsets [min_offset, max_offset), files, and their bytes."""

    queue_id: int
    min_offset: int
    max_offset: int
    files: int
    bytes: int

    @property
    def entries(self) -> int:
        """Messages that the queue still has."""
        return self.max_offset - self.min_offset


@dataclass(slots=True)
class TopicInfo:
    """The queues of one topic."""

    topic: str
    queues: list[QueueInfo] = field(default_factory=list)

    @property
    def entries(self) -> int:
        """Messages in all its queues."""
        return sum(queue.entries for queue in self.queues)


@dataclass(slots=True)
class IndexInfo:
    """One IndexFile as its header has it: items, and the store times (ms) and log offsets that they span."""

    name: str
    bytes: int
    items: int
    begin_timestamp: int
    end_timestamp: int
    begin_physical_offset: int
    end_physical_offset: int


@dataclass(slots=True)
class LogInfo:
    """The log: offsets and sizes in bytes, times in ms.

    `max_offset` is where the next record would stand; when `max_is_exact` is false the walk to it was given up, and it
    is at least that. `tail`: clean, torn (`tail_bytes` of a half-written record), damaged (records follow) or unknown.
    """

    folder: str
    files: int = 0
    file_size: int = 0
    bytes: int = 0
    min_offset: int = 0
    max_offset: int = 0
    max_is_exact: bool = True
    first_store_timestamp: int | None = None
    last_store_timestamp: int | None = None
    tail: str = CLEAN
    tail_bytes: int = 0


@dataclass(slots=True)
class OwnInfo:
    """reput's own state in the store: the watermarks' epoch, the frontier, a swap to finish, what killed jobs left.

    `at_work`: a reput process has the store now; folders of its job are no leftovers then.
    """

    epoch: int | None = None
    frontier: dict[str, Any] | None = None
    pending_swap: bool = False
    leftovers: list[str] = field(default_factory=list)
    at_work: bool = False


@dataclass(slots=True)
class StoreInfo:
    """What `reput info` tells. Offsets and sizes are bytes, times milliseconds.

    `behind` lists what is missing or behind, `damage` what is wrong, `unsupported` the kinds that reput does not build;
    `broker_running` is None where this user may not ask.
    """

    store: str
    log: LogInfo
    topics: list[TopicInfo] = field(default_factory=list)
    queue_bytes: int = 0
    index_files: list[IndexInfo] = field(default_factory=list)
    checkpoint: dict[str, int] | None = None
    abort: bool = False
    broker_running: bool | None = False
    own: OwnInfo = field(default_factory=OwnInfo)
    unsupported: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def queues(self) -> int:
        """Number of queues."""
        return sum(len(topic.queues) for topic in self.topics)

    @property
    def queue_entries(self) -> int:
        """Messages in all queues."""
        return sum(topic.entries for topic in self.topics)

    @property
    def index_items(self) -> int:
        """Items in all IndexFiles."""
        return sum(file.items for file in self.index_files)

    def to_dict(self) -> dict[str, Any]:
        """The values, ready for JSON, with the sums."""
        value = asdict(self)
        value |= {"queues": self.queues, "queue_entries": self.queue_entries, "index_items": self.index_items}
        for told, topic in zip(value["topics"], self.topics, strict=True):
            told["entries"] = topic.entries
            for told_queue, queue in zip(told["queues"], topic.queues, strict=True):
                told_queue["entries"] = queue.entries
        return value


@dataclass(slots=True)
class _Ends:
    """How far the indexes reach into the log: each queue's last entry, the last record that an item names (-1: none).

    `astray` are last entries that name no record, newest first; `queue` is the newest that does.
    """

    last_entries: list[Entry] = field(default_factory=list)
    queue: Entry | None = None
    astray: list[Entry] = field(default_factory=list)
    index_start: int = -1

    @property
    def queue_start(self) -> int:
        """Log offset of the last record that a queue names, -1 for none."""
        return self.queue.physical_offset if self.queue else -1


def store_info(path: Path | str, config: StoreConfig | None = None) -> StoreInfo:
    """What the store in `path` holds; nothing is made or changed, and a live broker may have it open.

    Raises:
        NotAStoreError: there is no store.
        UnsupportedStoreError: the log itself is of a kind that reput does not read.
        DamagedStoreError: files of the log overlap.
    """
    config = config or StoreConfig()
    layout = find_store(path, config)
    log = list_log_files(layout.commit_log, config.mapped_file_size_commit_log, tolerant=True)
    info = StoreInfo(str(layout.root), _log_info(log))
    info.damage += [note for note in log.notes if "ignored" not in note]
    info.notes += [note for note in log.notes if "ignored" in note]
    info.unsupported += [f"{kind}, which reput does not build yet" for kind in unsupported_kinds(layout, config)]
    _read_state(layout, info)
    ends = _Ends()
    _read_queues(layout, log, info, ends)
    _read_index(layout, info, ends)
    _read_log_end(log, info, ends, config)
    lacking = [text for text in info.behind if _ONLY_QUEUE in text or _ONLY_INDEX in text]
    if any(_ONLY_QUEUE in text for text in lacking) and any(_ONLY_INDEX in text for text in lacking):
        # One job builds both.
        info.behind = [text.replace(_ONLY_QUEUE, _BOTH).replace(_ONLY_INDEX, _BOTH) for text in info.behind]
    return info


def _log_info(log: LogFiles) -> LogInfo:
    first = record_at(log, log.min_offset, CHECK_NONE)
    return LogInfo(
        folder=str(log.folder),
        files=len(log.files),
        file_size=log.file_size,
        bytes=sum(file.size for file in log.files),
        min_offset=log.min_offset,
        max_offset=log.min_offset,
        first_store_timestamp=first.decode().store_timestamp if isinstance(first, LogRecord) else None,
    )


# --- the indexes ----------------------------------------------------------------------------------


def _read_queues(layout: StoreLayout, log: LogFiles, info: StoreInfo, ends: _Ends) -> None:
    for queue in list_queues(layout.consume_queue):
        span = queue_span(queue, log.min_offset)
        if not info.topics or info.topics[-1].topic != queue.topic:
            info.topics.append(TopicInfo(queue.topic))
        size = sum(file.size for file in queue.files)
        info.queue_bytes += size
        info.topics[-1].queues.append(
            QueueInfo(queue.queue_id, span.min_offset, span.max_offset, len(queue.files), size)
        )
        if span.last is not None:
            ends.last_entries.append(span.last)
        _look_at_queue_files(queue, info)


def _look_at_queue_files(queue: QueueFolder, info: StoreInfo) -> None:
    for number, file in enumerate(queue.files):
        if file.size == 0 and number == len(queue.files) - 1:
            info.notes.append(f"{file.path}: empty last file, which RocketMQ removes when it loads the queue")
        elif file.size % ENTRY_SIZE or file.start % ENTRY_SIZE or file.size != queue.files[0].size:
            info.damage.append(
                f"{file.path}: {file.size} bytes from byte {file.start} of the queue, {queue.files[0].path.name} has "
                f"{queue.files[0].size}; files of one size, in entries of {ENTRY_SIZE} bytes, are expected. "
                "Run `reput rebuild --only queue`"
            )


def _read_index(layout: StoreLayout, info: StoreInfo, ends: _Ends) -> None:
    for file in list_index_files(layout.index):
        if file.header is None:
            info.damage.append(
                f"{file.path}: {file.size} bytes, a header alone has {HEADER_SIZE}. Run `reput rebuild --only index`"
            )
            continue
        header = file.header
        items = max(0, header.index_count - 1)
        info.index_files.append(
            IndexInfo(
                file.path.name,
                file.size,
                items,
                header.begin_timestamp,
                header.end_timestamp,
                header.begin_physical_offset,
                header.end_physical_offset,
            )
        )
        if items:
            ends.index_start = max(ends.index_start, header.end_physical_offset)


# --- the log's end --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Walked:
    """What a walk to the log's end saw: the last record, and what the queues or the IndexFiles lack."""

    begin: int
    last: LogRecord | None = None
    not_queued: int = 0
    first_not_indexed: int = -1


def _read_log_end(log: LogFiles, info: StoreInfo, ends: _Ends, config: StoreConfig) -> None:
    if not log.files:
        if info.queue_entries or info.index_items:
            info.damage.append(
                f"{log.folder}: no log file, though the indexes hold entries. Is its disk mounted? Do not rebuild now"
            )
        else:
            info.behind.append(f"{log.folder}: no log file; the store is new")
        return
    walk = LogWalk(log, _walk_begin(log, ends), CHECK_NONE)
    walked = _Walked(walk.offset)
    deadline = time.monotonic() + _WALK_SECONDS
    for number, found in enumerate(walk):
        walked.last = found
        _compare(found, ends, walked)
        if number % 256 == 255 and time.monotonic() > deadline:
            info.log.max_is_exact, info.log.tail = False, UNKNOWN
            break
    info.log.max_offset = walk.offset
    if walked.last is not None:
        info.log.last_store_timestamp = walked.last.decode().store_timestamp
    if info.log.max_is_exact:
        _judge_end(log, walk, info)
    _look_between(log, walked, ends)
    _say_what_is_astray(log, info, ends)
    if walked.last is not None or info.log.first_store_timestamp is not None:
        _say_what_queues_lack(walked, info, ends)
        _say_what_the_index_lacks(walked, info, ends, config)


def _walk_begin(log: LogFiles, ends: _Ends) -> int:
    """A boundary near the log's end: a record that a queue names, or the start of the last file with data."""
    starts = [file.start for file in log.files if record_at(log, file.start, CHECK_NONE) is not Verdict.ZERO]
    last_file = max(starts, default=log.min_offset)
    for entry in sorted(ends.last_entries, reverse=True)[:_ENTRIES_TRIED]:
        found = record_at(log, entry.physical_offset, CHECK_NONE)
        if isinstance(found, LogRecord) and len(found.data) == entry.size:
            ends.queue = entry
            break
        ends.astray.append(entry)
    near = ends.queue_start >= last_file - _NEAR_BYTES
    return ends.queue_start if ends.queue is not None and near else last_file


def _compare(found: LogRecord, ends: _Ends, walked: _Walked) -> None:
    if found.offset <= min(ends.queue_start, ends.index_start):
        return
    record = found.decode()
    if found.offset > ends.queue_start and record.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT):
        walked.not_queued += 1
    if found.offset > ends.index_start and walked.first_not_indexed < 0 and _has_keys(record):
        walked.first_not_indexed = found.offset


def _has_keys(record: Record) -> bool:
    """Whether a record gives index items in every version of RocketMQ."""
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return False
    named = props.decode_properties(record.properties)
    return props.UNIQ_KEY in named or bool(named.get(props.KEYS, b"").strip(props.KEY_SEPARATOR))


def _look_between(log: LogFiles, walked: _Walked, ends: _Ends) -> None:
    """Look for a record with keys between the IndexFiles' end and the walk's begin: most often the next one has."""
    begin = max(ends.index_start, log.min_offset)
    if ends.index_start < 0 or begin >= walked.begin or not isinstance(record_at(log, begin, CHECK_NONE), LogRecord):
        return
    deadline = time.monotonic() + _WALK_SECONDS / 3
    for number, found in enumerate(LogWalk(log, begin, CHECK_NONE)):
        if found.offset >= walked.begin or (number % 256 == 255 and time.monotonic() > deadline):
            return
        if found.offset > ends.index_start and _has_keys(found.decode()):
            walked.first_not_indexed = found.offset
            return


def _judge_end(log: LogFiles, walk: LogWalk, info: StoreInfo) -> None:
    end = walk.end(_TAIL_SEARCH_BYTES)
    info.log.tail_bytes = end.written
    if end.is_damage:
        info.log.tail = DAMAGED
        info.log.max_is_exact = False
        info.damage.append(
            f"{place(log, end.offset)}: {end.verdict.meaning}, and records follow from log offset {end.next_record} "
            f"on. Restore these bytes from a replica or a backup; `reput dump log -o {end.next_record}` shows what "
            "follows"
        )
    elif end.is_torn:
        info.log.tail = TORN
        why = (
            "a broker is running and may be writing it"
            if info.broker_running
            else "RocketMQ cuts it off when it opens the store"
        )
        info.behind.append(
            f"{place(log, end.offset)}: torn tail, {end.written} bytes that are no whole record "
            f"({end.verdict.meaning}); {why}"
        )


def _say_what_is_astray(log: LogFiles, info: StoreInfo, ends: _Ends) -> None:
    cut = info.log.max_offset if info.log.tail in (CLEAN, TORN) else log.end_offset
    ahead = [entry for entry in ends.astray if entry.physical_offset >= cut]
    if ahead:
        many = "at least " if len(ends.astray) == _ENTRIES_TRIED else ""
        info.behind.append(
            f"consumequeue: {many}{len(ahead)} queues name records behind the log's end, from log offset "
            f"{ahead[-1].physical_offset} on; RocketMQ takes such entries back when it opens the store"
        )
    for entry in ends.astray[len(ahead) :]:
        info.damage.append(
            f"{place(log, entry.physical_offset)}: a queue's last entry names a record of {entry.size} bytes here, and "
            "there is none. `reput check` tells more"
        )


def _say_what_queues_lack(walked: _Walked, info: StoreInfo, ends: _Ends) -> None:
    if ends.queue is None:
        if not info.unsupported and not ends.astray:
            what = "no queue has an entry" if info.topics else "no queues"
            info.behind.append(f"consumequeue: {what}; `reput rebuild --only queue` builds them from the log")
    elif walked.not_queued:
        rough = ends.queue_start < walked.begin or not info.log.max_is_exact
        info.behind.append(
            f"consumequeue: ends at log offset {ends.queue_start + ends.queue.size}, the log at {info.log.max_offset}: "
            f"{'at least ' if rough else ''}{walked.not_queued} messages have no entry yet; "
            "`reput rebuild`, or a broker that opens the store, brings them"
        )


def _say_what_the_index_lacks(walked: _Walked, info: StoreInfo, ends: _Ends, config: StoreConfig) -> None:
    if config.message_index_enable is False:
        return
    if ends.index_start < 0:
        what = "no IndexFile has an item" if info.index_files else "no IndexFiles"
        info.behind.append(f"index: {what}; `reput rebuild --only index` builds them from the log")
    elif walked.first_not_indexed >= 0:
        info.behind.append(
            f"index: ends with the record at log offset {ends.index_start}, and a later one has keys (log offset "
            f"{walked.first_not_indexed}); `reput rebuild`, or a broker that opens the store, brings them"
        )


# --- the rest -------------------------------------------------------------------------------------


def _read_state(layout: StoreLayout, info: StoreInfo) -> None:
    info.abort = fs.exists(layout.abort)
    info.checkpoint = _checkpoint(layout, info)
    if fs.exists(layout.broker_lock):
        may_ask = os.access(layout.broker_lock, os.R_OK | os.W_OK)
        info.broker_running = locks.broker_is_live(layout.broker_lock) if may_ask else None
    info.own = _own_state(layout, info)


def _checkpoint(layout: StoreLayout, info: StoreInfo) -> dict[str, int] | None:
    data = fs.read_bytes(layout.checkpoint, CHECKPOINT.size)
    if data is None:
        info.behind.append(
            f"{layout.checkpoint}: no such file; RocketMQ then looks through the whole log when it opens"
        )
        return None
    try:
        value: Checkpoint = decode_checkpoint(data)
    except struct.error:
        info.damage.append(f"{layout.checkpoint}: {len(data)} bytes, at least {CHECKPOINT.size} expected")
        return None
    return value._asdict()


def _own_state(layout: StoreLayout, info: StoreInfo) -> OwnInfo:
    found = OwnInfo(pending_swap=swap.pending_swap(layout), at_work=locks.owner_is_live(layout.own(own.LOCK_NAME)))
    for entry in fs.list_dir(layout.reput):
        kind, _, epoch = entry.name.partition("-")
        if entry.is_dir and kind in ("staging", "aside") and epoch.isdigit():
            found.leftovers.append(entry.name)
    page = fs.read_bytes(layout.own(own.WATERMARKS_NAME), own.WATERMARKS.size)
    if page is not None and len(page) == own.WATERMARKS.size:
        values = dict(zip(own.WATERMARKS.offsets, own.WATERMARKS.struct.unpack(page), strict=True))
        found.epoch = values["epoch"] if values["magic"] == own.WATERMARKS_MAGIC else None
    path = layout.own(own.FRONTIER_NAME)
    data = fs.read_bytes(path, _OWN_FILE_LIMIT)
    if data is not None:
        try:
            frontier = own.decode_frontier(data, f"{paths.REPUT}/{own.FRONTIER_NAME}")
        except DamagedStoreError as error:
            info.damage.append(str(error))
        else:
            found.frontier = frontier._asdict()
            for name in ("queue_fingerprint", "index_fingerprint"):
                found.frontier[name] = value._asdict() if (value := found.frontier[name]) else None
    if found.pending_swap and not found.at_work:
        info.behind.append("reput: a killed job left a swap; the next `reput rebuild` finishes it first")
    return found
