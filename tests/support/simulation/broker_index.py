"""The IndexFiles of the model of RocketMQ's broker: an item, its slot and the header, for each key one after the other.

    index = ModelIndex(path / "index", owner, config)             after a clean end
    index = ModelIndex(path / "index", owner, config, trusted)    after a crash
    index.start()                                                 removes the files above the checkpoint
    index.add(record)

Source: `IndexService.load`, `IndexService.buildIndex`, `IndexFile.putKey`.
"""

from __future__ import annotations

import struct
from datetime import datetime
from typing import TYPE_CHECKING

from reput.files import fs
from reput.formats.index.index_file import (
    HEADER_SIZE,
    ITEM,
    SLOT_SIZE,
    TAG_KEY_PREFIX,
    Header,
    decode_header,
    encode_header,
    file_size,
    is_index_name,
    items_at,
)
from reput.formats.java.hashing import index_key_hash
from reput.formats.log import properties

if TYPE_CHECKING:
    from pathlib import Path

    from reput.config import StoreConfig
    from reput.formats.log.record import Record

_SLOT = struct.Struct(">i")


class ModelIndex:
    """IndexFiles that a broker goes on with.

    Args:
        folder: the store's folder of them.
        owner: the owner of new files.
        config: the store's settings: the slots and items of a file.
        trusted_ms: the time of the checkpoint, after a crash: files with later items are too new. None: none is.

    Attributes:
        too_new: The names of the files that `start` removes, which `add` may not bring back.
        full_ms: The time of the last item of the last file that was filled; 0 for none.
    """

    def __init__(self, folder: Path, owner: fs.Owner, config: StoreConfig, trusted_ms: int | None = None) -> None:
        assert config.max_hash_slot_num is not None
        assert config.max_index_num is not None
        self._folder, self._owner, self.full_ms = folder, owner, 0
        self._slots, self._most = config.max_hash_slot_num, config.max_index_num
        self._size = file_size(self._slots, self._most)
        self._names = sorted(entry.name for entry in fs.list_dir(folder) if is_index_name(entry.name))
        self.too_new: list[str] = []
        if trusted_ms is not None:
            self.too_new = [name for name in self._names if self._header(name).end_timestamp > trusted_ms]

    def start(self) -> None:
        """Remove the files that are too new."""
        for name in self.too_new:
            fs.remove_file(self._folder / name)
            self._names.remove(name)
        for name in self._names:
            # A power cut may have taken its length.
            self._write(name, b"", 0)

    def add(self, record: Record) -> None:
        """Add the items of a record, unless the last file has some of a later one."""
        if self._names and record.physical_offset < self._header(self._names[-1]).end_physical_offset:
            return
        self._last_file(record.store_timestamp)
        values = properties.decode_properties(record.properties)
        keys = [values[properties.UNIQUE_KEY]] if properties.UNIQUE_KEY in values else []
        keys += properties.keys_of(values.get(properties.KEYS, b""))
        keys += [TAG_KEY_PREFIX + values[properties.TAGS]] if values.get(properties.TAGS) else []
        for key in keys:
            self._put(record, index_key_hash(record.topic + b"#" + key))

    def _last_file(self, at_ms: int) -> tuple[str, Header]:
        """Return the last file, or a new one if there is none that has room."""
        last = self._header(self._names[-1]) if self._names else Header(0, 0, 0, 0, 0, self._most)
        if last.index_count < self._most:
            return self._names[-1], last
        name = datetime.fromtimestamp(at_ms / 1000).strftime("%Y%m%d%H%M%S000")  # noqa: DTZ006 - as RocketMQ names it
        if self._names:
            name = max(name, f"{int(self._names[-1]) + 1:017d}")
            self.full_ms = last.end_timestamp
        self._names.append(name)
        place = (last.end_timestamp, last.end_timestamp, last.end_physical_offset, last.end_physical_offset)
        header = Header(*place, 0, 1)
        self._write(name, encode_header(header), 0)
        return name, header

    def _put(self, record: Record, key_hash: int) -> None:
        name, header = self._last_file(record.store_timestamp)
        slot_at = HEADER_SIZE + key_hash % self._slots * SLOT_SIZE
        (newest,) = _SLOT.unpack(fs.read_bytes(self._folder / name, SLOT_SIZE, slot_at) or b"")
        if not 0 < newest <= header.index_count:
            newest = 0
        seconds = (record.store_timestamp - header.begin_timestamp) // 1000 if header.begin_timestamp > 0 else 0
        number = header.index_count
        item = ITEM.struct.pack(key_hash, record.physical_offset, max(seconds, 0), newest)
        self._write(name, item, items_at(self._slots, number))
        self._write(name, _SLOT.pack(number), slot_at)
        if number <= 1:
            header = header._replace(
                begin_timestamp=record.store_timestamp, begin_physical_offset=record.physical_offset
            )
        header = header._replace(
            end_timestamp=record.store_timestamp,
            end_physical_offset=record.physical_offset,
            hash_slot_count=header.hash_slot_count + (newest == 0),
            index_count=number + 1,
        )
        self._write(name, encode_header(header), 0)

    def _header(self, name: str) -> Header:
        header = decode_header((fs.read_bytes(self._folder / name, HEADER_SIZE) or b"").ljust(HEADER_SIZE, b"\0"))
        return header._replace(index_count=max(header.index_count, 1))

    def _write(self, name: str, data: bytes, at: int) -> None:
        fs.write_at(str(self._folder / name), self._size, self._owner, data, at)
