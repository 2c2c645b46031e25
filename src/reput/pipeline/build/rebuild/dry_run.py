"""Estimates of a rebuild, a conversion or a deletion, from a look at the files; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.files import fs
from reput.formats import index_file
from reput.formats import properties as props
from reput.formats.consume_queue import ENTRY_SIZE
from reput.formats.index_kinds import INDEX_DATABASE, INDEX_FILES
from reput.formats.record import CHECK_NONE
from reput.log.read.files import LogFiles
from reput.log.read.scan import LogWalk, checking
from reput.nearest import unknown_topic
from reput.pipeline.build.rebuild.options import INDEX, QUEUES, RebuildOptions
from reput.pipeline.build.rebuild.prepare import PreparedRebuild, choose_source, find_buildable, prepare
from reput.queue.kinds import AnyKind
from reput.store.disk.kinds import every_kind
from reput.store.disk.layout import StoreLayout
from reput.store.disk.store import Purpose, StoreOnDisk
from reput.store.owner import swap
from reput.store.owner.owner import refuse_owned

_SAMPLE_RECORDS = 1000
_PARTS_BYTES_A_MESSAGE, _PARTS_BYTES_AN_ITEM = 25, 4
"""Largest size of the parts that a rebuild leaves for its later stages while it runs."""
_BYTES_A_DATABASE_ENTRY = 160
"""The key and value of an entry of the index database, twice: in the tables, and in what RocksDB makes of them."""


class Replaced(NamedTuple):
    """A folder that the new indexes replace, or that is removed: its files and their bytes on disk."""

    folder: str
    files: int
    bytes: int


@dataclass(slots=True)
class DryRun:
    """The effect of a rebuild. Messages, entries, items and bytes are estimates from the newest records of the log.

    `bytes_needed` are for the new indexes, which exist at the same time as the old ones, and for the parts between
    stages. `index_entries` are in the index database.
    """

    store: str
    built: list[str]
    kinds: list[str]
    log_bytes: int
    messages: int
    queue_entries: int
    index_items: int
    index_files: int
    replaced: list[Replaced]
    bytes_needed: int
    bytes_free: int
    assumed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    index_entries: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return every field, ready for JSON."""
        return {**asdict(self), "replaced": [one._asdict() for one in self.replaced]}


@dataclass(slots=True)
class DryDeletion:
    """The queues of a topic that a deletion would remove: ids, entries, and the folders of files."""

    store: str
    topic: str
    queues: list[int]
    entries: int
    removed: list[Replaced]

    def to_dict(self) -> dict[str, Any]:
        """Return every field, ready for JSON."""
        return {**asdict(self), "removed": [one._asdict() for one in self.removed]}


def dry_rebuild(root: Path | str, config: StoreConfig, options: RebuildOptions) -> DryRun:
    """Estimate a rebuild.

    Raises:
        ReputError: the rebuild would be refused before it reads the log.
    """
    layout = find_buildable(root, config)
    refuse_owned(layout)
    found = prepare(layout, config, options)
    if options.source == QUEUES:
        names = [kind.name for kind in found.kinds]
        source = choose_source(layout, config, found.settings.queue_file_size, names)
        found.report.notes.append(f"the entries come from the {source.name} queues")
    if swap.pending_swap(layout):
        found.report.notes.append("a job was killed while it swapped the indexes in; the run finishes that first")
    elif left := list(swap.leftovers(layout)):
        found.report.notes.append(f"the run first removes what a killed job left: {', '.join(left)}")
    return _estimated(layout, found, options)


def dry_delete(root: Path | str, config: StoreConfig, topic: str, queue_id: int | None) -> DryDeletion:
    """Find what a deletion would remove.

    Raises:
        ConfigError: there is no such topic, or no such queue.
        ReputError: the deletion would be refused.
    """
    store = StoreOnDisk.find(root, config, Purpose.DELETE)
    layout = store.layout
    refuse_owned(layout)
    kinds = every_kind(layout, store.kinds)
    entries = _entries(kinds, topic)
    folders = [layout.consume_queue, layout.batch_consume_queue, layout.consume_queue_ext]
    there = sorted({*entries, *(one for folder in folders for one in _ids(folder / topic))})
    chosen = [one for one in there if queue_id in {None, one}]
    if not there:
        topics = {queue.key.topic for kind in kinds for queue in kind.queues()}
        known = sorted(name.decode("utf-8", "replace") for name in topics)
        raise ConfigError(unknown_topic(layout.root, topic, known))
    if not chosen:
        ids = ", ".join(map(str, there))
        raise ConfigError(f"{layout.root}: topic {topic} has no queue {queue_id}. There are: {ids}")
    removed = [_measured(layout, folder / topic / str(one)) for folder in folders for one in chosen]
    held = sum(entries.get(one, 0) for one in chosen)
    return DryDeletion(str(layout.root), topic, chosen, held, [one for one in removed if one.files])


def _entries(kinds: Sequence[AnyKind], topic: str) -> dict[int, int]:
    """Return the number of entries of each queue of a topic, in the kind that is read first; a batch is one entry."""
    found: dict[int, int] = {}
    for kind in kinds:
        for queue in kind.queues(topic.encode("utf-8", "surrogateescape")):
            if queue.key.queue_id not in found:
                found[queue.key.queue_id] = queue.entry_count()
    return found


def _ids(folder: Path) -> Iterable[int]:
    """Return the ids of the queues that have a folder in a topic's folder."""
    return (int(entry.name) for entry in fs.list_dir(folder) if entry.is_dir and entry.name.isdecimal())


def _estimated(layout: StoreLayout, found: PreparedRebuild, options: RebuildOptions) -> DryRun:
    log, settings = found.log, found.settings
    log_bytes = sum(min(file.data_end, file.end) - file.start for file in log.files)
    size, items_each = _sample(log, found.tag_items or INDEX_DATABASE in found.indexes)
    messages = log_bytes // size if size else 0
    of_queues, of_index = options.only != INDEX, INDEX_FILES in found.indexes
    entries = messages * len(found.kinds) if of_queues else 0
    items = int(messages * items_each) if of_index else 0
    files = -(-items // max(1, settings.index_items - 1))
    index_bytes = files * index_file.file_size(settings.index_slots, settings.index_items)
    database_entries = int(messages * items_each) if INDEX_DATABASE in found.indexes else 0
    needed = (
        entries * ENTRY_SIZE + index_bytes + database_entries * _BYTES_A_DATABASE_ENTRY + items * _PARTS_BYTES_AN_ITEM
    )
    needed += messages * _PARTS_BYTES_A_MESSAGE if of_queues else 0
    folders = [found.store.indexes[name].folder for name in (*found.indexes, *found.emptied)]
    replaced = [_measured(layout, folder) for folder in (*(layout.queue_folders if of_queues else ()), *folders)]
    free = fs.free_bytes(layout.root)
    run = DryRun(
        str(layout.root), found.report.built, [kind.name for kind in found.kinds] if of_queues else [], log_bytes,
        messages, entries, items, files, [one for one in replaced if one.files], needed, free,
        found.report.assumed, found.report.notes, index_entries=database_entries,
    )  # fmt: skip
    if needed > free:
        run.warnings.append(f"about {needed} bytes are needed, and {free} are free on the file system of {layout.root}")
    if options.topics or options.skip_topics:
        run.notes.append("the queues of the other topics stay: entries and bytes are those of all topics")
    return run


def _sample(log: LogFiles, tag_items: bool) -> tuple[int, float]:
    """Return the mean bytes of a record and its mean index items, of the first records of the newest file with any."""
    for file in reversed(log.files):
        records = list(islice(LogWalk(log, file.start, checking(CHECK_NONE)), _SAMPLE_RECORDS))
        if records:
            items = sum(_items_of(record.decode().properties, tag_items) for record in records)
            return max(1, sum(len(record.data) for record in records) // len(records)), items / len(records)
    return 0, 0.0


def _items_of(properties: bytes, tag_items: bool) -> int:
    named = props.decode_properties(properties)
    keys = [key for key in named.get(props.KEYS, b"").split(props.KEY_SEPARATOR) if key]
    return len(keys) + (props.UNIQ_KEY in named) + (tag_items and props.TAGS in named)


def _measured(layout: StoreLayout, folder: Path) -> Replaced:
    sizes = list(_sizes(folder))
    name = folder.relative_to(layout.root).as_posix() if folder.is_relative_to(layout.root) else str(folder)
    return Replaced(name, len(sizes), sum(sizes))


def _sizes(folder: Path) -> Iterable[int]:
    """Yield the bytes of each file below a folder."""
    for entry in fs.list_dir(folder):
        if entry.is_dir:
            yield from _sizes(folder / entry.name)
        else:
            yield entry.size
