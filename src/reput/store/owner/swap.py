"""The swap: several parts of a store change at once, by an intent and renames.

Staging is complete and synced before the intent is written. From then on every owner finishes the swap before it does
anything else. So a kill at any rename leaves the old parts or, after the next owner, the new ones, never a mix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from reput.errors import DamagedStoreError, ReputError
from reput.files import fs
from reput.files import names as folder_names
from reput.formats.own import files as own
from reput.store.disk.layout import StoreLayout

_INTENT_LIMIT = 64 << 20
_BEGUN = frozenset(name + fs.TEMPORARY for name in (own.INTENT_NAME, own.GIVEN_OFFSETS_NAME))
"""Files that owners alone write: one that is not whole belongs to no other process."""
_OF_DELETION = "deleted"
"""The folder in an aside folder that has the queues of a deletion, below the names of their folders."""


def swap_in(layout: StoreLayout, epoch: int, parts: tuple[str, ...], count: Callable[[], None]) -> None:
    """Replace the live parts by the staged `parts` of an epoch.

    `count` raises the number that readers look at. It is called before the first rename and after the last one, both
    while the intent is there, so a reader that has listed files meanwhile learns of it.

    Raises:
        ReputError: the system refused a step; the text says so if other indexes than the old ones are live.
    """
    fs.sync_tree(layout.staging(epoch))
    intent = own.Intent(epoch, parts)
    try:
        # Steps that need room on the disk come before the intent: after it there are only renames.
        for part in parts:
            fs.make_dirs((layout.own(own.aside_name(epoch)) / part).parent)
            _make_live_parent(layout.root / part)
        _sync_parents(layout, intent)
        fs.write_whole(layout.own(own.INTENT_NAME), own.encode_intent(intent))
        count()
        _swap_all(layout, intent)
    except BaseException:
        with saying(
            "The swap to the new indexes is under way, and the next reput command that changes this store ends it"
        ):
            _undo(layout, intent, count)
        raise
    count()
    with new_indexes_live():
        _clean_up(layout, intent)


@contextlib.contextmanager
def saying(what: str) -> Iterator[None]:
    """Add the state of the store to the text of an error."""
    try:
        yield
    except ReputError as error:
        raise type(error)(f"{error}. {what}") from error


def new_indexes_live() -> contextlib.AbstractContextManager[None]:
    """Add to an error after a swap that the new indexes are live."""
    return saying("The new indexes are live and whole all the same")


def finish_swap(layout: StoreLayout, count: Callable[[], None]) -> bool:
    """Finish the swap that a killed job left; returns False if there is none. `count` is as for `swap_in`.

    Raises:
        DamagedStoreError: the intent is unreadable, or a staged part is neither in staging nor in its place.
    """
    path = layout.own(own.INTENT_NAME)
    data = fs.read_bytes(path, _INTENT_LIMIT)
    if data is None:
        return False
    intent = own.decode_intent(data, str(path))
    count()
    _swap_all(layout, intent)
    count()
    _clean_up(layout, intent)
    return True


def pending_swap(layout: StoreLayout) -> bool:
    """Return True if a killed job left a swap for the next owner to finish."""
    return folder_names.is_file(layout.own(own.INTENT_NAME))


def remove_leftovers(layout: StoreLayout) -> list[str]:
    """Remove the folders that killed jobs left, and files that one has not written whole; returns their names."""
    names = list(leftovers(layout))
    for name in names:
        if name in _BEGUN:
            fs.remove_file(layout.own(name))
        else:
            remove_folder(layout, name)
    return names


def deletion_aside(layout: StoreLayout, epoch: int) -> Path:
    """Return the folder into which the deletion of an epoch moves queues."""
    return layout.own(own.aside_name(epoch)) / _OF_DELETION


def remove_folder(layout: StoreLayout, name: str) -> None:
    """Remove the staging or aside folder of this name, once no power cut can undo the moves of a deletion into it."""
    _sync_deletion(layout, name)
    fs.remove_tree(layout.own(name))


def _sync_deletion(layout: StoreLayout, name: str) -> None:
    """Make the moves of a deletion into this folder durable: at once, or after a sync that has failed.

    The files are removed one by one, and a power cut that undid a move then would bring a part of a queue back.
    """
    for kind in fs.list_dir(layout.own(name) / _OF_DELETION):
        topics = fs.list_dir(layout.own(name) / _OF_DELETION / kind.name)
        for folder in (*(layout.root / kind.name / topic.name for topic in topics), layout.root / kind.name):
            if fs.exists(folder):
                fs.sync_path(folder)


def leftovers(layout: StoreLayout) -> Iterator[str]:
    """Yield the names of what belongs to a job: staging and aside folders, and files that are not whole yet.

    Without a running job, killed jobs left them.
    """
    for entry in fs.list_dir(layout.reput):
        kind, _, epoch = entry.name.partition("-")
        if entry.is_file:
            if entry.name in _BEGUN:
                yield entry.name
        elif kind in ("staging", "aside") and epoch.isdecimal():
            yield entry.name


def has_leftovers(layout: StoreLayout) -> bool:
    """Return True if a killed job left a swap, or what belongs to one."""
    return pending_swap(layout) or any(leftovers(layout))


def _swap_all(layout: StoreLayout, intent: own.Intent) -> None:
    staging, aside = layout.staging(intent.epoch), layout.own(own.aside_name(intent.epoch))
    for part in intent.parts:
        _swap_part(layout.root / part, staging / part, aside / part)
    _sync_parents(layout, intent)


def _sync_parents(layout: StoreLayout, intent: own.Intent) -> None:
    """Make the renames durable on both sides, so that no name is missing in both folders."""
    tops = (layout.root, layout.staging(intent.epoch), layout.own(own.aside_name(intent.epoch)))
    folders = {(top / part).parent for part in intent.parts for top in tops}
    for folder in sorted({*folders, *tops, layout.reput}):
        if fs.exists(folder):
            fs.sync_path(folder)


def _clean_up(layout: StoreLayout, intent: own.Intent) -> None:
    fs.remove_file(layout.own(own.INTENT_NAME))
    fs.sync_path(layout.reput)
    fs.remove_tree(layout.own(own.aside_name(intent.epoch)))
    fs.remove_tree(layout.staging(intent.epoch))


def _swap_part(live: Path, staged: Path, aside: Path) -> None:
    if not fs.exists(staged):
        if not fs.exists(live):
            raise DamagedStoreError(
                f"{staged}: a swap that was under way needs it, and it is gone. Remove the file intent from reput's "
                "folder and run `reput rebuild`"
            )
        return
    if fs.exists(live):
        fs.make_dirs(aside.parent)
        fs.rename(live, aside)
    _make_live_parent(live)
    fs.rename(staged, live)


def _make_live_parent(live: Path) -> None:
    if not fs.exists(live.parent):
        fs.make_dirs(live.parent, fs.owner_of(live.parent.parent))


def _undo(layout: StoreLayout, intent: own.Intent, count: Callable[[], None]) -> None:
    """Put the old parts back after an error; after each step a later owner can finish the rest."""
    staging, aside = layout.staging(intent.epoch), layout.own(own.aside_name(intent.epoch))
    for part in reversed(intent.parts):
        live, staged, old = layout.root / part, staging / part, aside / part
        if fs.exists(live) and not fs.exists(staged):
            fs.rename(live, staged)
        if fs.exists(old):
            fs.rename(old, live)
    # If a sync fails again, a power cut may bring the renames of the swap back: the intent stays, and with it the parts
    # that the next owner needs to end the swap.
    _sync_parents(layout, intent)
    count()
    fs.remove_file(layout.own(own.INTENT_NAME))
    with contextlib.suppress(ReputError):
        fs.sync_path(layout.reput)
        fs.remove_tree(aside)
