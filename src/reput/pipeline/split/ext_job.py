"""The part of a job that is about ConsumeQueueExt, from the store's settings and its registry of filters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from reput.formats import paths
from reput.log.read.maps import LogMaps
from reput.store.disk.layout import StoreLayout
from reput.store.disk.settings import StoreSettings
from reput.store.progress.consumer_filters import ConsumerFilters


class ExtJob(NamedTuple):
    """The facts about ext that tasks need: file sizes in bytes, the log's folder, and the filters of each topic.

    `bitmap_size` is the size of a bitmap in bytes; topics without a filter have none.
    """

    file_size: int
    log_folder: str
    log_file_size: int
    bitmap_size: int
    filters: Mapping[bytes, tuple[tuple[str, tuple[int, ...]], ...]]
    born_ms: Mapping[bytes, tuple[int, ...]] = {}
    """The times (ms) since which bitmaps have the bits of each of these filters, in the same order."""

    def log_maps(self) -> LogMaps:
        """Return new maps of the log's files; close them after use."""
        return LogMaps(Path(self.log_folder), self.log_file_size)


def ext_job(layout: StoreLayout, settings: StoreSettings, log_file_size: int) -> ExtJob | None:
    """Return the part of a job that is about ext; None for a store without it.

    Raises:
        DamagedStoreError: bitmaps are wanted, and consumerFilter.json is damaged.
    """
    if settings.ext_file_size is None:
        return None
    filters: dict[bytes, list[tuple[str, tuple[int, ...]]]] = {}
    born_ms: dict[bytes, list[int]] = {}
    if settings.calc_bitmaps:
        for one in ConsumerFilters.load(layout.root / paths.CONFIG, settings.bloom).all():
            filters.setdefault(one.topic.encode(), []).append((one.expression, one.bit_positions))
            born_ms.setdefault(one.topic.encode(), []).append(one.born_ms)
    return ExtJob(
        settings.ext_file_size,
        str(layout.commit_log),
        log_file_size,
        settings.bloom.size,
        {topic: tuple(of_topic) for topic, of_topic in filters.items()},
        {topic: tuple(of_topic) for topic, of_topic in born_ms.items()},
    )
