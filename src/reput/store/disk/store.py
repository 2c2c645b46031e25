"""A store as it is on disk, listed once for one purpose, and the refusals of each purpose.

`layout.find_store` has the refusals for every reader and job. A refusal for some purposes is one line in `_EARLY` or
`_OF_FILES`: the first is asked by `refuse_early`, the second by `refuse`, when a store is opened, followed, built or
checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError, UnsupportedStoreError
from reput.files import fs
from reput.files.names import was_database
from reput.formats import metadata_v1, own
from reput.formats.lite_topics import is_light
from reput.formats.queue_kinds import DEFAULT_KINDS, PART_KIND
from reput.formats.record import LMQ_PREFIX
from reput.index.files import IndexFileOnDisk, list_index_files
from reput.index.kinds import AnyIndex
from reput.log.read.files import LogFiles, list_log_files
from reput.queue.combined import kind_to_read
from reput.queue.files import QUEUES_ASKED
from reput.queue.kinds import AnyKind, QueueKind, QueuesOnDisk, ReadableQueues
from reput.queue.placement import QueuePlacement
from reput.store.disk.configured_kinds import configured_kinds
from reput.store.disk.contradictions import refuse_contradictions
from reput.store.disk.database_folder import misplaced_database, partial_database, refuse_misplaced_database
from reput.store.disk.frontier import decoded_frontier, frontier_bytes, marks_of
from reput.store.disk.index_kinds import IndexChoice, all_indexes, choose_indexes
from reput.store.disk.index_tags import tag_items_in_use
from reput.store.disk.kinds import kinds_beside, kinds_named, present_kinds
from reput.store.disk.layout import (
    StoreLayout,
    find_store,
    refuse_linked_indexes,
    refuse_several_log_paths,
    refuse_what_we_cannot_build,
)
from reput.store.disk.placement import (
    FoundPlacement,
    ShownPlacement,
    placement_shown,
    resolved_placement,
    unseen_queues,
)
from reput.store.disk.queue_refusals import (
    missing_kinds,
    refuse_another_queue_file_size,
    refuse_held_kinds,
    refuse_odd_queue_files,
)
from reput.store.disk.queue_types import refuse_batches_beside, refuse_misplaced_queues
from reput.store.disk.settings import StoreSettings, resolve_settings
from reput.store.metadata.metadata import Metadata
from reput.store.metadata.topics import Topics, topics_of
from reput.store.metadata.v1 import V1Databases


class Purpose(Enum):
    """The use that a caller makes of a store."""

    LOOK = auto()
    """Show or compare what is there."""
    CHECK = auto()
    """Compare the indexes with the log."""
    SCAN = auto()
    """Read the log, and indexes as far as they are whole."""
    READ = auto()
    """Answer reads from the indexes; nothing is changed."""
    WRITE = auto()
    """Put messages; the caller owns the store."""
    FOLLOW = auto()
    """Extend the indexes."""
    BUILD = auto()
    """Replace the queues, and the IndexFiles unless they are left alone."""
    BUILD_SOME = auto()
    """Replace the queues of some topics."""
    BUILD_INDEX = auto()
    """Replace the IndexFiles alone."""
    DELETE = auto()
    """Remove queues: found for a dry run, since the owner that removes them opens the store to write."""


_BUILDS = frozenset({Purpose.BUILD, Purpose.BUILD_SOME, Purpose.BUILD_INDEX})
_MAKES_QUEUES = _BUILDS | {Purpose.WRITE, Purpose.FOLLOW}
_NEEDS_PRESENT_KINDS_ONLY = frozenset({Purpose.LOOK, Purpose.CHECK})


@dataclass(frozen=True)
class StoreOnDisk:
    """A store as it is on disk, for one purpose.

    Each part is read when a caller first asks for it, and only once. A caller that must see a later state makes a new
    one.

    Args:
        layout, config: the store's paths, and the settings that its files do not have.
        purpose: what the caller does with the store: this chooses the refusals and the kinds of queues.
        verify_crc: decoding checks the CRC of each body.
        tolerant: accept log files of odd sizes and holes between log files.
        below: leave out log files that begin at this log offset or later, since a writer may be making them.
        built: the kinds of queues to build, by name; empty for those that the configuration or the files name.
    """

    layout: StoreLayout
    config: StoreConfig
    purpose: Purpose
    _: KW_ONLY
    verify_crc: bool = True
    tolerant: bool = False
    below: int | None = None
    built: tuple[str, ...] = ()

    @classmethod
    def find(
        cls,
        root: Path | str,
        config: StoreConfig | None,
        purpose: Purpose,
        *,
        tolerant: bool = False,
        below: int | None = None,
    ) -> Self:
        """Find the store in `root`, and refuse what `refuse_early` refuses.

        Raises:
            NotAStoreError: `root` has no store.
            ReputError: see `refuse_early`.
        """
        config = config or StoreConfig()
        layout = find_store(root, config)
        if purpose in _NEEDS_PRESENT_KINDS_ONLY:
            layout = layout.as_found()
        store = cls(layout, config, purpose, tolerant=tolerant, below=below)
        store.refuse_early()
        return store

    def refuse_early(self) -> None:
        """Refuse a store by its configuration and folders: this needs no lock, and no job need end first.

        Raises:
            UnsupportedStoreError: reput does not read, or cannot replace, indexes of this kind.
            ConfigError: the store is to be followed, and a setting contradicts its files.
        """
        self._refuse(_EARLY)

    def refuse(self) -> None:
        """Refuse a store by its files; a caller that changes the store owns it by now.

        Raises:
            ConfigError: a setting contradicts the files.
            DamagedStoreError: a queue has files of a wrong length, or in the wrong folder.
            StoreLockedError: another process has queues open to write.
            ReputError: see `reput.errors`.
        """
        self._refuse(_OF_FILES)

    def _refuse(self, refusals: tuple[_Refusal, ...]) -> None:
        for one in refusals:
            if self.purpose in one.purposes:
                one.refuse(self)

    @cached_property
    def log(self) -> LogFiles:
        """The files of the log."""
        size = self.config.mapped_file_size_commit_log
        return list_log_files(self.layout.commit_log, size, self.tolerant, self.below)

    @cached_property
    def metadata(self) -> Metadata:
        """Topics, groups and committed offsets, wherever the broker keeps them."""
        return Metadata(self.layout.root, self.config, lambda: [kind.name for kind in self.present])

    @cached_property
    def topics(self) -> Topics:
        """The topics that the broker has."""
        return topics_of(self.metadata)

    @cached_property
    def settings(self) -> StoreSettings:
        """The settings, from the configuration, the files, or RocketMQ's defaults."""
        return resolve_settings(
            self.layout, self.config, self.topics, self.index_files, self.index_choice, self._placed, self.verify_crc
        )

    @cached_property
    def present(self) -> list[QueueKind]:
        """The present kinds of those, to list their queues; `message_kinds` has them with their file size, to open."""
        return present_kinds(self.layout.as_found())

    @cached_property
    def _ends(self) -> dict[tuple[str, Path], int | None]:
        return {}

    def complete_to(self, kind: AnyKind) -> int | None:
        """Return the log offset up to which a kind says that it is complete, as it was at the first question.

        Raises:
            DamagedStoreError: it cannot be read.
        """
        name = kind.name, kind.folder
        if name not in self._ends:
            self._ends[name] = kind.complete_to()
        return self._ends[name]

    @cached_property
    def unreadable(self) -> dict[str, str]:
        """The present kinds that cannot be read, by name, each with its damage and what helps."""
        found = {}
        for kind in self.present:
            try:
                self.complete_to(kind)
            except DamagedStoreError as error:
                found[kind.name] = str(error)
        return found

    def why_unreadable(self, topic: bytes) -> str:
        """Return the damage of the kind that alone has the queues of a topic; "" if they can be read.

        Light queues that no readable kind has may be there. If no kind can be read, the log itself gives all queues.
        """
        if self.purpose is not Purpose.READ or not is_light(topic):
            return ""
        damage = self.unreadable.get(PART_KIND, "") or self.partial_database
        if not damage or len(self.unreadable) == len(self.present):
            return ""
        return "" if self._has_light_queues else damage

    @cached_property
    def _has_light_queues(self) -> bool:
        """True if all readable kinds have light queues."""
        if self.placement.light_kind:
            return False
        with contextlib.ExitStack() as opened:
            known = [opened.enter_context(kind.topics_known()) for kind in self.message_kinds]
            return all(one.any_with(LMQ_PREFIX) for one in known)

    @cached_property
    def named_kinds(self) -> list[str]:
        """The kinds that the settings name, the one that answers reads first; empty if they name none.

        Raises:
            ConfigError, UnsupportedStoreError: RocketMQ refuses the settings, or reput does not know a type.

        Source: `DefaultMessageStore.createConsumeQueueStore`: without double write it loads the default kind alone.
        """
        named = configured_kinds(self.config)
        is_off = self.config.rocksdb_cq_double_write_enable is False
        return list(DEFAULT_KINDS) if not named and is_off and len(self.present) > 1 else named

    @cached_property
    def kinds(self) -> list[AnyKind]:
        """Every kind of queues that the purpose is about: `message_kinds`, and the kinds beside them."""
        return [*self.message_kinds, *kinds_beside(self.layout)]

    @cached_property
    def message_kinds(self) -> list[QueueKind]:
        """The kinds with an entry for each message that the purpose is about; the first answers reads.

        Reads do without a kind that cannot be read: another one answers, or else the log.
        """
        named, present = self.named_kinds, [kind.name for kind in self.present]
        if self.purpose in _NEEDS_PRESENT_KINDS_ONLY:
            names = present
        elif self.purpose in _BUILDS:
            names = [*self.built] or named or self.left or [*self._first_kinds]
        else:
            names = [*named, *(name for name in present if name not in named)]
            if self.purpose is Purpose.READ:
                names = [name for name in names if name not in self.unreadable]
            names = names or [*self._first_kinds]
        return kinds_named(names, self.layout, self.settings.queue_file_size)

    @cached_property
    def left(self) -> list[str]:
        """The names of the kinds of which the store has queues, or files of a database that was copied in part."""
        present = [kind.name for kind in self.present]
        return [*present, PART_KIND] if self.partial_database and PART_KIND not in present else present

    @cached_property
    def _first_kinds(self) -> tuple[str, ...]:
        """The kinds that a job makes in a store that has no queues, if no setting names one.

        Metadata in RocksDB of version 1 shows that the broker had its queues there, too (`isEnableRocksDBStore`).
        Version 2 does not depend on the storeType, and shows nothing.
        """
        if self._has_queues or self.config.store_type is not None or self.purpose not in _MAKES_QUEUES:
            return DEFAULT_KINDS
        return metadata_v1.QUEUE_KINDS if isinstance(self.metadata.chosen, V1Databases) else DEFAULT_KINDS

    @property
    def placement(self) -> QueuePlacement:
        """The placement of the queues: by the settings that are given, else by what the kinds hold.

        Raises:
            ConfigError, UnsupportedStoreError: see `named_kinds`.
        """
        return self._placed.placement

    @cached_property
    def _placed(self) -> FoundPlacement:
        names = self.named_kinds or self.left
        if not names and not self.built and self._first_kinds != DEFAULT_KINDS:
            what = f"no queues are there, and {self.metadata.chosen.words} has the metadata"
            return FoundPlacement(assumed=(f"{metadata_v1.store_type_with(True)} ({what})",))
        if len(names) < 2:
            return FoundPlacement()
        return resolved_placement(self.config, lambda: self.placement_shown, self.topics.lite)

    @cached_property
    def placement_shown(self) -> ShownPlacement:
        """The placement that the present queues show, whatever the settings say."""
        is_in_part = PART_KIND in self.left and all(kind.name != PART_KIND for kind in self.present)
        return placement_shown(self.layout, self.present, self.topics.lite, is_in_part=is_in_part)

    @property
    def missing_kinds(self) -> str:
        """A sentence about kinds that the settings name and of which the store has nothing; "" for none."""
        # A database that was copied in part is damage, and no other kind.
        lost = [name for name in self.left if name not in {kind.name for kind in self.present}]
        return missing_kinds(self.layout, [name for name in self.named_kinds if name not in lost], self.present)

    @cached_property
    def contradicted(self) -> list[str]:
        """Sentences about the settings of queues that the files contradict.

        Raises:
            ConfigError, UnsupportedStoreError: see `named_kinds`.
        """
        found = [
            # Two databases are damage, whatever the settings say.
            "" if misplaced_database(self.layout.as_found()) else misplaced_database(self._as_said),
            self.missing_kinds,
            unseen_queues(self.named_kinds, self.placement, self.placement_shown),
            self.lost_queues,
        ]
        return [text for text in found if text]

    @cached_property
    def partial_database(self) -> str:
        """A sentence about a database of queues that was copied in part; "" for none.

        Among queue files, of which there may be very many folders, a program that opens the store looks for one only
        beside a database's lock file.
        """
        folders = [self.layout.queue_database, self.layout.other_queue_database]
        if self.purpose not in _NEEDS_PRESENT_KINDS_ONLY:
            full = {kind.folder for kind in self.present}
            folders = [folder for folder in folders if folder not in full or was_database(folder)]
        return partial_database(folders)

    @property
    def _as_said(self) -> StoreLayout:
        """The paths with the database of queues where the settings say it is."""
        return replace(self.layout, separate_database=self.config.use_separate_store_path_for_rocksdb_cq)

    @property
    def lost_queues(self) -> str:
        """A sentence about a database of queues that the settings name, if the store has no queues; "" for none."""
        named = [name for name in self.named_kinds if name not in DEFAULT_KINDS]
        if self._has_queues or not named or not any(file.data_end > file.start for file in self.log.files):
            return ""
        # A writer may have made the database since its place was looked at.
        if self._promises_no_queue or fs.exists(self._as_said.queue_database):
            return ""
        return (
            f"{self._as_said.queue_database}: there is no database of queues, which the settings name, and the log has "
            "messages: it is lost, or was never there. `reput rebuild --only queue` builds it from the log"
        )

    @property
    def _promises_no_queue(self) -> bool:
        """True if a writer of ours has just begun: its frontier promises queues, and has passed no record yet."""
        try:
            frontier = self.frontier
        except DamagedStoreError:
            return False
        if frontier is None:
            # A writer that was refused has written nothing.
            return marks_of(self.layout)["wrote_offset"] > 0
        return frontier.queue_offset <= self.log.min_offset

    @cached_property
    def reading(self) -> ReadableQueues:
        """The queues that answer reads: the first kind, with light queues from another one if that alone has them."""
        kinds = self.message_kinds or kinds_named(DEFAULT_KINDS, self.layout, self.settings.queue_file_size)
        return kind_to_read(kinds, self.placement)

    @property
    def kinds_read(self) -> list[QueuesOnDisk]:
        """The queues that answer reads: `reading`, and the kinds beside it. A topic has queues in one of them."""
        return [self.reading, *kinds_beside(self.layout)]

    @property
    def _has_queues(self) -> bool:
        return bool(self.present) or any(kind.is_present() for kind in kinds_beside(self.layout))

    @cached_property
    def _frontier_bytes(self) -> bytes | None:
        return frontier_bytes(self.layout)

    @cached_property
    def frontier(self) -> own.Frontier | None:
        """The durable frontier; None without one.

        Raises:
            DamagedStoreError: the file is not a frontier.
        """
        return decoded_frontier(self.layout, self._frontier_bytes)

    @cached_property
    def index_files(self) -> list[IndexFileOnDisk]:
        """The IndexFiles. The frontier is read first, so no file that it covers is missing here."""
        _ = self._frontier_bytes
        return list_index_files(self.layout.index)

    @cached_property
    def indexes(self) -> dict[str, AnyIndex]:
        """Every kind of index by name, present or not, as it is now."""
        return all_indexes(self.layout, self.index_files)

    @cached_property
    def index_choice(self) -> IndexChoice:
        """The kinds of index that are extended with the log, and the one that answers."""
        return choose_indexes(self.config, self.indexes)

    @property
    def index_read(self) -> AnyIndex:
        """The index that answers."""
        return self.indexes[self.index_choice.read]

    @cached_property
    def tag_items(self) -> bool | None:
        """True if the IndexFiles have items for tags; None if they do not show it."""
        return tag_items_in_use(self.index_files, self.log, self.settings.index_slots)


class _Refusal(NamedTuple):
    """A refusal, and the purposes that it is for."""

    purposes: frozenset[Purpose]
    refuse: Callable[[StoreOnDisk], None]


def _refuse_odd_queue_files(store: StoreOnDisk) -> None:
    # After a clean end a writer looks at few queues here, and at each of the others when something is put to it.
    looks_at_few = store.purpose is Purpose.WRITE and not fs.exists(store.layout.abort)
    most = QUEUES_ASKED if looks_at_few else None
    refuse_odd_queue_files(store.kinds, store.settings.queue_file_size, most)


def _refuse_damaged_frontier(store: StoreOnDisk) -> None:
    # Before any work, not when the new indexes are ready.
    _ = store.frontier


def _refuse_other_kinds(store: StoreOnDisk) -> None:
    refuse_misplaced_database(store.layout)
    if why := store.missing_kinds:
        raise UnsupportedStoreError(why)


def _refuse_unseen_queues(store: StoreOnDisk) -> None:
    if why := unseen_queues(store.named_kinds, store.placement, store.placement_shown):
        raise ConfigError(why)


def _refuse_partial_database(store: StoreOnDisk) -> None:
    if store.partial_database:
        raise DamagedStoreError(store.partial_database)


def _refuse_misplaced_for_some(store: StoreOnDisk) -> None:
    if why := misplaced_database(store.layout):
        raise ConfigError(f"{why}. A rebuild of some topics leaves the database where it is")


_LOOKS_FOR_KINDS = frozenset({Purpose.SCAN, Purpose.DELETE})
_READS_OR_EXTENDS = frozenset({Purpose.READ, Purpose.WRITE, Purpose.FOLLOW})

_EARLY = (
    _Refusal(
        _READS_OR_EXTENDS | _BUILDS | {Purpose.CHECK},
        lambda store: refuse_what_we_cannot_build(store.layout, store.config),
    ),
    _Refusal(frozenset({Purpose.WRITE}), lambda store: refuse_several_log_paths(store.layout)),
    _Refusal(_BUILDS | {Purpose.DELETE}, lambda store: refuse_linked_indexes(store.layout)),
    _Refusal(_LOOKS_FOR_KINDS, _refuse_other_kinds),
    # A follower asks once: a writer that comes and goes meanwhile has settings of its own.
    _Refusal(
        frozenset({Purpose.FOLLOW, Purpose.DELETE}), lambda store: refuse_contradictions(store.layout, store.config)
    ),
)

_OF_FILES = (
    _Refusal(_READS_OR_EXTENDS, _refuse_other_kinds),
    _Refusal(frozenset({Purpose.WRITE, Purpose.FOLLOW}), _refuse_unseen_queues),
    _Refusal(frozenset({Purpose.WRITE, Purpose.FOLLOW}), _refuse_partial_database),
    _Refusal(frozenset({Purpose.BUILD_SOME}), _refuse_misplaced_for_some),
    _Refusal(_BUILDS | {Purpose.WRITE}, lambda store: refuse_contradictions(store.layout, store.config)),
    _Refusal(
        frozenset({Purpose.READ, Purpose.WRITE}),
        lambda store: refuse_another_queue_file_size(store.layout, store.config, store.settings.queue_file_size),
    ),
    _Refusal(_READS_OR_EXTENDS, lambda store: refuse_misplaced_queues(store.layout, store.settings.types)),
    _Refusal(
        _READS_OR_EXTENDS | _BUILDS | {Purpose.CHECK},
        lambda store: refuse_batches_beside(store.settings.types, store.kinds),
    ),
    _Refusal(frozenset({Purpose.WRITE}), lambda store: refuse_held_kinds(store.layout, store.kinds)),
    _Refusal(
        frozenset({Purpose.BUILD, Purpose.BUILD_SOME}), lambda store: refuse_held_kinds(store.layout, store.present)
    ),
    _Refusal(frozenset({Purpose.WRITE, Purpose.FOLLOW}), _refuse_odd_queue_files),
    _Refusal(_BUILDS, _refuse_damaged_frontier),
)
