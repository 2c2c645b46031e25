"""Estimates of a rebuild or a conversion, from a look at the files; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reput.config import StoreConfig
from reput.dispatch.batch import group_by_queue
from reput.files import disk_space
from reput.formats.index import index_file
from reput.formats.index.index_kinds import INDEX_DATABASE, INDEX_FILES
from reput.formats.log.record import CHECK_NONE
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.kernels.layouts.columns import Columns
from reput.log.read.files import LogFiles, written_end
from reput.log.read.scan import LogWalk, WalkRules
from reput.pipeline.build.rebuild.options import INDEX, QUEUES, RebuildOptions
from reput.pipeline.build.rebuild.prepare import PreparedRebuild, choose_source, find_buildable, prepare
from reput.store.disk.folder_sizes import Replaced, measured
from reput.store.disk.layout import StoreLayout
from reput.store.disk.placement import placement_settings
from reput.store.owner import swap
from reput.store.owner.owner import refuse_owned

_SAMPLE_BYTES = 1 << 19
_PARTS_BYTES_A_MESSAGE, _PARTS_BYTES_AN_ITEM = 25, 4
"""Largest size of the parts that a rebuild leaves for its later stages while it runs."""
_BYTES_A_DATABASE_ENTRY = 160
"""The key and value of an entry of the index database, twice: in the tables, and in what RocksDB makes of them."""


@dataclass(slots=True)
class DryRun:
    """The effect of a rebuild. Messages, entries, items and bytes are estimates from the newest records of the log.

    `bytes_needed` are for the new indexes, which exist at the same time as the old ones, and for the parts between
    stages. `index_entries` are in the index database. `queue_folders`: the folder of each kind of queues, below the
    store; `placement`: the settings of broker.conf with which a kind gets less than all queues.
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
    queue_folders: dict[str, str] = field(default_factory=dict)
    placement: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return every field, ready for JSON."""
        return {**asdict(self), "replaced": [one._asdict() for one in self.replaced]}


def dry_rebuild(root: Path | str, config: StoreConfig, options: RebuildOptions) -> DryRun:
    """Estimate a rebuild.

    Raises:
        ReputError: the rebuild would be refused before it reads the log.
    """
    layout = find_buildable(root, config)
    refuse_owned(layout)
    found = prepare(layout, config, options)
    if options.source == QUEUES:
        found.report.notes.append(f"the entries come from the {choose_source(found.store).queues.name} queues")
    if swap.pending_swap(layout):
        found.report.notes.append("a job was killed while it swapped the indexes in; the run finishes that first")
    elif left := list(swap.leftovers(layout)):
        found.report.notes.append(f"the run first removes what a killed job left: {', '.join(left)}")
    return _estimated(layout, found, options)


def _estimated(layout: StoreLayout, found: PreparedRebuild, options: RebuildOptions) -> DryRun:
    log, settings = found.log, found.settings
    log_bytes, sample = _bytes_written(log), _sample(found)
    messages = round(log_bytes * sample.messages)
    of_queues, of_index = options.only != INDEX, INDEX_FILES in found.indexes
    entries = round(log_bytes * sample.entries) if of_queues else 0
    stored = round(log_bytes * sample.stored) if of_queues else 0
    items = round(log_bytes * sample.items) if of_index else 0
    files = -(-items // max(1, settings.index_items - 1))
    index_bytes = files * index_file.file_size(settings.index_slots, settings.index_items)
    database_entries = round(log_bytes * sample.items) if INDEX_DATABASE in found.indexes else 0
    needed = (
        stored * ENTRY_SIZE + index_bytes + database_entries * _BYTES_A_DATABASE_ENTRY + items * _PARTS_BYTES_AN_ITEM
    )
    needed += messages * _PARTS_BYTES_A_MESSAGE if of_queues else 0
    folders = [found.store.indexes[name].folder for name in (*found.indexes, *found.emptied)]
    replaced = [measured(layout, folder) for folder in (*folders, *(layout.queue_folders if of_queues else ()))]
    free = disk_space.free_bytes(layout.root)
    kinds = [kind.name for kind in found.message_kinds] if of_queues else []
    run = DryRun(
        str(layout.root), found.report.built, kinds, log_bytes,
        messages, entries, items, files, [one for one in replaced if one.files], needed, free,
        found.report.assumed, found.report.notes, found.report.warnings, database_entries,
    )  # fmt: skip
    if of_queues:
        run.queue_folders = {kind.name: kind.folder.relative_to(layout.root).as_posix() for kind in found.message_kinds}
        run.placement = placement_settings(found.store.placement.of_kinds(run.kinds))
    if needed > free:
        run.warnings.append(f"about {needed} bytes are needed, and {free} are free on the file system of {layout.root}")
    if options.topics or options.skip_topics:
        run.notes.append("the queues of the other topics stay: entries and bytes are those of all topics")
    return run


def _bytes_written(log: LogFiles) -> int:
    """Return the bytes of log up to the last one that is not zero: a broker makes files in full length, also ahead."""
    written = 0
    for file in reversed(log.files):
        written += written_end(file.path, 0, file.size) if not written else file.size
    return written


class _LogYield(NamedTuple):
    """The messages, queue entries and index items that a byte of log gives on average.

    `stored` counts an entry once for each kind of queues that gets it.
    """

    messages: float = 0
    entries: float = 0
    stored: float = 0
    items: float = 0


def _sample(found: PreparedRebuild) -> _LogYield:
    """Decode the first records of the newest file that has any, as the rebuild would."""
    decode = found.settings.decoding(found.tag_items or INDEX_DATABASE in found.indexes)._replace(crc_check=CHECK_NONE)
    rules = WalkRules(decode, _SAMPLE_BYTES, further=True)
    for file in reversed(found.log.files):
        records = entries = stored = items = size = 0
        for piece in LogWalk(found.log, file.start, rules).pieces():
            records += piece.columns.records
            for count, kinds in _entries_of(found, piece.columns):
                entries += count
                stored += count * kinds
            items += piece.columns.items
            size += piece.offset - piece.begin
            if size >= _SAMPLE_BYTES:
                break
        if records:
            return _LogYield(records / size, entries / size, stored / size, items / size)
    return _LogYield()


def _entries_of(found: PreparedRebuild, columns: Columns) -> Iterator[tuple[int, int]]:
    """Yield the entries that decoded records get in each queue, and how many of the kinds that are built get them."""
    batch = group_by_queue(columns, found.settings.types)
    kinds = [kind.name for kind in found.message_kinds]
    placement = found.store.placement.of_kinds(kinds)
    for row, key in batch.queues():
        if getting := sum(placement.holds(kind, key.topic) for kind in kinds):
            yield len(batch.queue_entries(row)) // ENTRY_SIZE, getting
    if found.from_log:
        yield sum(map(len, batch.batches.entries.values())), 1
