"""The queue plan: which entries of which queues are read, found by offset and by time; and where keys are found.

Only what lies below the frontier is taken from queues and IndexFiles; behind it the log is read (`plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reput.config import StoreConfig
from reput.connect.selection import NO_END, Selection
from reput.connect.snapshot import Snapshot
from reput.files import fs
from reput.formats import paths
from reput.formats.consume_queue import ENTRY_SIZE, decode_entry
from reput.index.search import IndexSearch
from reput.log.maps import LogMaps
from reput.queue.by_time import Boundary, offset_by_time
from reput.queue.files import QueueFolder, list_queues, list_topic_queues
from reput.queue.reader import QueueSpan, queue_span
from reput.store.layout import unsupported_kinds

_ROCKSDB_SIGN = "CURRENT"
_LMQ_PREFIX = "%LMQ%"
CLOCK_SLACK_MS = 60_000
"""Store times follow the broker's clock, and a clock may be set back: a search by time looks this much further."""


class QueueCut(NamedTuple):
    """The entries with queue offsets [begin, end) of one queue, whose files lie in `folder`."""

    topic: str
    queue_id: int
    folder: str
    begin: int
    end: int


class FoundQueue(NamedTuple):
    """A queue on disk, and what of it lies below the frontier."""

    topic: str
    queue_id: int
    folder: QueueFolder
    span: QueueSpan


def found_queues(snapshot: Snapshot, selection: Selection) -> Iterator[FoundQueue]:
    """The queues on disk that are wanted."""
    for folder in _folders(snapshot, selection):
        name = folder.topic.encode("utf-8", "surrogateescape")
        if not paths.is_topic_folder_name(name):
            continue
        topic = name.decode("utf-8", "replace")
        if selection.wants(topic, folder.queue_id):
            span = queue_span(folder, snapshot.begin, snapshot.frontiers.queue_offset)
            yield FoundQueue(topic, folder.queue_id, folder, span)


def other_queues(snapshot: Snapshot, config: StoreConfig) -> str | None:
    """A kind of queue in the store that the queue plan does not read, with its place; None where all are plain."""
    layout = snapshot.layout
    if fs.exists(layout.consume_queue / _ROCKSDB_SIGN):
        return f"{layout.consume_queue}: RocksDB ConsumeQueues"
    if any(entry.is_dir for entry in fs.list_dir(layout.root / paths.BATCH_CONSUME_QUEUE)):
        return f"{layout.root / paths.BATCH_CONSUME_QUEUE}: batch ConsumeQueues"
    if any(entry.name.startswith(_LMQ_PREFIX) for entry in fs.list_dir(layout.consume_queue)):
        return f"{layout.consume_queue}: light message queues (LMQ)"
    return next(iter(unsupported_kinds(layout, config)), None)


def missing_topics(selection: Selection, queues: list[FoundQueue]) -> list[str]:
    """Topics that are asked for by name and have no queue on disk: their index may be missing."""
    names = _named(selection)
    return sorted(names - {queue.topic for queue in queues}) if names is not None else []


def _named(selection: Selection) -> frozenset[str] | None:
    """The topics that are asked for by name; None where it is not by name."""
    names = selection.topic_names
    chosen = selection.topics.names if selection.topics.assigned is None else frozenset(selection.topics.assigned)
    if chosen is None:
        return names
    return chosen if names is None else names & chosen


def _folders(snapshot: Snapshot, selection: Selection) -> Iterator[QueueFolder]:
    names = _named(selection)
    if names is None:
        yield from list_queues(snapshot.layout.consume_queue)
        return
    for name in sorted(names):
        # No name leads out of the folder.
        if paths.is_topic_folder_name(name.encode("utf-8", "surrogateescape")):
            yield from list_topic_queues(snapshot.layout.consume_queue / name)


def queue_cuts(selection: Selection, queues: list[FoundQueue], maps: LogMaps) -> list[QueueCut]:
    """The entries of these queues that may be wanted."""
    cuts = []
    for queue in queues:
        wanted = selection.offsets_of((queue.topic, queue.queue_id)).cut(queue.span.min_offset, queue.span.max_offset)
        times = selection.times_of((queue.topic, queue.queue_id))
        begin, end = wanted.begin, wanted.end
        store_time = _StoreTimes(queue.folder, maps)
        if begin < end and times.begin > CLOCK_SLACK_MS:
            begin = offset_by_time(store_time, begin, end, times.begin - CLOCK_SLACK_MS, Boundary.LOWER)
        if begin < end and times.end < NO_END - CLOCK_SLACK_MS:
            end = offset_by_time(store_time, begin, end, times.end + CLOCK_SLACK_MS, Boundary.LOWER)
        if begin < end:
            cuts.append(QueueCut(queue.topic, queue.queue_id, str(queue.folder.path), begin, end))
    return cuts


class _StoreTimes:
    """Tells the store time (ms) of a queue offset, -1 where there is none."""

    def __init__(self, queue: QueueFolder, maps: LogMaps) -> None:
        self.queue = queue
        self.maps = maps

    def __call__(self, offset: int) -> int:
        at = offset * ENTRY_SIZE
        for file in self.queue.files:
            if file.start <= at < file.start + file.size:
                data = fs.read_bytes(file.path, ENTRY_SIZE, at - file.start) or b""
                if len(data) < ENTRY_SIZE:
                    return -1
                entry = decode_entry(data)
                return -1 if entry.is_pre_blank else self.maps.store_time(entry.physical_offset)
        return -1


def key_places(snapshot: Snapshot, selection: Selection, topics: list[str]) -> list[int] | None:
    """Log offsets, in order, of the records below the frontier that may have one of the searched keys.

    None where the IndexFiles cannot tell: there are none, or some of another size than the rest.
    """
    settings = snapshot.settings
    index = IndexSearch(snapshot.layout.index, settings.index_slots, settings.index_items)
    index.load()
    found: set[int] = set()
    try:
        if index.odd or not settings.index_enabled or not fs.list_dir(snapshot.layout.index):
            return None
        for topic in topics:
            for key_hash in selection.key_hashes(topic):
                below = min(snapshot.frontiers)
                found.update(offset for offset, _ in index.find(key_hash, 0, NO_END, below))
    finally:
        index.close()
    position = selection.position
    return sorted(place for place in found if place >= snapshot.begin and position.begin <= place < position.end)
