"""IndexFiles as they lie on disk: which there are, their headers, and what their bytes tell about their settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
            head = fs.read_bytes(path, HEADER_SIZE) or b""
            header = index_file.decode_header(head) if len(head) == HEADER_SIZE else None
            files.append(IndexFileOnDisk(path, entry.size, header))
    return files


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


def told_slots_and_items(file: IndexFileOnDisk) -> tuple[int, int] | None:
    """The slots and items (maxHashSlotNum, maxIndexNum) that a file was made with, None where its bytes do not say.

    Its length alone leaves many pairs; the right one puts item 1 where the header says that the file begins, and the
    newest item of the first items' slots behind them.
    """
    if file.header is None or file.size < HEADER_SIZE + SLOT_SIZE + 2 * ITEM_SIZE:
        return None
    if file.size == index_file.file_size(index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS):
        return index_file.DEFAULT_SLOTS, index_file.DEFAULT_ITEMS
    count = file.header.index_count - 1
    if count < 1 or file.size > 1 << 30:
        return None
    data = np.frombuffer(fs.read_bytes(file.path, file.size) or b"", dtype=np.uint8)
    words = data[: len(data) // 4 * 4].view(">i4")
    body = (file.size - HEADER_SIZE) // SLOT_SIZE
    high, low = file.header.begin_physical_offset >> 32, file.header.begin_physical_offset & 0xFFFFFFFF
    low = low - (1 << 32) if low >= 1 << 31 else low
    # Item 1 stands behind slots words of slots and five words of item 0; its physical offset is its words 1 and 2.
    slots = np.arange(1, max(1, body - ITEM_SIZE // 4 * 2 + 1))
    at = HEADER_SIZE // 4 + slots + 5
    fits = (words[at + 1] == high) & (words[at + 2] == low) & (words[at + 4] == 0) & ((body - slots) % 5 == 0)
    for candidate in slots[fits].tolist():
        if _slots_agree(words, candidate, min(count, (body - candidate) // 5 - 1, 1000)):
            return candidate, (body - candidate) // 5
    return None


def _slots_agree(words: np.ndarray, slots: int, items: int) -> bool:
    at = HEADER_SIZE // 4 + slots + 5 * np.arange(1, items + 1)
    hashes = words[at].astype(np.int64)
    if (hashes < 0).any():
        return False
    newest = words[HEADER_SIZE // 4 + hashes % slots]
    return bool((newest >= np.arange(1, items + 1)).all())
