"""Files where a broker or reput has folders. Readers name them, and go on as if they were not there; writers refuse."""

from __future__ import annotations

import errno

from reput.errors import DamagedStoreError
from reput.files import names as folder_names
from reput.files.remedies import REMEDIES
from reput.formats import paths
from reput.formats.config import metadata_v1, metadata_v2
from reput.formats.pending import pop_database, timer_log
from reput.store.disk.layout import StoreLayout

_IN_CONFIG = (
    metadata_v2.FOLDER,
    metadata_v1.SINGLE_FOLDER,
    *(place.folder for place in (metadata_v1.TOPICS, metadata_v1.GROUPS, metadata_v1.OFFSETS)),
)
_IN_ROOT = (
    *paths.QUEUE_FOLDERS,
    paths.INDEX,
    paths.INDEX_DATABASE,
    paths.CONFIG,
    *(f"{paths.CONFIG}/{name}" for name in _IN_CONFIG),
    timer_log.FOLDER,
    pop_database.FOLDER,
    paths.REPUT,
)


def not_folders(layout: StoreLayout) -> dict[str, str]:
    """Return a sentence on each file that is in the place of a folder, with what helps, by the file's path."""
    found = (layout.root / name for name in _IN_ROOT)
    files = [str(path) for path in found if folder_names.is_file(path)]
    return {path: f"{path}: not a folder. {REMEDIES[errno.ENOTDIR]}" for path in files}


def refuse_not_folders(layout: StoreLayout) -> None:
    """Refuse a store with a file in the place of a folder.

    Raises:
        DamagedStoreError: there is one.
    """
    if found := not_folders(layout):
        raise DamagedStoreError(f"{'; '.join(found.values())}. Nothing was changed")
