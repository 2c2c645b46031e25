"""A store as it is on disk, listed once for one purpose.

`find` and `refuse_early` refuse it by its settings, `refuse` by its files: when it is opened, followed, built or
checked (`refusals`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from reput.config import StoreConfig
from reput.files.gone import tried_again
from reput.log.read.maps import LogMaps
from reput.store.disk.facts import StoreFacts
from reput.store.disk.layout import StoreLayout, find_store
from reput.store.disk.purpose import NEEDS_PRESENT_KINDS_ONLY, Purpose
from reput.store.disk.refusals import refuse_by_files, refuse_by_settings


@dataclass(frozen=True)
class StoreOnDisk(StoreFacts):
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
        if purpose in NEEDS_PRESENT_KINDS_ONLY:
            layout = layout.as_found()
        # A writer may delete expired files meanwhile.
        return tried_again(partial(cls._found, layout, config, purpose, tolerant=tolerant, below=below))

    @classmethod
    def _found(
        cls, layout: StoreLayout, config: StoreConfig, purpose: Purpose, *, tolerant: bool, below: int | None
    ) -> Self:
        store = cls(layout, config, purpose, tolerant=tolerant, below=below)
        store.refuse_early()
        return store

    def maps(self) -> LogMaps:
        """Return new maps of the log's files; close them after use."""
        return LogMaps(self.layout.commit_log, self.log.file_size)

    def refuse_early(self) -> None:
        """Refuse a store by its configuration and folders: this needs no lock, and no job need end first.

        Raises:
            UnsupportedStoreError: reput does not read, or cannot replace, indexes of this kind.
            ConfigError: the store is to be followed, and a setting contradicts its files.
        """
        refuse_by_settings(self)

    def refuse(self) -> None:
        """Refuse a store by its files; a caller that changes the store owns it by now.

        Raises:
            ConfigError: a setting contradicts the files.
            DamagedStoreError: a queue has files of a wrong length, or in the wrong folder.
            StoreLockedError: another process has queues open to write.
            ReputError: see `reput.errors`.
        """
        refuse_by_files(self)
