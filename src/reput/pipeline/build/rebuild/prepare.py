"""Preparation of a rebuild: what it lists and refuses before it changes anything. A dry run ends here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import ConfigError, texts_of
from reput.formats.index.index_file import file_size
from reput.formats.index.index_kinds import DEFAULT_INDEXES
from reput.log.read.files import LogFiles
from reput.pipeline.build.rebuild.options import AUTO, INDEX, LOG, ON, QUEUE, QUEUES, RebuildOptions
from reput.pipeline.build.rebuild_report import RebuildReport
from reput.queue.combined import kind_to_read
from reput.queue.kinds import AnyKind, QueueKind, ReadableQueues
from reput.queue.placement import EVERYWHERE
from reput.store.disk.index_kinds import NO_INDEX_KEPT, refuse_held_index
from reput.store.disk.kinds import kind_named, kinds_named
from reput.store.disk.layout import StoreLayout
from reput.store.disk.purpose import Purpose
from reput.store.disk.settings import StoreSettings, known_index_sizes
from reput.store.disk.store import StoreOnDisk
from reput.store.owner import swap
from reput.store.owner.owner import refuse_owned
from reput.store.owner.strays import refuse_lost_log
from reput.texts import size_text


@dataclass(frozen=True, slots=True)
class PreparedRebuild:
    """A store that can be rebuilt, and the report so far.

    `indexes` are the kinds of index to build, `emptied` those to make anew without a message. `from_log`: queues come
    from the log, not from other queues.
    """

    store: StoreOnDisk
    indexes: tuple[str, ...]
    emptied: tuple[str, ...]
    tag_items: bool
    from_log: bool
    report: RebuildReport

    @property
    def log(self) -> LogFiles:
        """The files of the log."""
        return self.store.log

    @property
    def settings(self) -> StoreSettings:
        """The store's settings."""
        return self.store.settings

    @property
    def kinds(self) -> list[AnyKind]:
        """The kinds of queues to build. Those with batches come from the log alone."""
        return [kind for kind in self.store.kinds if self.from_log or not kind.has_batches]

    @property
    def message_kinds(self) -> list[QueueKind]:
        """Those of them with an entry for each message."""
        return self.store.message_kinds


def find_buildable(root: Path | str, config: StoreConfig) -> StoreLayout:
    """Find a store whose indexes reput can build.

    Raises:
        ReputError: there is none, or its indexes cannot be swapped.
    """
    return StoreOnDisk.find(root, config, Purpose.BUILD).layout


def refuse_early(root: Path | str, config: StoreConfig, options: RebuildOptions) -> None:
    """Refuse a rebuild before Spark starts; nothing is changed. The job checks again when it owns the store.

    Raises:
        ReputError: the rebuild would be refused before it reads the log.
    """
    layout = find_buildable(root, config)
    refuse_owned(layout)
    # The job first finishes the swap of a killed job, and that may change the answers.
    if not swap.has_leftovers(layout):
        found = prepare(layout, config, options)
        if options.source == QUEUES:
            choose_source(found.store)


def prepare(layout: StoreLayout, config: StoreConfig, options: RebuildOptions) -> PreparedRebuild:
    """Look at a store that is to be rebuilt; nothing is changed.

    Raises:
        ReputError: it cannot be rebuilt with these options.
    """
    store = StoreOnDisk(
        layout,
        config,
        _purpose_of(options),
        verify_crc=options.verify_crc,
        # A conversion from other queues does not need the whole log.
        tolerant=options.salvage or options.source == QUEUES,
        built=options.kinds,
    )
    store.refuse()
    log, settings = store.log, store.settings
    report = RebuildReport(str(layout.root), options.salvage, assumed=list(settings.assumed))
    report.notes += log.notes
    if not log.is_whole:
        report.warnings.append(
            f"{log.folder}: files of the log are missing or have a wrong length, so `get` and other readers still "
            "refuse the store. Restore these files"
        )
    unreadable = store.unreadable_metadata
    report.warnings += texts_of(unreadable)
    report.notes += [note for note in settings.notes if not any(note.startswith(str(one)) for one in unreadable)]
    if not log.files and not options.empty_log:
        refuse_lost_log(layout, "no log file")
    indexes, emptied = _indexes(store, options) if options.only != QUEUE else ((), ())
    if options.only != QUEUE and not settings.index_enabled:
        report.notes.append("messageIndexEnable=false: the IndexFiles were left alone")
    elif options.only != QUEUE:
        report.notes += _index_notes(store, indexes, emptied)
    for name in (*indexes, *emptied):
        refuse_held_index(store.indexes[name])
    has_items = any(store.indexes[name].has_every_message for name in indexes)
    tag_items = _tag_items(store, options, report) if has_items else False
    if has_items and options.index_kinds and known_index_sizes(store.config, store.index_files) is None:
        report.notes.append(_sizes_note(settings))
    built = ((QUEUE, options.only != INDEX), (INDEX, bool(indexes or emptied)))
    report.built = [name for name, is_wanted in built if is_wanted]
    return PreparedRebuild(store, indexes, emptied, tag_items, options.source == LOG, report)


def _purpose_of(options: RebuildOptions) -> Purpose:
    if options.only == INDEX:
        return Purpose.BUILD_INDEX
    return Purpose.BUILD_SOME if options.topics or options.skip_topics else Purpose.BUILD


def _indexes(store: StoreOnDisk, options: RebuildOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the kinds of index to build, and those to make anew without a message.

    These are the kinds that a conversion leaves out, and damaged ones: a broker opens its database in any case.
    """
    wanted, found = options.index_kinds or store.settings.indexes.built, store.indexes.items()
    others = ((name, index) for name, index in found if name not in wanted)
    emptied = tuple(name for name, one in others if one.damage or (options.index_kinds and one.is_present))
    return tuple(wanted), emptied


def _index_notes(store: StoreOnDisk, indexes: Sequence[str], emptied: Sequence[str]) -> list[str]:
    """Return notes on the kinds of index that are built, if not just IndexFiles, and on the others that there are."""
    notes = []
    if not (indexes or emptied):
        notes.append(f"{NO_INDEX_KEPT}. None is built")
    elif tuple(indexes) != DEFAULT_INDEXES:
        notes.append(f"built by key: {' and '.join(store.indexes[name].words for name in indexes)}")
    for name, index in store.indexes.items():
        if name in emptied:
            notes.append(f"{index.folder}: made anew without {index.words}")
        elif name not in indexes and index.is_present:
            notes.append(f"{index.folder}: left alone, since the store does not extend {index.words}")
    return notes


def _sizes_note(settings: StoreSettings) -> str:
    """Say how large new IndexFiles are where nothing shows the sizes that the broker has."""
    slots, items = settings.index_slots, settings.index_items
    return (
        f"each IndexFile takes {size_text(file_size(slots, items))}, with {slots} slots and {items} items as RocketMQ "
        "makes them by default: the store has no IndexFile that shows other sizes. Give those of the broker with "
        "--config, or --set maxHashSlotNum=... and --set maxIndexNum=..."
    )


def _tag_items(store: StoreOnDisk, options: RebuildOptions, report: RebuildReport) -> bool:
    if options.index_tags != AUTO:
        return options.index_tags == ON
    if store.tag_items is None:
        report.assumed.append("tags are indexed, as RocketMQ does since 5.4.0 (--index-tags off for older brokers)")
        return True
    report.notes.append(f"tags are {'' if store.tag_items else 'not '}indexed, as in the present IndexFiles")
    return store.tag_items


class QueueSource(NamedTuple):
    """The queues from which others are built, as one to read, and the kinds that they consist of."""

    queues: ReadableQueues
    kinds: Sequence[QueueKind]


def choose_source(store: StoreOnDisk) -> QueueSource:
    """Return the queues whose entries are read: of a kind that the job does not make, if there is one.

    Raises:
        ConfigError: the store has no queues, or only those of the one kind to make.
    """
    layout, made = store.layout, [kind.name for kind in store.message_kinds]
    present = kinds_named([kind.name for kind in store.present], layout.as_found(), store.settings.queue_file_size)
    shown, is_guess = store.placement_shown
    if shown != EVERYWHERE and is_guess:
        raise ConfigError(
            f"{layout.root}: the database of queues cannot be read, and it may hold light queues that no other kind "
            "has. Use the log: --source log"
        )
    if shown != EVERYWHERE:
        # Files first: with the light queues that they lack they have every queue.
        return QueueSource(kind_to_read(present, shown), present)
    named = store.named_kinds
    present.sort(key=lambda kind: named.index(kind.name) if kind.name in named else len(named))
    # A database that moves to another folder is made from the present one.
    others = [kind for kind in present if kind.name not in made or kind.folder != kind_named(kind.name, layout).folder]
    if not others and len(made) > 1:
        others = present
    if others:
        return QueueSource(others[0], others[:1])
    has = f"{' and '.join(kind.name for kind in present)} queues alone" if present else "no queues"
    raise ConfigError(
        f"{layout.root}: the store has {has}, so there is no other kind to convert from. Use the log: --source log"
    )
