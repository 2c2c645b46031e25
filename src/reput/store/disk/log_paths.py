"""A log over several paths: its files as one folder of links, by which everything else reads it.

RocketMQ takes storePathCommitLog for several folders if it has a comma (the Java property
`rocketmq.broker.multiPathSplitter` names another text). Only then it also loads the files in the folders of
readOnlyCommitLogStorePaths. It loads all files by their names, wherever they are, and passes over a folder that is not
there. At its start it makes those of storePathCommitLog, so one that is missing is most likely on a disk that is not
mounted: readers name it, and whatever changes the store refuses. A new file goes to the folder number
`offset / file size % folders`, in the order of their names, among those that are not full. A file that two folders have
is loaded twice, and offsets then lead to the wrong file: here that is refused.

Source: `CommitLog()`, `MultiPathMappedFileQueue.load`, `tryCreateMappedFile`, `MixAll.MULTI_PATH_SPLITTER`,
`DefaultMessageStore()` with `UtilAll.ensureDirOK`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError
from reput.files import fs
from reput.files import names as folder_names
from reput.files.scratch import ScratchFolder
from reput.formats import paths

_links: dict[tuple[Path, ...], ScratchFolder] = {}
"""The folders of links of this process: each is one log, and is removed when the process ends."""


_COLON = ":"


class GivenFolder(NamedTuple):
    """A folder of a log over several paths, and the setting that names it."""

    setting: str
    folder: Path

    @property
    def missing_text(self) -> str:
        """Return a sentence on the folder if it is not there."""
        return f"{self.setting}: {self.folder} is not there. Is its disk mounted?"


def log_folders(config: StoreConfig) -> tuple[Path, ...]:
    """Return the folders of a log over several paths, each once; none if the log has one folder.

    Raises:
        ConfigError: One of them is a file, or there are colons where RocketMQ has commas.
    """
    _refuse_colons(config)
    found: dict[Path, Path] = {}
    for setting, folder in _given(config):
        if folder_names.is_no_folder(folder):
            raise ConfigError(f"{setting}: {folder} is not a folder. Name the folders of the log alone")
        # RocketMQ knows a folder by its text, and loads its files twice if two texts lead there.
        found.setdefault(folder.resolve(), folder)
    return tuple(found.values())


def missing_folders(config: StoreConfig) -> list[GivenFolder]:
    """Return the folders of a log over several paths that are not there, which RocketMQ passes over."""
    return [one for one in dict.fromkeys(_given(config)) if not fs.is_dir(one.folder)]


def refuse_missing_folders(config: StoreConfig) -> None:
    """Refuse to change a store while a folder of its log is not there, unless `force_setting` allows it.

    New indexes would lack the entries of its messages.

    Raises:
        ConfigError: names each such folder; nothing was changed.
    """
    if not config.force_setting and (missing := missing_folders(config)):
        texts = " ".join(one.missing_text for one in missing)
        raise ConfigError(
            f"{texts} Without it the indexes would lose the entries of its messages. Nothing was changed. Leave out of "
            "the setting what is gone for good; to continue without that part of the log, use --force-setting"
        )


def _given(config: StoreConfig) -> Iterator[GivenFolder]:
    """Yield the folders that are given for a log over several paths."""
    text = (config.store_path_commit_log or "").strip()
    if paths.MULTI_PATH_SEPARATOR not in text:
        return
    read_only = (config.read_only_commit_log_store_paths or "").strip()
    for setting, given in (("storePathCommitLog", text), ("readOnlyCommitLogStorePaths", read_only)):
        for name in filter(None, given.split(paths.MULTI_PATH_SEPARATOR)):
            yield GivenFolder(setting, Path(name).absolute())


def _refuse_colons(config: StoreConfig) -> None:
    """Refuse folders with colons between them: a path may have a colon, but then it is there itself."""
    for field in ("store_path_commit_log", "read_only_commit_log_store_paths"):
        for name in (getattr(config, field) or "").strip().split(paths.MULTI_PATH_SEPARATOR):
            parts = name.split(_COLON)
            if len(parts) > 1 and not fs.exists(name) and all(part and fs.is_dir(part) for part in parts):
                raise ConfigError(
                    f"{config.given(field)}: {name} is not there, and its parts are folders. Commas separate the paths "
                    f"of a log, not colons: give {paths.MULTI_PATH_SEPARATOR.join(parts)}"
                )


def linked_log(folders: tuple[Path, ...]) -> Path:
    """Return a folder with a link to each file that these folders have now.

    The folder is in TMPDIR, since a reader leaves the store as it is. The next call for the same log renews the links.

    Raises:
        DamagedStoreError: Two of the folders have a file of the log.
    """
    wanted: dict[str, Path] = {}
    for folder in folders:
        for entry in fs.list_dir(folder):
            if not entry.is_file:
                continue
            other = wanted.setdefault(entry.name, folder / entry.name)
            if other.parent != folder and paths.parse_offset_name(entry.name) is not None:
                raise DamagedStoreError(
                    f"{folder / entry.name}: the log has this file in {other.parent}, too, and RocketMQ would load "
                    "both. Move the one away that is not the log's"
                )
    scratch = _links.get(folders)
    if scratch is None or not fs.exists(scratch.path):
        scratch = _links[folders] = ScratchFolder(paths.LOG_LINKS_PREFIX)
    linked = scratch.path / paths.COMMIT_LOG
    fs.make_dirs(linked)
    there = {entry.name for entry in fs.list_dir(linked)}
    for name in there.difference(wanted):
        fs.remove_file(linked / name)
    for name in sorted(set(wanted).difference(there)):
        fs.symlink(wanted[name], linked / name)
    return linked
