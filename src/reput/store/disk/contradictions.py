"""Settings that contradict a store: file sizes that its files do not have, and paths that name another store.

RocketMQ refuses a store whose files do not have the lengths in its settings. So a program that writes with the wrong
settings makes a store that the broker refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import ConfigError
from reput.files import fs
from reput.formats import paths
from reput.formats.index import index_file
from reput.index.files import IndexFileOnDisk, found_slots_and_items
from reput.queue.ext import found_ext_file_size
from reput.queue.files import QUEUES_COMPARED, list_queues
from reput.queue.kinds import AnyKind
from reput.store.disk.facts import StoreFacts
from reput.store.disk.kinds import kinds_beside
from reput.store.disk.layout import StoreLayout


class Contradiction(NamedTuple):
    """Settings that a store contradicts, by their names in StoreConfig.

    `text` is a sentence with both sides. `is_of_size`: the store's files, in `place`, have other sizes, so RocketMQ
    would refuse the store.
    """

    names: tuple[str, ...]
    place: Path
    text: str
    is_of_size: bool = True


def refuse_contradictions(store: StoreFacts) -> None:
    """Refuse settings that contradict the store, unless `force_setting` allows them.

    Raises:
        ConfigError: lists each contradiction; nothing was changed.
    """
    found = [] if store.config.force_setting else contradictions(store)
    if found:
        texts = "; ".join(one.text for one in found)
        raise ConfigError(
            f"{texts}. Nothing was changed. Correct the setting or leave it out; to continue with it all the same, use "
            "--force-setting"
        )


def without_wrong_sizes(config: StoreConfig, found: list[Contradiction]) -> StoreConfig:
    """Return the settings without the sizes that files contradict; forced settings stay."""
    wrong = {} if config.force_setting else {name: None for one in found if one.is_of_size for name in one.names}
    return replace(config, **wrong)


def contradictions(store: StoreFacts) -> list[Contradiction]:
    """List the contradictions."""
    layout, config = store.layout, store.config
    found = [*_other_paths(layout, config), *_log_files(layout, config), *_queue_files(config, store.present)]
    if config.enable_consume_queue_ext is not False:
        size = found_ext_file_size(islice(list_queues(layout.consume_queue_ext), QUEUES_COMPARED))
        found += _size(config, "mapped_file_size_consume_queue_ext", size, layout.consume_queue_ext)
    return [*found, *_queue_files(config, kinds_beside(layout)), *_index_files(store)]


def _size(
    config: StoreConfig, name: str, size: int | None, folder: Path, counts_as: int | None = None
) -> Iterator[Contradiction]:
    """Yield the contradiction between a given file size and the `size` of the files, if there is one."""
    given = getattr(config, name)
    used = given if counts_as is None else counts_as
    if given is not None and size is not None and used != size:
        rounded = f", which RocketMQ rounds up to {used}, whole entries" if used != given else ""
        text = f"{config.given(name)}{rounded}, and the files of {folder} have {size} bytes"
        yield Contradiction((name,), folder, text)


def _queue_files(config: StoreConfig, kinds: Sequence[AnyKind]) -> Iterator[Contradiction]:
    for kind in kinds:
        given = getattr(config, kind.size_setting) if kind.size_setting else None
        if given is not None:
            size = kind.found_file_size(given)
            yield from _size(config, kind.size_setting, size, kind.folder, kind.size_in_use(given))


def _log_files(layout: StoreLayout, config: StoreConfig) -> Iterator[Contradiction]:
    """Compare only if all files have one length: of several, one may be a cut file, which readers of the log report."""
    if config.mapped_file_size_commit_log is not None:
        sizes = {
            fs.size_in(layout.commit_log, entry)
            for entry in fs.list_dir(layout.commit_log)
            if entry.is_file and paths.parse_offset_name(entry.name) is not None
        } - {0}
        size = sizes.pop() if len(sizes) == 1 else None
        yield from _size(config, "mapped_file_size_commit_log", size, layout.commit_log)


def _index_files(store: StoreFacts) -> Iterator[Contradiction]:
    layout, config = store.layout, store.config
    names = [name for name in ("max_hash_slot_num", "max_index_num") if getattr(config, name) is not None]
    files = [file for file in store.index_files if file.size] if names else []
    if not files:
        return
    size = Counter(file.size for file in files).most_common(1)[0][0]
    usual = [file for file in files if file.size == size]
    found = next((sizes for file in usual if (sizes := found_slots_and_items(file))), None)
    given = " and ".join(config.given(name) for name in names)
    slots, items = found or (index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS)
    wanted = (config.max_hash_slot_num or slots, config.max_index_num or items)
    if found is not None and wanted != found:
        text = f"{given}, and the IndexFiles of {layout.index} have {slots} slots and {items} items ({size} bytes)"
        yield Contradiction(tuple(names), layout.index, text)
    elif _is_empty(usual[0]) and len(names) == 2 and index_file.file_size(*wanted) != size:
        made = index_file.file_size(*wanted)
        text = f"{given}, which make files of {made} bytes, and those of {layout.index} have {size} bytes"
        yield Contradiction(tuple(names), layout.index, text)


def _is_empty(file: IndexFileOnDisk) -> bool:
    """Return True if an IndexFile has a header and no items, so that only its length shows its sizes."""
    return file.header is not None and file.header.index_count == 1


def _other_paths(layout: StoreLayout, config: StoreConfig) -> Iterator[Contradiction]:
    """Yield paths that lead elsewhere. A relative path is not compared: it starts at the broker's working folder."""
    root = config.store_path_root_dir
    if root and Path(root).is_absolute() and Path(root).resolve() != layout.root.resolve():
        text = f"{config.given('store_path_root_dir')}, and the store given is {layout.root}"
        yield Contradiction(("store_path_root_dir",), layout.root, text, is_of_size=False)
    inside = layout.root / paths.COMMIT_LOG
    log = config.store_path_commit_log
    folders = layout.log_folders or ((Path(log),) if log and Path(log).is_absolute() else ())
    if not folders or inside.resolve() in [folder.resolve() for folder in folders]:
        return
    if any(paths.parse_offset_name(entry.name) is not None for entry in fs.list_dir(inside)):
        text = (
            f"{config.given('store_path_commit_log')}, and the store given has a log of its own in {inside} (for that "
            f"one: --set storePathCommitLog={inside})"
        )
        yield Contradiction(("store_path_commit_log",), inside, text, is_of_size=False)
