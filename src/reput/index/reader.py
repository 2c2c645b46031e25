"""Reading IndexFiles item by item, and following the chain of one key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError
from reput.files import fs
from reput.formats.index.index_file import (
    DEFAULT_ITEMS,
    DEFAULT_SLOTS,
    HEADER_SIZE,
    ITEM,
    ITEM_SIZE,
    SLOT,
    SLOT_SIZE,
    file_size,
    items_at,
)
from reput.formats.java.hashing import index_key_hash
from reput.index.files import IndexFileOnDisk, chain_damage, found_slots_and_items

_READ_ITEMS = 1 << 14


class Item(NamedTuple):
    """One item: its number, and its stored values."""

    number: int
    key_hash: int
    physical_offset: int
    time_diff_s: int
    previous_item: int


@dataclass(frozen=True, slots=True)
class IndexReader:
    """An IndexFile with its number of slots and its room for items (maxHashSlotNum, maxIndexNum)."""

    file: IndexFileOnDisk
    slots: int
    items_max: int

    @property
    def count(self) -> int:
        """The number of items in the file, by its header, at most what it has room for."""
        counted = self.file.header.index_count - 1 if self.file.header else 0
        return max(0, min(counted, (self.file.size - items_at(self.slots)) // ITEM_SIZE - 1))

    def faults(self) -> str | None:
        """Return what is impossible in the header, as a sentence; None if nothing is."""
        header = self.file.header
        if header is None or 1 <= header.index_count <= self.items_max:
            return None
        return (
            f"{self.file.path} at 36: the header counts to item {header.index_count}, the file has room for "
            f"{self.items_max}. Run `reput rebuild --only index`"
        )

    def items(self, first: int, count: int) -> Iterator[Item]:
        """Yield at most `count` items from number `first` (1 and up) on."""
        position, end = max(1, first), min(first + count, self.count + 1)
        while position < end:
            wanted = min(_READ_ITEMS, end - position)
            data = fs.read_bytes(self.file.path, wanted * ITEM_SIZE, items_at(self.slots, position)) or b""
            for number, values in enumerate(
                ITEM.struct.iter_unpack(data[: len(data) // ITEM_SIZE * ITEM_SIZE]), position
            ):
                yield Item(number, *values)
            position += wanted

    def slot_of(self, key: bytes) -> int:
        """Return the slot of a key, which is topic + "#" + key."""
        return index_key_hash(key) % self.slots

    def chain(self, key: bytes) -> Iterator[Item]:
        """Yield the items that share the slot of `key`, newest first; those with its hash may be its own.

        Raises:
            DamagedStoreError: a link does not lead to an older item.
        """
        at = HEADER_SIZE + self.slot_of(key) * SLOT_SIZE
        (number,) = SLOT.struct.unpack((fs.read_bytes(self.file.path, SLOT_SIZE, at) or b"").ljust(SLOT_SIZE, b"\0"))
        # As in RocketMQ a slot that refers to an item above the header's count is empty.
        number = number if number <= self.count else 0
        while number > 0:
            found = list(self.items(number, 1))
            if not found:
                break
            yield found[0]
            previous = found[0].previous_item
            if previous >= number:
                raise chain_damage(self.file.path, items_at(self.slots, number), number, previous)
            number = previous


def open_index_files(files: list[IndexFileOnDisk], config: StoreConfig) -> Iterator[IndexReader]:
    """Yield readers of IndexFiles, with the sizes of the settings, otherwise those that the files' own bytes show.

    Raises:
        DamagedStoreError: a file does not have the length that its sizes give.
        ConfigError: nothing says how many slots a file has.
    """
    known = _configured(config) or next((sizes for file in files if (sizes := found_slots_and_items(file))), None)
    for file in files:
        sizes = _configured(config) or found_slots_and_items(file) or known
        if file.header is None:
            raise DamagedStoreError(
                f"{file.path}: {file.size} bytes, shorter than a header. Remove it, or run `reput rebuild --only index`"
            )
        if sizes is None:
            raise ConfigError(
                f"{file.path}: {file.size} bytes do not show its sizes; name them with --set maxHashSlotNum=N "
                "--set maxIndexNum=N, or with --config broker.conf"
            )
        if file_size(*sizes) != file.size:
            raise DamagedStoreError(
                f"{file.path}: {file.size} bytes, {file_size(*sizes)} expected for {sizes[0]} slots and {sizes[1]} "
                "items. Name other sizes with --set maxHashSlotNum=N --set maxIndexNum=N, or run `reput rebuild "
                "--only index`"
            )
        yield IndexReader(file, *sizes)


def _configured(config: StoreConfig) -> tuple[int, int] | None:
    if config.max_hash_slot_num is None and config.max_index_num is None:
        return None
    return config.max_hash_slot_num or DEFAULT_SLOTS, config.max_index_num or DEFAULT_ITEMS
