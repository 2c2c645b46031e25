"""Files where a broker or reput has folders, folders where it has files, and named pipes in the place of either.

Readers go on as if nothing were there and name them, writers refuse.
Of a store with few topics the queues are looked at here.
Of any store `info` and `check` ask each queue, and a put asks its own (`QueueOddities`).
RocksDB names those of its databases.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from reput.errors import DamagedStoreError
from reput.files import names as folder_names
from reput.files.backed_up import backup_of
from reput.files.remedies import not_a_file, not_a_folder
from reput.formats import paths
from reput.formats.config import consumer_filter, consumer_offset, delay_offset, metadata_v1, metadata_v2
from reput.formats.index.index_file import is_index_name
from reput.formats.own import files as own
from reput.formats.pending import order_info, pop_database, timer_checkpoint, timer_log, timer_wheel
from reput.queue.files import QUEUES_ASKED, some_queues
from reput.store.disk.layout import StoreLayout
from reput.store.metadata.json_files import CONFIGURATION_FILES

_FOLDERS_IN_CONFIG = (
    metadata_v2.FOLDER,
    metadata_v1.SINGLE_FOLDER,
    *(place.folder for place in (metadata_v1.TOPICS, metadata_v1.GROUPS, metadata_v1.OFFSETS)),
)
_FOLDERS = (
    *paths.QUEUE_FOLDERS,
    paths.INDEX,
    paths.INDEX_DATABASE,
    paths.CONFIG,
    timer_log.FOLDER,
    pop_database.FOLDER,
    paths.REPUT,
)
_FILES = (paths.CHECKPOINT, paths.ABORT, paths.LOCK, timer_wheel.FILE_NAME)
_FILES_IN_CONFIG = (
    *CONFIGURATION_FILES.values(),
    consumer_offset.FILE_NAME,
    consumer_offset.LMQ_FILE_NAME,
    consumer_filter.FILE_NAME,
    delay_offset.FILE_NAME,
    order_info.FILE_NAME,
    timer_checkpoint.FILE_NAME,
)

_TYPES = {
    "": dict.fromkeys(_FOLDERS, stat.S_IFDIR) | dict.fromkeys(_FILES, stat.S_IFREG),
    paths.CONFIG: dict.fromkeys(_FOLDERS_IN_CONFIG, stat.S_IFDIR)
    | dict.fromkeys(_FILES_IN_CONFIG, stat.S_IFREG)
    | {backup_of(Path(name)).name: stat.S_IFREG for name in _FILES_IN_CONFIG},
    paths.REPUT: dict.fromkeys(own.FILE_NAMES, stat.S_IFREG),
}
"""The type of each name in the folders of a store, "" for the store's own: a folder, or a file."""

_TOPICS_MOST = 64
"""Of more topics than these an open looks at no queue, so that its calls do not grow with their number."""


class WrongType(NamedTuple):
    """A name of a store that is not what a broker or reput has there; `is_of_file`: a file belongs there.

    `is_of_queue`: a queue has a file there.
    """

    path: Path
    is_of_file: bool
    is_of_queue: bool = False

    @property
    def text(self) -> str:
        """Return a sentence on it, with what helps."""
        return not_a_file(self.path) if self.is_of_file else not_a_folder(self.path)


def wrong_types(layout: StoreLayout) -> list[WrongType]:
    """Return what is in the place of a folder or a file, and is of another type."""
    found = []
    for below, types in _TYPES.items():
        folder = layout.root / below
        modes = folder_names.modes(folder, types)
        found += [
            WrongType(folder / name, is_of_file=wanted == stat.S_IFREG)
            for name, wanted in types.items()
            if stat.S_IFMT(modes.get(name, 0)) not in {0, wanted}
        ]
    found += [WrongType(path, is_of_file=True) for path in _odd_numbered_files(layout)]
    for name in paths.QUEUE_FOLDERS:
        folder = layout.root / name
        topics = list(islice(folder_names.sub_folders(folder), _TOPICS_MOST + 1))
        if len(topics) <= _TOPICS_MOST:
            found += [WrongType(path, is_of_file=False) for topic in topics for path in _no_queues(folder / topic)]
            for queue in some_queues(folder, QUEUES_ASKED):
                found += [WrongType(path, is_of_file=True, is_of_queue=True) for path in queue.not_files]
    return found


def _odd_numbered_files(layout: StoreLayout) -> Iterator[Path]:
    """Yield what has a name of a file of the log, the timer log or the index, and is no file."""
    for folder in layout.log_folders or (layout.commit_log,):
        yield from _folders_named(folder, _is_offset_name)
    yield from _folders_named(layout.root / timer_log.FOLDER, _is_offset_name)
    yield from _folders_named(layout.index, is_index_name)


def _no_queues(topic: Path) -> Iterator[Path]:
    names = (name for name in sorted(folder_names.not_folders(topic)) if paths.parse_queue_name(name) is not None)
    return (topic / name for name in names)


def _is_offset_name(name: str) -> bool:
    return paths.parse_offset_name(name) is not None


def _folders_named(folder: Path, is_name: Callable[[str], bool]) -> Iterator[Path]:
    return (folder / name for name in sorted(folder_names.not_files(folder)) if is_name(name))


def refuse_lost_log_files(layout: StoreLayout) -> None:
    """Refuse a store with a folder or a named pipe in the place of a file of its log, whose messages are missing then.

    Raises:
        DamagedStoreError: there is one.
    """
    folders = layout.log_folders or (layout.commit_log,)
    found = [not_a_file(path) for folder in folders for path in _folders_named(folder, _is_offset_name)]
    if found:
        raise DamagedStoreError(f"{'; '.join(found)}. Put back the file of the log, if there is a copy")


def refuse_wrong_types(layout: StoreLayout) -> None:
    """Refuse a store with a file in the place of a folder, or a folder in the place of a file.

    Raises:
        DamagedStoreError: there is one.
    """
    if found := [one.text for one in wrong_types(layout)]:
        raise DamagedStoreError(f"{'; '.join(found)}. Nothing was changed")
