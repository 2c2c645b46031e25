"""convert: the queues of a store in another kind, from its log or from the other kind, verified and swapped in whole.

It is a rebuild of the queues into the wanted kinds: until the swap, and after any error, the old ones are live. After a
kill the next run starts from the beginning, unless the swap had begun: then it finishes that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from reput.config import StoreConfig, parse_properties
from reput.errors import ConfigError
from reput.formats.index.index_kinds import INDEX_IN_WORDS, INDEX_TARGET_SETTINGS, INDEX_TARGETS
from reput.formats.queue.queue_kinds import FOLDER_SETTING, TARGET_SETTINGS, TARGETS
from reput.pipeline.build.rebuild.options import DEFAULT_SPLIT_MB, INDEX, LOG, QUEUE, QUEUES, RebuildOptions
from reput.pipeline.build.rebuild.prepare import find_buildable
from reput.pipeline.build.rebuild.rebuild import rebuild_found
from reput.pipeline.build.rebuild_report import RebuildReport
from reput.pipeline.convert.queues import convert_queues
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.store.disk.contradictions import contradictions
from reput.store.disk.database_folder import misplaced_database
from reput.store.disk.layout import StoreLayout, find_store
from reput.store.disk.placement import placement_settings
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.metadata.tables import Table
from reput.store.owner import swap
from reput.store.owner.owner import own_store


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The options of a conversion; see `reput convert --help`."""

    to: str | None = None
    source: str = LOG
    salvage: bool = False
    verify_crc: bool = True
    split_mb: float = DEFAULT_SPLIT_MB
    index: str | None = None

    def __post_init__(self) -> None:
        if (self.to is None) == (self.index is None):
            raise ConfigError("give one of to (queues) and index, not both: a conversion changes one of them")
        if self.to is not None and self.to not in TARGETS:
            raise ConfigError(f"to={self.to!r}: choose {', '.join(TARGETS)}")
        if self.index is not None and self.index not in INDEX_TARGETS:
            raise ConfigError(f"index={self.index!r}: choose {', '.join(INDEX_TARGETS)}")
        if self.index is not None and self.source != LOG:
            raise ConfigError(f"source={self.source!r}: an index is made from the log alone")

    def rebuild_options(self) -> RebuildOptions:
        """Return the options of the rebuild that does the conversion.

        Raises:
            ConfigError: The options contradict each other.
        """
        if self.index is not None:
            return RebuildOptions(
                only=INDEX,
                salvage=self.salvage,
                verify_crc=self.verify_crc,
                split_mb=self.split_mb,
                index_kinds=INDEX_TARGETS[self.index],
            )
        assert self.to is not None
        return RebuildOptions(
            only=QUEUE,
            salvage=self.salvage,
            verify_crc=self.verify_crc,
            split_mb=self.split_mb,
            kinds=TARGETS[self.to],
            # Queues that are copied from others are compared with those instead.
            verify=self.source == LOG,
            source=self.source,
        )


def nothing_to_convert(root: Path | str, options: ConvertOptions, config: StoreConfig) -> RebuildReport | None:
    """Return the report for a store that already has exactly these kinds of queues; None if there is something to do.

    Leftovers of a killed job, and a setting that contradicts the files, are something to do. If the kind to copy from
    is missing, the conversion raises the error.
    """
    layout = find_store(root, config)
    if swap.has_leftovers(layout):
        return None
    return _done_already(StoreOnDisk(layout, config, Purpose.BUILD), options)


def _done_already(store: StoreOnDisk, options: ConvertOptions) -> RebuildReport | None:
    if options.index is not None:
        return _index_done_already(store, options.index)
    assert options.to is not None
    layout, present = store.layout, {kind.name for kind in store.present}
    if present != set(TARGETS[options.to]) or (options.source != LOG and len(present) == 1):
        return None
    if store.placement != store.placement_shown.placement or misplaced_database(layout):
        return None
    if contradictions(store):
        return None
    report = RebuildReport(str(layout.root), salvage=False)
    has = "both kinds of queues" if len(present) > 1 else f"{options.to} queues"
    report.notes.append(
        f"the store already has {has}: nothing to do. `reput check` compares them with the log, "
        "`reput rebuild --only queue` builds them again"
    )
    return report


def _index_done_already(store: StoreOnDisk, target: str) -> RebuildReport | None:
    indexes = store.indexes.values()
    present = tuple(index.name for index in indexes if index.is_present)
    if any(index.damage for index in indexes) or present != INDEX_TARGETS[target]:
        return None
    report = RebuildReport(str(store.layout.root), salvage=False)
    report.notes.append(
        f"the store already has its index in {INDEX_IN_WORDS[target]}: nothing to do. `reput check` compares it with "
        "the log, `reput rebuild --only index` builds it again"
    )
    return report


def convert_store(
    root: Path | str,
    engine: Engine,
    options: ConvertOptions,
    config: StoreConfig,
    listener: ProgressListener | None = None,
) -> RebuildReport:
    """Convert the queues of the store in `root` to another kind.

    If a conversion to this kind was killed during or after its swap, only that is finished.

    Raises:
        ConfigError: There is no other kind of queues to build from.
        DamagedLogError: The log is damaged in the middle, and `salvage` is off.
        ReputError: See `reput.errors`; the old queues are live unless the text says otherwise.
    """
    layout = find_buildable(root, config)
    notes = _finish_killed_job(layout)
    if notes and (done := _done_already(StoreOnDisk(layout, config, Purpose.BUILD), options)):
        done.notes[:0] = notes
        return done
    build = convert_queues if options.source == QUEUES else None
    report = rebuild_found(layout, engine, config, options.rebuild_options(), listener or ProgressListener(), build)
    report.notes[:0] = notes
    if options.index is not None:
        report.notes.append(f"a broker uses this index if its broker.conf says {INDEX_TARGET_SETTINGS[options.index]}")
    elif options.to is not None:
        report.notes.append(
            f"a broker uses these queues if its broker.conf says {_broker_settings(layout, config, options.to)}"
        )
        report.warnings += metadata_warnings(layout, options.to, config)
    return report


def _broker_settings(layout: StoreLayout, config: StoreConfig, to: str) -> str:
    """Return the settings of broker.conf that go with queues converted to a target, where they are now."""
    said = [TARGET_SETTINGS[to]]
    is_separate = layout.queue_database != layout.consume_queue
    if is_separate or layout.separate_database is not None:
        said.append(f"{FOLDER_SETTING}={str(is_separate).lower()}")
    placement = StoreOnDisk(layout, replace(config, store_type=None), Purpose.LOOK).placement
    return ", ".join([*said, *placement_settings(placement.of_kinds(TARGETS[to]))])


def metadata_warnings(layout: StoreLayout, to: str, config: StoreConfig) -> list[str]:
    """Say what a broker with the target's settings does with topics, groups and offsets that are elsewhere."""
    wanted = StoreConfig.from_properties(parse_properties(TARGET_SETTINGS[to]))
    metadata = StoreOnDisk(layout, config.with_given(wanted), Purpose.LOOK).metadata
    return [note for table in Table for note in metadata.readable(table).notes]


def _finish_killed_job(layout: StoreLayout) -> list[str]:
    """Finish the swap of a killed job and remove leftovers; return notes about that."""
    if not swap.has_leftovers(layout):
        return []
    with own_store(layout) as owned:
        return owned.notes
