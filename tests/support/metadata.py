"""The metadata of a store as reput's own parts see it, and progress on it without an open store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.config import StoreConfig
from reput.files.database_owner import DatabaseOwner
from reput.files.fs import owner_of
from reput.store.disk.layout import find_store
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.metadata.homes import MetadataHomes
from reput.store.metadata.tables import Table
from reput.store.progress.progress import VERSION_STEP, ConsumerProgress
from reput.times import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from reput.store.metadata.metadata import Metadata


def metadata_of(store: Path, config: StoreConfig | None = None) -> Metadata:
    """The metadata of a store."""
    config = config or StoreConfig()
    return StoreOnDisk(find_store(store, config), config, Purpose.LOOK).metadata


def homes_of(store: Path, config: StoreConfig | None = None, clock_ms: Callable[[], int] = now_ms) -> MetadataHomes:
    """The homes of a store's tables."""
    return MetadataHomes(metadata_of(store, config), store / "reput" / "rocksdb-log", clock_ms)


class StoreProgress(ConsumerProgress):
    """The progress of a store, with the homes to close."""

    homes: MetadataHomes

    def close(self) -> None:
        """Let go of the databases."""
        self.homes.close()


def progress_of(
    store: Path,
    config: StoreConfig | None = None,
    *,
    clock_ms: Callable[[], int] = now_ms,
    version_step: int = VERSION_STEP,
) -> StoreProgress:
    """The progress of a store."""
    homes = homes_of(store, config, clock_ms)
    progress = StoreProgress.load(homes.home(Table.OFFSETS), clock_ms=clock_ms, version_step=version_step)
    progress.homes = homes
    return progress


def database_with(place: Path, values: Mapping[bytes, bytes], logs: Path) -> None:
    """Put values into the default family of a database, as its broker would, whatever they are."""
    with DatabaseOwner(place, ["default"], logs, owner_of(place)) as owner:
        batch = owner.batch()
        for key, value in values.items():
            batch.put("default", key, value)
        owner.write(batch)
