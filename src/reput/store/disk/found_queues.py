"""Queues that a store has: the kinds that are present, and databases that are damaged, incomplete or lost."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.names import was_database
from reput.formats.own import files as own
from reput.formats.queue.queue_kinds import DEFAULT_KINDS, PART_KIND
from reput.log.read.files import LogFiles, list_log_files
from reput.queue.kinds import AnyKind, QueueKind
from reput.store.disk.configured_kinds import configured_kinds
from reput.store.disk.database_folder import partial_database
from reput.store.disk.frontier import decoded_frontier, frontier_bytes, marks_of
from reput.store.disk.kinds import kinds_beside, present_kinds
from reput.store.disk.layout import StoreLayout
from reput.store.disk.log_paths import GivenFolder, missing_folders
from reput.store.disk.purpose import NEEDS_PRESENT_KINDS_ONLY, Purpose
from reput.store.disk.queue_refusals import missing_kinds


@dataclass(frozen=True)
class FoundQueues:
    """The queues that a store has, by its settings and its files; see `StoreOnDisk` for the arguments."""

    layout: StoreLayout
    config: StoreConfig
    purpose: Purpose
    _: KW_ONLY
    verify_crc: bool = True
    tolerant: bool = False
    below: int | None = None
    built: tuple[str, ...] = ()

    @cached_property
    def log(self) -> LogFiles:
        """The files of the log."""
        size = self.config.mapped_file_size_commit_log
        missing = [one.missing_text for one in self.missing_log_folders]
        try:
            files = list_log_files(self.layout.commit_log, size, self.tolerant, self.below)
        except DamagedStoreError as error:
            if not missing:
                raise
            raise type(error)(f"{' '.join(missing)} {error}") from error
        return replace(files, notes=(*missing, *files.notes))

    @cached_property
    def missing_log_folders(self) -> list[GivenFolder]:
        """The folders of a log over several paths that are not there; `log` has a note on each."""
        return missing_folders(self.config)

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
    def unreadable(self) -> dict[str, DamagedStoreError]:
        """The present kinds that cannot be read, by name, each with its damage and what helps."""
        found = {}
        for kind in self.present:
            try:
                self.complete_to(kind)
            except DamagedStoreError as error:
                found[kind.name] = error
        return found

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

    @property
    def _has_queues(self) -> bool:
        return bool(self.present) or any(kind.is_present() for kind in kinds_beside(self.layout))

    @cached_property
    def left(self) -> list[str]:
        """The names of the kinds of which the store has queues, or files of a database that was copied in part."""
        present = [kind.name for kind in self.present]
        return [*present, PART_KIND] if self.partial_database and PART_KIND not in present else present

    @property
    def missing_kinds(self) -> str:
        """A sentence about kinds that the settings name and of which the store has nothing; "" for none."""
        # A database that was copied in part is damage, and no other kind.
        lost = [name for name in self.left if name not in {kind.name for kind in self.present}]
        named = [name for name in self.named_kinds if name not in lost]
        if not missing_kinds(self.layout, named, self.present):
            return ""
        # A writer that has just begun may have made its first queues since `present` was found: files, then a database.
        return missing_kinds(self.layout, named, present_kinds(self.layout.as_found()))

    @cached_property
    def partial_database(self) -> str:
        """A sentence about a database of queues that was copied in part; "" for none.

        Among queue files, of which there may be very many folders, a program that opens the store looks for one only
        beside a database's lock file.
        """
        folders = [self.layout.queue_database, self.layout.other_queue_database]
        if self.purpose not in NEEDS_PRESENT_KINDS_ONLY:
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
    def _frontier_bytes(self) -> bytes | None:
        return frontier_bytes(self.layout)

    @cached_property
    def frontier(self) -> own.Frontier | None:
        """The durable frontier; None without one.

        Raises:
            DamagedStoreError: the file is not a frontier.
        """
        return decoded_frontier(self.layout, self._frontier_bytes)
