"""Estimates of a rebuild or a conversion, from a look at the files; nothing is changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reput.config import StoreConfig
from reput.files import fs
from reput.formats.index import index_file
from reput.formats.index.index_kinds import INDEX_DATABASE, INDEX_FILES
from reput.formats.log import properties as props
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.log.read.files import LogFiles
from reput.log.read.reader import first_records, mean_size
from reput.pipeline.build.rebuild.options import INDEX, QUEUES, RebuildOptions
from reput.pipeline.build.rebuild.prepare import PreparedRebuild, choose_source, find_buildable, prepare
from reput.store.disk.folder_sizes import Replaced, measured
from reput.store.disk.layout import StoreLayout
from reput.store.disk.placement import placement_settings
from reput.store.owner import swap
from reput.store.owner.owner import refuse_owned

_SAMPLE_RECORDS = 1000
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
    log_bytes = sum(min(file.data_end, file.end) - file.start for file in log.files)
    size, items_each = _sample(log, found.tag_items or INDEX_DATABASE in found.indexes)
    messages = log_bytes // size if size else 0
    of_queues, of_index = options.only != INDEX, INDEX_FILES in found.indexes
    entries = messages * len(found.message_kinds) if of_queues else 0
    items = int(messages * items_each) if of_index else 0
    files = -(-items // max(1, settings.index_items - 1))
    index_bytes = files * index_file.file_size(settings.index_slots, settings.index_items)
    database_entries = int(messages * items_each) if INDEX_DATABASE in found.indexes else 0
    needed = (
        entries * ENTRY_SIZE + index_bytes + database_entries * _BYTES_A_DATABASE_ENTRY + items * _PARTS_BYTES_AN_ITEM
    )
    needed += messages * _PARTS_BYTES_A_MESSAGE if of_queues else 0
    folders = [found.store.indexes[name].folder for name in (*found.indexes, *found.emptied)]
    replaced = [measured(layout, folder) for folder in (*folders, *(layout.queue_folders if of_queues else ()))]
    free = fs.free_bytes(layout.root)
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


def _sample(log: LogFiles, tag_items: bool) -> tuple[int, float]:
    """Return the mean bytes of a record and its mean index items, of the first records of the newest file with any."""
    records = first_records(log, _SAMPLE_RECORDS)
    if not records:
        return 0, 0.0
    return mean_size(records), sum(_items_of(record.decode().properties, tag_items) for record in records) / len(
        records
    )


def _items_of(properties: bytes, tag_items: bool) -> int:
    named = props.decode_properties(properties)
    return (
        len(props.keys_of(named.get(props.KEYS, b"")))
        + (props.UNIQUE_KEY in named)
        + (tag_items and props.TAGS in named)
    )
