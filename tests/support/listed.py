"""A count of the IndexFiles' headers that are read, which shows how often a store's index is listed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reput.config import StoreConfig
from reput.formats import paths
from reput.index import files

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from reput.formats.index.index_file import Header


def headers_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """Count from now on how often the header of each present IndexFile of a store is read."""
    read_header = files.read_header
    seen = Counter(dict.fromkeys((store / paths.INDEX).iterdir(), 0))
    assert seen, f"{store}: no IndexFile"

    def read(path: Path) -> Header | None:
        if path in seen:
            seen[path] += 1
        return read_header(path)

    monkeypatch.setattr(files, "read_header", read)
    return seen


def sizes_of(store: Path) -> StoreConfig:
    """Return the settings with the sizes that a store's IndexFiles have."""
    slots, items = next(filter(None, map(files.found_slots_and_items, files.list_index_files(store / paths.INDEX))))
    return StoreConfig(max_hash_slot_num=slots, max_index_num=items)
