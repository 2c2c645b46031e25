"""The facts about a store: topics, settings, kinds of queues and their placement, indexes. Each is read once."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property

from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.formats.config import metadata_v1
from reput.formats.config.consumer_offset import split_key
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.queue.queue_kinds import DEFAULT_KINDS, PART_KIND
from reput.formats.topics.lite_topics import is_light
from reput.formats.topics.system_topics import LMQ_PREFIX
from reput.index.files import IndexFileOnDisk, list_index_files
from reput.index.kinds import AnyIndex
from reput.queue.combined import kind_to_read
from reput.queue.kinds import AnyKind, QueueKind, ReadableQueues
from reput.queue.placement import QueuePlacement
from reput.store.disk.database_folder import misplaced_database
from reput.store.disk.found_queues import FoundQueues
from reput.store.disk.index_kinds import IndexChoice, all_indexes, choose_indexes
from reput.store.disk.index_tags import tag_items_in_use
from reput.store.disk.kinds import KindBeside, kinds_beside, kinds_named
from reput.store.disk.placement import (
    FoundPlacement,
    ShownPlacement,
    placement_shown,
    resolved_placement,
    unseen_queues,
)
from reput.store.disk.purpose import BUILDS, MAKES_QUEUES, NEEDS_PRESENT_KINDS_ONLY, Purpose
from reput.store.disk.settings import StoreSettings, resolve_settings
from reput.store.disk.wrong_types import WrongType, wrong_types
from reput.store.metadata.metadata import Metadata
from reput.store.metadata.tables import Table
from reput.store.metadata.topics import Topics, topics_of
from reput.store.metadata.v1 import V1Databases


@dataclass(frozen=True)
class StoreFacts(FoundQueues):
    """The facts about a store; see `StoreOnDisk` for the arguments."""

    @cached_property
    def metadata(self) -> Metadata:
        """Topics, groups and committed offsets, wherever the broker keeps them."""
        return Metadata(self.layout.root, self.config, lambda: [kind.name for kind in self.present])

    @cached_property
    def topics(self) -> Topics:
        """The topics that the broker has."""
        return topics_of(self.metadata)

    @cached_property
    def highest_committed(self) -> dict[QueueKey, int] | None:
        """The highest offset that a group has committed in each queue; None if the broker has left none.

        Raises:
            DamagedStoreError: they cannot be read.
        """
        if not self.metadata.source(Table.OFFSETS).is_present(Table.OFFSETS):
            return None
        highest: dict[QueueKey, int] = {}
        for name, queues in self.metadata.read(Table.OFFSETS).values.items():
            topic, _ = split_key(name) or ("", "")
            for queue_id, offset in queues.items():
                key = QueueKey(topic.encode("utf-8", "surrogatepass"), queue_id)
                highest[key] = max(offset, highest.get(key, offset))
        return highest

    @cached_property
    def wrong_types(self) -> list[WrongType]:
        """The files in the place of folders and the reverse; readers go on as if they were not there."""
        return wrong_types(self.layout)

    @property
    def wrong_type_texts(self) -> list[str]:
        """A sentence on each of them."""
        return [one.text for one in self.wrong_types]

    @cached_property
    def unreadable_metadata(self) -> list[DamagedStoreError]:
        """The damage of topics and committed offsets, which a job goes on without."""
        found = (error for table in (Table.TOPICS, Table.OFFSETS) for error in self._damage_of(table))
        return list({str(error): error for error in found}.values())

    def _damage_of(self, table: Table) -> list[DamagedStoreError]:
        try:
            return [DamagedStoreError(text) for text in self.metadata.read(table).damage]
        except DamagedStoreError as error:
            return [error]

    @cached_property
    def settings(self) -> StoreSettings:
        """The settings, from the configuration, the files, or RocketMQ's defaults."""
        return resolve_settings(
            self.layout, self.config, self.topics, self.index_files, self.index_choice, self._placed, self.verify_crc
        )

    def why_unreadable(self, topic: bytes) -> str:
        """Return the damage of the kind that alone has the queues of a topic; "" if they can be read.

        Light queues that no readable kind has may be there. If no kind can be read, the log itself gives all queues.
        """
        if self.purpose is not Purpose.READ or not is_light(topic):
            return ""
        damage = str(self.unreadable.get(PART_KIND) or self.partial_database)
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
    def kinds(self) -> list[AnyKind]:
        """Every kind of queues that the purpose is about: `message_kinds`, and the kinds beside them."""
        return [*self.message_kinds, *kinds_beside(self.layout)]

    @cached_property
    def message_kinds(self) -> list[QueueKind]:
        """The kinds with an entry for each message that the purpose is about; the first answers reads.

        Reads do without a kind that cannot be read: another one answers, or else the log.
        """
        named, present = self.named_kinds, [kind.name for kind in self.present]
        if self.purpose in NEEDS_PRESENT_KINDS_ONLY:
            names = present
        elif self.purpose in BUILDS:
            names = [*self.built] or named or self.left or [*self._first_kinds]
        else:
            names = [*named, *(name for name in present if name not in named)]
            if self.purpose is Purpose.READ:
                names = [name for name in names if name not in self.unreadable]
            names = names or [*self._first_kinds]
        return kinds_named(names, self.layout, self.settings.queue_file_size)

    @cached_property
    def _first_kinds(self) -> tuple[str, ...]:
        """The kinds that a job makes in a store that has no queues, if no setting names one."""
        is_assumed = self.purpose in MAKES_QUEUES and self.assumed_store_type
        return metadata_v1.QUEUE_KINDS if is_assumed else DEFAULT_KINDS

    @cached_property
    def assumed_store_type(self) -> str:
        """The storeType that a job assumes in a store that has no queues, with its reason; "" if it assumes none.

        Metadata in RocksDB of version 1 shows that the broker had its queues there, too (`isEnableRocksDBStore`).
        Version 2 does not depend on the storeType, and shows nothing.
        """
        is_given = self.config.store_type is not None
        if self._has_queues or is_given or not isinstance(self.metadata.chosen, V1Databases):
            return ""
        what = f"no queues are there, and {self.metadata.chosen.words} has the metadata"
        return f"{metadata_v1.store_type_with(True)} ({what})"

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
            return FoundPlacement(assumed=(self.assumed_store_type,))
        if len(names) < 2:
            return FoundPlacement()
        return resolved_placement(self.config, lambda: self.placement_shown, self.topics.lite)

    @cached_property
    def placement_shown(self) -> ShownPlacement:
        """The placement that the present queues show, whatever the settings say."""
        is_in_part = PART_KIND in self.left and all(kind.name != PART_KIND for kind in self.present)
        return placement_shown(self.layout, self.present, self.topics.lite, is_in_part=is_in_part)

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
    def reading(self) -> ReadableQueues:
        """The queues that answer reads: the first kind, with light queues from another one if that alone has them."""
        kinds = self.message_kinds or kinds_named(DEFAULT_KINDS, self.layout, self.settings.queue_file_size)
        return kind_to_read(kinds, self.placement)

    @property
    def kinds_read(self) -> list[ReadableQueues | KindBeside]:
        """The queues that answer reads: `reading`, and the kinds beside it. A topic has queues in one of them."""
        return [self.reading, *kinds_beside(self.layout)]

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

    @property
    def index_shown(self) -> AnyIndex:
        """The index that answers if no setting chooses one."""
        return self.indexes[choose_indexes(StoreConfig(), self.indexes).read]

    @cached_property
    def tag_items(self) -> bool | None:
        """True if the IndexFiles have items for tags; None if they do not show it."""
        return tag_items_in_use(self.index_files, self.log, self.settings.index_slots)
