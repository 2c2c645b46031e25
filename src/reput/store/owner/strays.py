"""Files that a rebuild must keep: good indexes whose log is gone, and files in their folders that RocketMQ ignores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from reput.errors import NotAStoreError
from reput.files import fs
from reput.files.names import owns_database_file
from reput.formats import paths
from reput.formats.index.index_file import is_index_name
from reput.index.files import list_index_files
from reput.queue.files import owns_queue_file
from reput.store.disk.kinds import every_present_kind
from reput.store.disk.layout import StoreLayout

_NAMED = 5


def _owns_index_file(names: Sequence[str]) -> bool:
    return len(names) == 1 and is_index_name(names[0])


_OWNERS: Mapping[str, tuple[Callable[[Sequence[str]], bool], ...]] = {
    paths.CONSUME_QUEUE: (owns_queue_file, owns_database_file),
    paths.SEPARATE_QUEUE_FOLDER: (owns_database_file,),
    paths.CONSUME_QUEUE_EXT: (owns_queue_file,),
    paths.BATCH_CONSUME_QUEUE: (owns_queue_file,),
    paths.INDEX: (_owns_index_file,),
}
"""The folders of indexes with what may be in them, by the path there. Names decide alone: no database is loaded."""


def carry_over_strays(layout: StoreLayout, epoch: int, swap_parts: Sequence[str]) -> list[str]:
    """Link files that are not RocketMQ's into the staged folders that will replace theirs; return their names."""
    kept = []
    for part in swap_parts:
        if part.partition("/")[0] not in _OWNERS:
            continue
        for name in _strays(layout.root / part, part):
            target = layout.staging(epoch) / name
            fs.make_dirs(target.parent, fs.owner_of(layout.root))
            fs.link(layout.root / name, target)
            kept.append(name)
    return kept


def list_strays(layout: StoreLayout, in_queues: bool = True) -> list[str]:
    """List the files in the folders of log, queues and IndexFiles that are not RocketMQ's, relative to the store.

    Without `in_queues` the folders of queues are left out: there may be very many.
    """
    parts = (*(paths.QUEUE_FOLDERS if in_queues else ()), paths.INDEX)
    found = [name for part in parts for name in _strays(layout.root / part, part)]
    for entry in fs.list_dir(layout.commit_log):
        if not entry.is_file or paths.parse_offset_name(entry.name) is not None:
            continue
        # MappedFileQueue.doLoad: every file must have the log's file size; an empty last one is deleted.
        effect = " (RocketMQ does not load the log as long as it is there)" if entry.size else ""
        found.append(f"{paths.COMMIT_LOG}/{entry.name}{effect}")
    return found


def strays_text(names: Sequence[str]) -> str:
    """Return the first of these names as text, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"files that are not RocketMQ's: {', '.join(names[:_NAMED])}{more}"


def _strays(folder: Path, name: str) -> Iterator[str]:
    """Yield the files below an index folder whose names or places RocketMQ does not use, relative to the store."""
    for entry in fs.list_dir(folder):
        inside = f"{name}/{entry.name}"
        if not entry.is_file:
            yield from _strays(folder / entry.name, inside)
        elif not _is_of_an_index(inside):
            yield inside


def _is_of_an_index(name: str) -> bool:
    folder, *names = name.split("/")
    return any(owns(names) for owns in _OWNERS[folder])


def refuse_lost_log(layout: StoreLayout, why: str) -> None:
    """Refuse to remove indexes if the log has no record (`why`): perhaps its disk is not mounted.

    Raises:
        NotAStoreError: queues or IndexFiles hold entries.
    """
    # Pre-blank entries alone hold a numbering, and that is kept without any record.
    kinds = every_present_kind(layout.as_found())
    queues = any(queue.span().last for kind in kinds for queue in kind.queues())
    items = any(file.header and file.header.index_count > 1 for file in list_index_files(layout.index))
    if queues or items:
        raise NotAStoreError(
            f"{layout.commit_log}: {why}, though there are {'queues' if queues else 'IndexFiles'} with entries. "
            "Is its disk mounted? `reput rebuild --empty-log` replaces the indexes by empty ones all the same"
        )
