"""IndexFiles on disk: which there are, their headers, and the settings that their bytes show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats.index import index_file
from reput.formats.index.index_file import HEADER_SIZE, ITEM, ITEM_SIZE, SLOT, SLOT_SIZE, Header, items_at

_SLOT = SLOT.dtype["newest_item"]


@dataclass(frozen=True, slots=True)
class IndexFileOnDisk:
    """An IndexFile: its path, length, and header (None if the file is shorter than one)."""

    path: Path
    size: int
    header: Header | None


def list_index_files(folder: Path) -> list[IndexFileOnDisk]:
    """Return the IndexFiles of a folder in the order of their names. Other files are skipped, as in RocketMQ."""
    files = []
    for entry in fs.list_dir(folder):
        if entry.is_file and index_file.is_index_name(entry.name):
            path = folder / entry.name
            files.append(IndexFileOnDisk(path, entry.size, read_header(path)))
    return files


def read_header(path: Path) -> Header | None:
    """Return the header of an IndexFile; None if the file is shorter than one."""
    head = fs.read_bytes(path, HEADER_SIZE) or b""
    return index_file.decode_header(head) if len(head) == HEADER_SIZE else None


def chain_damage(path: Path, at: int, number: int, previous: int) -> DamagedStoreError:
    """Return the error for item `number`, at byte `at`, whose link does not lead to an older item."""
    return DamagedStoreError(
        f"{path} at {at}: item {number} links to item {previous}, which is not older. Run `reput rebuild --only index`"
    )


def read_items(path: Path, slots: int, first: int, count: int) -> np.ndarray:
    """Return `count` items from number `first` on, as an array of `index_file.ITEM.dtype`; fewer if the file ends."""
    data = fs.read_bytes(path, count * ITEM_SIZE, items_at(slots, first)) or b""
    return np.frombuffer(data, dtype=ITEM.dtype, count=len(data) // ITEM_SIZE)


def read_slots(path: Path, slots: int) -> np.ndarray:
    """Return the slots of a file as int32."""
    data = fs.read_bytes(path, slots * SLOT_SIZE, HEADER_SIZE) or b""
    return np.frombuffer(data, dtype=_SLOT, count=len(data) // SLOT_SIZE).astype(np.int32)


def slots_below(path: Path, slots: int, number: int) -> NDArray[np.int32]:
    """Return the slots of a file as its items below `number` make them; a new file has none.

    If a slot of the file names a later item, a job died before it published, and all slots are made anew.
    """
    if number == 1:
        return np.zeros(slots, dtype=np.int32)
    present = read_slots(path, slots)
    if len(present) != slots or not _slots_agree(present, number):
        present = np.zeros(slots, dtype=np.int32)
        enter_items(path, present, 1, number)
    return present


def _slots_agree(slots: NDArray[np.int32], number: int) -> bool:
    """Return True if all slots name items below `number`, or none."""
    return int(slots.min(initial=0)) >= 0 and int(slots.max(initial=0)) < number


def enter_items(path: Path, slots: NDArray[np.int32], begin: int, end: int) -> None:
    """Enter a file's items [begin, end) into the slots."""
    for at in range(begin, end, _ITEMS_READ):
        items = read_items(path, len(slots), at, min(_ITEMS_READ, end - at))
        # The last of several items in one slot wins, as numpy assigns.
        slots[items["key_hash"].astype(np.int64) % len(slots)] = np.arange(at, at + len(items), dtype=np.int32)


def cut_slots(file: IndexFileOnDisk, slots: int, items: int, owner: fs.Owner, *, again: bool = False) -> None:
    """Take back, durably, the slots of a file that name items above its header's count, which a crash has left.

    RocketMQ lets its next item of such a slot link to itself, and so loses the older ones. A full file has none.
    `again`: an earlier cut may have failed to sync, and all used slots are written once more.
    """
    size = index_file.file_size(slots, items)
    # A header of zeros is that of a file without an item, too.
    number = max(file.header.index_count, 1) if file.header is not None else items
    if file.size != size or number >= items:
        return
    known = slots_below(file.path, slots, number)
    changed = np.arange(slots, dtype=np.int64) if again else changed_slots(file.path, known)
    if len(changed):
        descriptor = fs.open_sized(str(file.path), size, owner)
        try:
            with fs.errors_named(file.path, f"write {len(changed)} slots"):
                write_slots(descriptor, known, changed)
        finally:
            fs.close(descriptor)
        fs.sync_path(file.path)


def changed_slots(path: Path, slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the numbers of the slots that differ from those in a file; a hole in the file counts as zeros."""
    present = read_slots(path, len(slots))
    changed = np.ones(len(slots), dtype=np.bool_)
    np.not_equal(slots[: len(present)], present, out=changed[: len(present)])
    return np.flatnonzero(changed)


def write_slots(descriptor: int, slots: NDArray[np.int32], numbers: NDArray[np.int64]) -> None:
    """Write the slots with these numbers, and those that share a page with them.

    A page without a used slot stays a hole.

    A map would be as quick, but storing to a hole through a map ends the process if the disk is full.
    """
    pages = np.unique((numbers + HEADER_SIZE // SLOT_SIZE) // _PAGE_SLOTS)
    for run in np.split(pages, np.flatnonzero(np.diff(pages) > 1) + 1) if len(pages) else ():
        begin = max(int(run[0]) * _PAGE_SLOTS - HEADER_SIZE // SLOT_SIZE, 0)
        end = min((int(run[-1]) + 1) * _PAGE_SLOTS - HEADER_SIZE // SLOT_SIZE, len(slots))
        fs.pwrite(descriptor, slots[begin:end].astype(_SLOT).data.cast("B"), HEADER_SIZE + begin * SLOT_SIZE)


def found_slots_and_items(file: IndexFileOnDisk) -> tuple[int, int] | None:
    """Return the slots and items (maxHashSlotNum, maxIndexNum) with which a file was made.

    None if its bytes do not show it.

    Its length alone leaves many pairs. The right pair puts item 1 where the header says that the file begins, has the
    slot of the last item refer to it, and links the first items as their order requires.
    """
    if file.header is None or file.size < HEADER_SIZE + SLOT_SIZE + 2 * ITEM_SIZE:
        return None
    if file.size == index_file.file_size(index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS):
        return index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS
    count = file.header.index_count - 1
    if count < 1 or file.size > _MOST_BYTES:
        return None
    body = (file.size - HEADER_SIZE) // SLOT_SIZE
    asked = 0
    # Mapped, so that the system decides how much of the file is in memory.
    with fs.mapped(file.path, 0, (HEADER_SIZE // 4 + body) * 4) as data:
        words = data.view(">i4")
        for slots in _likely_slots(words, body, count, file.header.begin_physical_offset):
            if _links_agree(words, slots, min(count, 1000)):
                return slots, (body - slots) // _ITEM_WORDS
            asked += 1
            if asked == _MOST_ASKED:
                break
    return None


_PAGE_SLOTS = 4096 // SLOT_SIZE
_ITEMS_READ = 1 << 20
_MOST_BYTES = 1 << 30
_MOST_ASKED = 1000
_WRONG_AT_MOST = 8
"""At most one item in this number may be wrong."""
_WINDOW = 1 << 18
_HEADER_WORDS, _ITEM_WORDS = HEADER_SIZE // 4, ITEM_SIZE // 4


def _likely_slots(words: np.ndarray, body: int, count: int, begin_physical_offset: int) -> Iterator[int]:
    """Yield the numbers of slots, ascending, for which items 1 and `count` look right; `words` are the file's int32."""
    high, low = begin_physical_offset >> 32, begin_physical_offset & 0xFFFFFFFF
    low = low - (1 << 32) if low >= 1 << 31 else low
    # The rest after the slots is whole items, one more than the file counts.
    first = body % _ITEM_WORDS or _ITEM_WORDS
    last = body - _ITEM_WORDS * (count + 1)
    for begin in range(first, last + 1, _WINDOW * _ITEM_WORDS):
        slots = np.arange(begin, min(begin + _WINDOW * _ITEM_WORDS, last + 1), _ITEM_WORDS)
        # Item 1 comes after the slots and item 0. Its physical offset is its words 1 and 2, its link word 4.
        at = _HEADER_WORDS + slots + _ITEM_WORDS
        slots = slots[(words[at + 1] == high) & (words[at + 2] == low) & (words[at + 4] == 0)]
        newest = words[_HEADER_WORDS + slots + _ITEM_WORDS * count].astype(np.int64)
        slots = slots[newest >= 0]
        newest = newest[newest >= 0]
        yield from slots[words[_HEADER_WORDS + newest % slots] >= count].tolist()


def _links_agree(words: np.ndarray, slots: int, items: int) -> bool:
    """Return True if the first items are linked as their order requires, and their slots refer to them or later ones.

    A few exceptions are damage, which other checks report: the number of slots is clear all the same.
    """
    at = _HEADER_WORDS + slots + _ITEM_WORDS * np.arange(1, items + 1)
    hashes, links = words[at].astype(np.int64), words[at + 4].tolist()
    newest: dict[int, int] = {}
    wrong = int((hashes < 0).sum())
    for number, (slot, link) in enumerate(zip((hashes % slots).tolist(), links, strict=True), 1):
        wrong += link != newest.get(slot, 0)
        newest[slot] = number
    named = words[_HEADER_WORDS + np.array(list(newest))]
    wrong += int((named < np.array(list(newest.values()))).sum())
    return wrong * _WRONG_AT_MOST <= items
