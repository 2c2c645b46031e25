"""The swap: several parts of a store change at once, by an intent and renames.

Staging is complete and synced before the intent is written. From then on every opener finishes the swap before it does
anything else, so a kill at any rename leaves the old parts or, after the next opener, the new ones, never a mix.
"""

from __future__ import annotations

import os
from pathlib import Path

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import own, paths
from reput.store.layout import StoreLayout

_INTENT_LIMIT = 64 << 20


def swap_in(layout: StoreLayout, epoch: int, parts: tuple[str, ...]) -> None:
    """Put the staged `parts` of an epoch in the place of the live ones."""
    fs.sync_tree(layout.staging(epoch))
    intent = own.Intent(epoch, parts)
    fs.write_whole(layout.own(own.INTENT_NAME), own.encode_intent(intent))
    _carry_out(layout, intent)


def finish_swap(layout: StoreLayout) -> bool:
    """Finish the swap that a killed job left, if there is one; returns whether there was.

    Raises:
        DamagedStoreError: the intent is unreadable, or a staged part is neither in staging nor in its place.
    """
    path = layout.own(own.INTENT_NAME)
    data = fs.read_bytes(path, _INTENT_LIMIT)
    if data is None:
        return False
    _carry_out(layout, own.decode_intent(data, str(path)))
    return True


def pending_swap(layout: StoreLayout) -> bool:
    """Whether a killed job left a swap for the next writer to finish."""
    return fs.exists(layout.own(own.INTENT_NAME))


def remove_leftovers(layout: StoreLayout, keep_epoch: int | None = None) -> list[str]:
    """Remove staging and aside folders of other epochs; returns their names."""
    removed = []
    for entry in fs.list_dir(layout.reput):
        kind, _, epoch = entry.name.partition("-")
        if entry.is_dir and kind in ("staging", "aside") and epoch.isdigit() and epoch != str(keep_epoch):
            fs.remove_tree(layout.reput / entry.name)
            removed.append(entry.name)
    return removed


def _carry_out(layout: StoreLayout, intent: own.Intent) -> None:
    staging, aside = layout.staging(intent.epoch), layout.own(own.aside_name(intent.epoch))
    for part in intent.parts:
        _swap_part(layout.root / part, staging / part, aside / part)
    for folder in {(layout.root / part).parent for part in intent.parts}:
        fs.sync_path(folder)
    fs.remove_file(layout.own(own.INTENT_NAME))
    fs.sync_path(layout.reput)
    fs.remove_tree(aside)
    fs.remove_tree(staging)


def _swap_part(live: Path, staged: Path, aside: Path) -> None:
    if not fs.exists(staged):
        if not fs.exists(live):
            raise DamagedStoreError(f"{staged}: the swap needs it and it is gone; run `reput rebuild` again")
        return
    if fs.exists(live):
        fs.make_dirs(aside.parent)
        fs.rename(live, aside)
    fs.make_dirs(live.parent, fs.owner_of(live.parent.parent) if not live.parent.exists() else None)
    fs.rename(staged, live)


def staged_parts(staging: Path) -> tuple[str, ...]:
    """The parts that lie complete in a staging folder when all topics were built."""
    names = (paths.CONSUME_QUEUE, paths.INDEX, paths.CHECKPOINT)
    return tuple(name for name in names if os.path.lexists(staging / name))
