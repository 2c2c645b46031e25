"""IndexFiles as they lie on disk: which there are, their headers, and what their bytes tell about their settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats import index_file
from reput.formats.index_file import HEADER_SIZE, ITEM, ITEM_SIZE, SLOT_SIZE, Header


@dataclass(frozen=True, slots=True)
class IndexFileOnDisk:
    """An IndexFile: its path, length, and header (None where the file is shorter than one)."""

    path: Path
    size: int
    header: Header | None


def list_index_files(folder: Path) -> list[IndexFileOnDisk]:
    """The IndexFiles of a folder in the order of their names; others are skipped, as RocketMQ does."""
    files = []
    for entry in fs.list_dir(folder):
        if not entry.is_dir and index_file.is_index_name(entry.name):
            path = folder / entry.name
            files.append(IndexFileOnDisk(path, entry.size, read_header(path)))
    return files


def read_header(path: Path) -> Header | None:
    """The header of an IndexFile; None where the file is shorter than one."""
    head = fs.read_bytes(path, HEADER_SIZE) or b""
    return index_file.decode_header(head) if len(head) == HEADER_SIZE else None


def items_at(slots: int, number: int = 0) -> int:
    """Byte offset of item `number` in a file with so many slots."""
    return HEADER_SIZE + slots * SLOT_SIZE + number * ITEM_SIZE


def read_items(path: Path, slots: int, first: int, count: int) -> np.ndarray:
    """`count` items from number `first` on, as an array of `index_file.ITEM.dtype`; fewer where the file ends."""
    data = fs.read_bytes(path, count * ITEM_SIZE, items_at(slots, first)) or b""
    return np.frombuffer(data, dtype=ITEM.dtype, count=len(data) // ITEM_SIZE)


def read_slots(path: Path, slots: int) -> np.ndarray:
    """The slots of a file as int32."""
    data = fs.read_bytes(path, slots * SLOT_SIZE, HEADER_SIZE) or b""
    return np.frombuffer(data, dtype=">i4", count=len(data) // SLOT_SIZE).astype(np.int32)


def changed_slots(path: Path, slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """The numbers of the slots that are not yet in a file as they are here; where it has a hole it has zeros."""
    present = read_slots(path, len(slots))
    changed = np.ones(len(slots), dtype=np.bool_)
    np.not_equal(slots[: len(present)], present, out=changed[: len(present)])
    return np.flatnonzero(changed)


def write_slots(descriptor: int, slots: NDArray[np.int32], numbers: NDArray[np.int64]) -> None:
    """Write the slots with these numbers, and those that share a page with them: a hole stays where no slot is used.

    A map would be as quick, but storing to a hole through a map ends the process where the disk is full.
    """
    pages = np.unique((numbers + HEADER_SIZE // SLOT_SIZE) // _PAGE_SLOTS)
    for run in np.split(pages, np.flatnonzero(np.diff(pages) > 1) + 1) if len(pages) else ():
        begin = max(int(run[0]) * _PAGE_SLOTS - HEADER_SIZE // SLOT_SIZE, 0)
        end = min((int(run[-1]) + 1) * _PAGE_SLOTS - HEADER_SIZE // SLOT_SIZE, len(slots))
        fs.pwrite(descriptor, slots[begin:end].astype(">i4").data.cast("B"), HEADER_SIZE + begin * SLOT_SIZE)


def told_slots_and_items(file: IndexFileOnDisk) -> tuple[int, int] | None:
    """The slots and items (maxHashSlotNum, maxIndexNum) that a file was made with, None where its bytes do not say.

    Its length alone leaves many pairs; the right one puts item 1 where the header says that the file begins, has the
    slot of the last item name it, and the first items linked as their order gives.
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
    # Mapped, so that no more of the file is in memory than the system likes to keep there.
    with fs.mapped(file.path, 0, (HEADER_SIZE // 4 + body) * 4) as data:
        words = data.view(">i4")
        for slots in _likely_slots(words, body, count, file.header.begin_physical_offset):
            if _slots_agree(words, slots, min(count, 1000)):
                return slots, (body - slots) // _ITEM_WORDS
            asked += 1
            if asked == _MOST_ASKED:
                break
    return None


_PAGE_SLOTS = 4096 // SLOT_SIZE
_MOST_BYTES = 1 << 30
_MOST_ASKED = 1000
_WRONG_AT_MOST = 8
"""One item in so many may be wrong."""
_WINDOW = 1 << 18
_HEADER_WORDS, _ITEM_WORDS = HEADER_SIZE // 4, ITEM_SIZE // 4


def _likely_slots(words: np.ndarray, body: int, count: int, begin_physical_offset: int) -> Iterator[int]:
    """The numbers of slots, ascending, with which items 1 and `count` look right; `words` are the file's int32."""
    high, low = begin_physical_offset >> 32, begin_physical_offset & 0xFFFFFFFF
    low = low - (1 << 32) if low >= 1 << 31 else low
    # The rest behind the slots is whole items, of which there are one more than the file counts.
    first = body % _ITEM_WORDS or _ITEM_WORDS
    last = body - _ITEM_WORDS * (count + 1)
    for begin in range(first, last + 1, _WINDOW * _ITEM_WORDS):
        slots = np.arange(begin, min(begin + _WINDOW * _ITEM_WORDS, last + 1), _ITEM_WORDS)
        # Item 1 stands behind the slots and item 0; its physical offset is its words 1 and 2, its link word 4.
        at = _HEADER_WORDS + slots + _ITEM_WORDS
        slots = slots[(words[at + 1] == high) & (words[at + 2] == low) & (words[at + 4] == 0)]
        newest = words[_HEADER_WORDS + slots + _ITEM_WORDS * count].astype(np.int64)
        slots = slots[newest >= 0]
        newest = newest[newest >= 0]
        yield from slots[words[_HEADER_WORDS + newest % slots] >= count].tolist()


def _slots_agree(words: np.ndarray, slots: int, items: int) -> bool:
    """Whether the first items stand in chains as their order gives, and their slots name them or later ones.

    A few that do not are damage, which others will name: it leaves the number of slots plain to see.
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
