"""Files in the index folders that are not RocketMQ's: a rebuild replaces the folders, and loses none of them."""

from __future__ import annotations

from collections.abc import Sequence

from reput.errors import NotAStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.index_file import is_index_name
from reput.index.files import list_index_files
from reput.queue.files import list_queues
from reput.queue.reader import queue_span
from reput.store.layout import StoreLayout
from reput.store.report import RebuildReport

_NAMED = 5


def carry_over_strays(layout: StoreLayout, epoch: int, swap_parts: Sequence[str], report: RebuildReport) -> None:
    """Link files that are not RocketMQ's into the staged folders that will replace theirs, and note them."""
    kept = []
    for part in (paths.CONSUME_QUEUE, paths.INDEX):
        if part not in swap_parts:
            continue
        for entry in fs.list_dir(layout.root / part):
            if not entry.is_dir and not (part == paths.INDEX and is_index_name(entry.name)):
                fs.link(layout.root / part / entry.name, layout.staging(epoch) / part / entry.name)
                kept.append(f"{part}/{entry.name}")
    if kept:
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        report.notes.append(f"kept files that are not RocketMQ's: {', '.join(kept[:_NAMED])}{more}")


def refuse_lost_log(layout: StoreLayout) -> None:
    """Refuse to replace indexes by empty ones when the log has no file: perhaps its disk is not mounted.

    Raises:
        NotAStoreError: queues or IndexFiles hold entries.
    """
    queues = any(queue_span(queue).max_offset for queue in list_queues(layout.consume_queue))
    items = any(file.header and file.header.index_count > 1 for file in list_index_files(layout.index))
    if queues or items:
        raise NotAStoreError(
            f"{layout.commit_log}: no log file, though there are {'queues' if queues else 'IndexFiles'} with entries. "
            "Is its disk mounted? --empty-log replaces the indexes by empty ones all the same"
        )
