"""The home of a store's committed offsets: where a broker that starts next reads what is written now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reput.errors import ConfigError
from reput.formats.consumer_offset import DataVersion
from reput.store.metadata.database_offsets import V1Offsets, V2Offsets
from reput.store.metadata.metadata import Metadata
from reput.store.metadata.offsets_home import HomeOffsets, JsonOffsets, OffsetsHome, OffsetTable
from reput.store.metadata.tables import Table
from reput.store.metadata.v1 import V1Databases
from reput.store.metadata.v2 import V2Database


class NoHome(OffsetsHome):
    """Offsets in a place that a broker with these settings does not read: they are not changed there."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def load(self) -> HomeOffsets:
        """Return what is there."""
        return _as_read(self._metadata)

    def write(self, table: OffsetTable, version: DataVersion) -> DataVersion:  # noqa: ARG002
        """Refuse.

        Raises:
            ConfigError: always.
        """
        there, wanted = self._metadata.place(Table.OFFSETS), self._metadata.wanted(Table.OFFSETS)
        raise ConfigError(
            f"{there}: a broker with these settings keeps offsets in {wanted}, which is not there, and takes in none "
            "of these. Nothing was changed. Start the broker once, or give the settings of the broker that wrote them"
        )

    def close(self) -> None:
        """Do nothing."""


def offsets_home(metadata: Metadata, logs: Path, clock_ms: Callable[[], int]) -> OffsetsHome:
    """Return the home of a store's committed offsets.

    Args:
        metadata: the store's metadata.
        logs: the folder for RocksDB's text logs.
        clock_ms: returns the time, in milliseconds since 1970.
    """
    source, wanted = metadata.source(Table.OFFSETS), metadata.wanted(Table.OFFSETS)
    if source.place(Table.OFFSETS) == wanted:
        if isinstance(source, V1Databases):
            return V1Offsets(metadata, source, logs, clock_ms)
        if isinstance(source, V2Database):
            return V2Offsets(metadata, source, logs, clock_ms)
        return JsonOffsets(wanted, clock_ms=clock_ms)
    if wanted == metadata.json.offsets_target:
        return JsonOffsets(wanted, clock_ms=clock_ms, elsewhere=_as_read(metadata))
    if metadata.takes_json_in(Table.OFFSETS):
        # With the version 0 a broker would not.
        return JsonOffsets(source.place(Table.OFFSETS), clock_ms=clock_ms, least_counter=1)
    return NoHome(metadata)


def _as_read(metadata: Metadata) -> HomeOffsets:
    content = metadata.read(Table.OFFSETS)
    return HomeOffsets(content.values, content.version, False, list(content.notes))
