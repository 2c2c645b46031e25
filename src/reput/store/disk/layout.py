"""The paths of a store, and the kinds of stores that reput refuses by name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from reput.config import StoreConfig
from reput.errors import ConfigError, NotAStoreError, ReputError, UnsupportedStoreError
from reput.files import fs, links, names
from reput.files.folders import make_durable_dir
from reput.formats import paths
from reput.formats.own import files as own
from reput.nearest import similar, some
from reput.store.disk.dledger import refuse_dledger
from reput.store.disk.log_paths import linked_log, log_folders

_SWAPPED_BY_RENAMES = (
    "New indexes are swapped in by renames within the store's file system: put the folder itself here, or the whole "
    "store on that disk, and run it again"
)


@lru_cache(1024)
def _joined(folder: Path, name: str) -> Path:
    """Return a path, the same object as before: to make one, and its text, takes 5 us, and an open asks 400 times."""
    return folder / name


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The paths of a store; `commit_log` may be elsewhere (storePathCommitLog).

    Of a log over several paths `log_folders` are these, and `commit_log` is a folder of links to their files.
    `separate_database`: the RocksDB of queues has a folder of its own (useSeparateStorePathForRocksdbCQ); None if the
    files decide.
    """

    root: Path
    commit_log: Path
    log_folders: tuple[Path, ...] = ()
    separate_database: bool | None = None

    def sync_log(self) -> None:
        """Make the file systems durable that hold the log."""
        for folder in self.log_folders or (self.commit_log,):
            if fs.exists(folder):
                fs.sync_tree(folder)

    def sync(self) -> None:
        """Make the store durable: its file system, and those of indexes that a link or a mount has elsewhere."""
        fs.sync_tree(self.root)
        here = fs.device_of(self.root)
        for folder in self.index_folders:
            if fs.exists(folder) and fs.device_of(folder) != here:
                fs.sync_tree(folder)

    @property
    def consume_queue(self) -> Path:
        """Folder of the ConsumeQueues."""
        return _joined(self.root, paths.CONSUME_QUEUE)

    @property
    def own_queue_database(self) -> Path:
        """The folder that a database of queues has for itself, if it does not share that of queue files."""
        return _joined(self.root, paths.SEPARATE_QUEUE_FOLDER)

    @property
    def queue_database(self) -> Path:
        """Folder of the RocksDB of queues, beside queue files or alone.

        Source: `RocksDBConsumeQueueStore`, which refuses a store whose other folder has the file CURRENT.
        """
        alone, is_separate = self.own_queue_database, self.separate_database
        if is_separate is None:
            # Files of a lost database show its folder, too.
            is_separate = fs.exists(alone) and (names.is_database(alone) or not names.is_database(self.consume_queue))
        return alone if is_separate else self.consume_queue

    @property
    def other_queue_database(self) -> Path:
        """The folder that may hold such a database, too, and must not."""
        alone = self.own_queue_database
        return self.consume_queue if self.queue_database == alone else alone

    @property
    def batch_consume_queue(self) -> Path:
        """Folder of the batch ConsumeQueues."""
        return _joined(self.root, paths.BATCH_CONSUME_QUEUE)

    @property
    def queue_folders(self) -> tuple[Path, ...]:
        """Every folder that queues of any kind may be in, with the folder of their ext units."""
        return tuple(_joined(self.root, name) for name in paths.QUEUE_FOLDERS)

    @property
    def consume_queue_ext(self) -> Path:
        """Folder of the ConsumeQueueExts."""
        return _joined(self.root, paths.CONSUME_QUEUE_EXT)

    @property
    def index(self) -> Path:
        """Folder of the IndexFiles."""
        return _joined(self.root, paths.INDEX)

    @property
    def index_database(self) -> Path:
        """Folder of the database with the index in RocksDB."""
        return _joined(self.root, paths.INDEX_DATABASE)

    @property
    def index_folders(self) -> tuple[Path, ...]:
        """Every folder that indexes may be in: queues of any kind, IndexFiles, and their database."""
        return (*self.queue_folders, self.index, self.index_database)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint file."""
        return _joined(self.root, paths.CHECKPOINT)

    @property
    def abort(self) -> Path:
        """The file that exists as long as the store is not closed."""
        return _joined(self.root, paths.ABORT)

    @property
    def broker_lock(self) -> Path:
        """RocketMQ's lock file."""
        return _joined(self.root, paths.LOCK)

    @property
    def reput(self) -> Path:
        """The folder of reput's own files."""
        return _joined(self.root, paths.REPUT)

    def as_found(self) -> StoreLayout:
        """Return these paths with the database of queues where it is, whatever the settings say."""
        return replace(self, separate_database=None)

    def own(self, name: str) -> Path:
        """Return the path of one of reput's own files or folders."""
        return _joined(self.reput, name)

    def staging(self, epoch: int) -> Path:
        """Return the path of a job's staging folder."""
        return _joined(self.reput, own.staging_name(epoch))


def find_store(root: Path | str, config: StoreConfig) -> StoreLayout:
    """Find the store in `root`.

    Raises:
        NotAStoreError: there is no folder, or no commitlog in it.
        DamagedStoreError: the log has several paths, and two of them have one file.
        UnsupportedStoreError: the messages are in a DLedger log.
    """
    root = _path_of(root).absolute()
    folders = log_folders(config)
    commit_log = root / paths.COMMIT_LOG
    if config.store_path_commit_log and not folders:
        commit_log = Path(config.store_path_commit_log).absolute()
    if not fs.exists(root):
        raise NotAStoreError(
            f"{root}: no such folder. {_near(root)}Give a store's root (storePathRootDir, often ~/store)"
        )
    if not fs.is_dir(root):
        raise NotAStoreError(f"{root}: {_no_folder(root)}. Give a store's root (storePathRootDir, often ~/store)")
    refuse_dledger(root, commit_log, config)
    if folders:
        if not any(fs.is_dir(folder) for folder in folders):
            raise NotAStoreError(
                f"{config.given('store_path_commit_log')}: none of these folders is there, so {root} has no log. Are "
                "their disks mounted?"
            )
        return StoreLayout(root, linked_log(folders), folders, config.use_separate_store_path_for_rocksdb_cq)
    if not fs.is_dir(commit_log):
        raise NotAStoreError(f"{commit_log}: {_no_folder(commit_log)}, {_without_log(root)}")
    return StoreLayout(root, commit_log, separate_database=config.use_separate_store_path_for_rocksdb_cq)


def _no_folder(path: Path) -> str:
    """Return what a path is that leads to no folder."""
    if path.is_symlink() and not path.exists():
        return f"a link to {path.readlink()}, which does not exist"
    return "not a folder" if path.exists() else "no such folder"


def _without_log(root: Path) -> str:
    """Return what `root` is without the folder of its log: another folder, or a store whose log is elsewhere."""
    if there := [f"{name}/" for name in (paths.CONSUME_QUEUE, paths.INDEX) if fs.is_dir(root / name)]:
        return (
            f"though {root} has {' and '.join(there)}. Is its disk mounted, and does storePathCommitLog name another "
            "folder? --set storePathCommitLog=FOLDER names it"
        )
    if root.name == paths.COMMIT_LOG:
        return f"so {root} is no RocketMQ store (this is a commitlog folder: give the one above it)"
    return f"so {root} is no RocketMQ store. {_below(root)}"


def _below(root: Path) -> str:
    """Return a sentence that names stores in a folder without a log, or says what to give."""
    with contextlib.suppress(ReputError):
        folders = [root / entry.name for entry in fs.list_dir(root) if not entry.is_file]
        if found := [str(folder) for folder in sorted(folders) if fs.is_dir(folder / paths.COMMIT_LOG)]:
            return f"There is a store in {some(found)}"
    return "Give a store's root (storePathRootDir, often ~/store)"


def _near(root: Path) -> str:
    """Return a sentence that names stores with similar names next to a missing folder."""
    with contextlib.suppress(ReputError):
        beside = similar(root.name, [entry.name for entry in fs.list_dir(root.parent) if not entry.is_file])
        found = [str(root.parent / name) for name in beside if fs.is_dir(root.parent / name / paths.COMMIT_LOG)]
        return f"There is a store in {' and in '.join(found)}. " if found else ""
    return ""


def refuse_several_log_paths(layout: StoreLayout) -> None:
    """Refuse to write messages into a log over several paths: only a broker chooses where its next file goes.

    Raises:
        UnsupportedStoreError: the log has several paths.
    """
    if layout.log_folders:
        raise UnsupportedStoreError(
            f"{layout.root}: the log has {len(layout.log_folders)} paths (storePathCommitLog), and reput puts messages "
            "into a log in one folder only. It reads such a log, and checks and builds its indexes"
        )


def refuse_linked_indexes(layout: StoreLayout) -> None:
    """Refuse indexes on another file system: they are swapped by renames, which cannot reach it.

    Raises:
        UnsupportedStoreError: the folder of queues or of the index, or one below, is a link or a mounted file system.
    """
    for folder in layout.index_folders:
        if folder.is_symlink():
            raise UnsupportedStoreError(f"{folder}: a link to {folder.readlink()}. {_SWAPPED_BY_RENAMES}")
        if fs.exists(folder) and fs.device_of(folder) != fs.device_of(layout.root):
            raise UnsupportedStoreError(f"{folder}: another file system is mounted here. {_SWAPPED_BY_RENAMES}")
    for folder in layout.queue_folders:
        for path in _no_folders_among_queues(folder):
            if path.is_symlink() and path.is_dir():
                raise UnsupportedStoreError(f"{path}: a link to {path.readlink()}. {_SWAPPED_BY_RENAMES}")


def refuse_own_links(layout: StoreLayout) -> None:
    """Refuse links in the place of reput's own files and folders: what it builds and removes there would be elsewhere.

    Raises:
        AccessError: the folder `reput` is a link, or one of its files or folders is.
    """
    entries = fs.list_dir(layout.reput)
    links.refuse_links(layout.reput, *(layout.own(entry.name) for entry in entries if entry.is_link))


def refuse_others_links(layout: StoreLayout) -> None:
    """Refuse, as root, a store whose parts are links that another user has made; see `links.refuse_others_links`.

    Raises:
        AccessError: a part is such a link.
    """
    links.refuse_others_links(layout.commit_log, *layout.index_folders, layout.root / paths.CONFIG)


def _no_folders_among_queues(consume_queue: Path) -> Iterator[Path]:
    """Yield paths among the folders of topics and queues that are not folders."""
    for topic in fs.list_dir(consume_queue):
        folder = consume_queue / topic.name
        if topic.is_file:
            yield folder
            continue
        yield from (folder / queue.name for queue in fs.list_dir(folder) if queue.is_file)


def _path_of(root: object) -> Path:
    if not isinstance(root, str | os.PathLike):
        raise ConfigError(f"path={root!r:.80}: give a store's root as a text or a Path")
    return Path(root)


def find_or_make_store(root: Path | str, config: StoreConfig, *, create: bool | None) -> tuple[StoreLayout, bool]:
    """Find the store in `root`, or with `create` make one in an empty folder; returns True with a new store.

    None for `create` means that the caller only reads, so an error does not advise `create`.

    Raises:
        NotAStoreError: there is no store, and none is to be made, or the folder holds something else.
        UnsupportedStoreError: a new store is to have its log in several paths.
    """
    is_new = bool(create) and _make_folders(_path_of(root), config)
    try:
        layout = find_store(root, config)
    except NotAStoreError as error:
        if create and fs.is_dir(_path_of(root)) and fs.list_dir(_path_of(root)):
            raise NotAStoreError(f"{error}. A new store needs a folder that is empty or not there yet") from None
        if create is not False or not may_become_store(root, config):
            raise
        raise NotAStoreError(f"{error}. MessageStore.open(path, create=True) makes a new store there") from None
    if create is not None and not is_new and not layout.log_folders and names.is_empty_dir(layout.commit_log):
        # A program that made the store may have been killed before the folder's name was durable.
        make_durable_dir(layout.commit_log)
    return layout, is_new


def may_become_store(root: Path | str, config: StoreConfig) -> bool:
    """Return True if a new store may be made in `root`: nothing is there, and the log is to have one path.

    A new store does not go between other people's files.
    """
    root = _path_of(root)
    is_free = not fs.list_dir(root) if fs.is_dir(root) else not fs.exists(root)
    return is_free and not log_folders(config) and not fs.is_dir(_commit_log_of(root, config))


def _commit_log_of(root: Path, config: StoreConfig) -> Path:
    return Path(config.store_path_commit_log) if config.store_path_commit_log else root / paths.COMMIT_LOG


def _make_folders(root: Path, config: StoreConfig) -> bool:
    """Make the folders of a new store if `root` is empty or missing; returns True if it did."""
    if not may_become_store(root, config):
        return False
    # The log's folder first, and durably: after a loss of power the root is empty, or it is a store.
    make_durable_dir(root)
    make_durable_dir(_commit_log_of(root, config))
    for folder in (root / paths.CONSUME_QUEUE, root / paths.INDEX, root / paths.CONFIG):
        fs.make_dirs(folder)
    return True
