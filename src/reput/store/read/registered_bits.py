"""The bits of a consumer's registered SQL92 filter, for pulls; the first call loads the registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reput.files import fs
from reput.store.read.sql_filter import BloomBits, SqlFilter

if TYPE_CHECKING:
    from reput.dispatch.bloom import BloomFilter
    from reput.store.progress.consumer_filters import ConsumerFilters


class RegisteredBits:
    """The Bloom-filter bits of a group's registered filter: with them a pull trusts the bitmaps.

    The file is read again when it has changed. Do not use this beside a live broker, or after a broker has crashed: the
    broker computes bitmaps for filters that it has not written yet.
    """

    def __init__(self, config_folder: Path, bloom: BloomFilter) -> None:
        self._folder, self._bloom = config_folder, bloom
        self._read_ms: int | None = None
        self._filters: ConsumerFilters | None = None

    def __call__(self, topic: str, wanted: SqlFilter) -> BloomBits | None:
        """Return the bits of this filter on this topic; None if no group has registered it.

        Raises:
            DamagedStoreError: consumerFilter.json is damaged.
        """
        if wanted.group is None:
            return None
        from reput.formats.config.consumer_filter import FILE_NAME
        from reput.store.progress.consumer_filters import ConsumerFilters

        changed_ms = fs.modified_ms(self._folder / FILE_NAME)
        if changed_ms != self._read_ms:
            self._filters = ConsumerFilters.load(self._folder, self._bloom)
            self._read_ms = changed_ms
        found = self._filters.get(topic, wanted.group) if self._filters is not None else None
        if found is None or found.expression != wanted.expression:
            return None
        return BloomBits(found.bit_positions, found.bits, found.born_ms)
