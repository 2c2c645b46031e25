"""The sizes of folders that a job replaces or removes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from reput.files import fs
from reput.store.disk.layout import StoreLayout


class Replaced(NamedTuple):
    """A folder that the new indexes replace, or that is removed: its files and their bytes on disk."""

    folder: str
    files: int
    bytes: int


def measured(layout: StoreLayout, folder: Path) -> Replaced:
    """Measure a folder with all that is below it; one that is missing has no files."""
    sizes = list(_sizes(folder))
    name = folder.relative_to(layout.root).as_posix() if folder.is_relative_to(layout.root) else str(folder)
    return Replaced(name, len(sizes), sum(sizes))


def _sizes(folder: Path) -> Iterable[int]:
    """Yield the bytes of each file below a folder."""
    for entry in fs.list_dir(folder):
        if not entry.is_file:
            yield from _sizes(folder / entry.name)
        else:
            yield entry.size
