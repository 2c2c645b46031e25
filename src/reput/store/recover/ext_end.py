"""The end of a queue's ext units, found by its entries: units after that of the last entry do not count.

Source: `ConsumeQueue.recover` and `truncateDirtyLogicFiles`, which cut the ext files at the last address they see.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey
from reput.formats.queue.consume_queue_ext import MAX_ADDRESS, MIN_ADDRESS
from reput.formats.stored_text import stored_bytes
from reput.queue.ext import ExtReader, list_ext_files
from reput.queue.files import QueueFile, list_queue_files, list_queues
from reput.queue.reader import queue_span

_ENTRIES_AT_ONCE = 1 << 14
_ZEROS = bytes(1 << 20)


def last_address(queue_folder: Path, end: int) -> int | None:
    """Return the last address in a queue's entries before queue offset `end`; None if no entry has one."""
    for file in reversed(list_queue_files(queue_folder)):
        piece_end = min(end - file.start // ENTRY_SIZE, file.size // ENTRY_SIZE)
        while piece_end > 0:
            begin = max(0, piece_end - _ENTRIES_AT_ONCE)
            data = fs.read_bytes(file.path, (piece_end - begin) * ENTRY_SIZE, begin * ENTRY_SIZE) or b""
            codes = np.frombuffer(data, dtype=ENTRY.dtype, count=len(data) // ENTRY_SIZE)["tags_code"]
            addressed = np.flatnonzero(codes <= MAX_ADDRESS)
            if len(addressed):
                return int(codes[addressed[-1]])
            piece_end = begin
    return None


def first_address(queue_folder: Path, log_min_offset: int) -> int | None:
    """Return the first address among the entries of records that the log still has, in a queue's first file."""
    for file in list_queue_files(queue_folder)[:1]:
        data = fs.read_bytes(file.path, file.size) or b""
        entries = np.frombuffer(data, dtype=ENTRY.dtype, count=len(data) // ENTRY_SIZE)
        kept = (entries["physical_offset"] >= log_min_offset) & (entries["size"] > 0)
        addressed = np.flatnonzero(kept & (entries["tags_code"] <= MAX_ADDRESS))
        if len(addressed):
            return int(entries["tags_code"][addressed[0]])
    return None


def end_of_units(queue_folder: Path, reader: ExtReader, key: QueueKey, end: int) -> int:
    """Return the byte offset in a queue's ext files after the unit of its last entry before queue offset `end`.

    Raises:
        DamagedStoreError: That entry points to no unit.
    """
    address = last_address(queue_folder, end)
    if address is None:
        files = list_ext_files(reader.folder, key)
        return files[0].start if files else 0
    unit = reader.unit(key, address)
    if unit is None:
        raise DamagedStoreError(
            f"{queue_folder}: the last entry before queue offset {end} points to byte {address - MIN_ADDRESS} of "
            f"the queue's files in {reader.folder}, where there is no unit. Run `reput rebuild --only queue`"
        )
    return address - MIN_ADDRESS + unit.size


def cut_units(reader: ExtReader, key: QueueKey, end: int, owner: fs.Owner, *, again: bool = False) -> list[Path]:
    """Zero a queue's ext files from byte offset `end` on, and remove later files; return the files that changed.

    The bytes are zeroed, since RocketMQ searches for the end of the units and would read old ones.
    `again`: an earlier cut may have failed to sync.
    """
    changed = []
    for file in reversed(list_ext_files(reader.folder, key)):
        if file.start >= end and file.start > 0:
            # One by one: a power cut must not bring back a file whose predecessor is gone.
            fs.sync_path(file.path.parent)
            fs.remove_file(file.path)
            changed.append(file.path)
        elif file.start + file.size > end and _zero_from(file, end - file.start, owner, again=again):
            changed.append(file.path)
    return changed


def _zero_from(file: QueueFile, begin: int, owner: fs.Owner, *, again: bool) -> bool:
    """Zero the written bytes of a file from byte `begin` on; return True if there were any."""
    written = fs.end_of_data(file.path, file.size)
    found = False
    while begin < written:
        count = min(len(_ZEROS), written - begin)
        data = fs.read_bytes(file.path, count, begin) or b""
        if again or data.strip(b"\0"):
            fs.write_at(str(file.path), file.size, owner, _ZEROS[:count], begin)
            found = True
        begin += count
    if found:
        fs.sync_path(file.path)
    return found


def cut_all_units(
    consume_queue: Path, reader: ExtReader, owner: fs.Owner, whole: int = INT64_MAX, *, again: bool = False
) -> list[Path]:
    """Cut the units of all queues after their last entries: after a cut of the queues, or after a crash.

    A crash may lose the units of entries of records from log offset `whole` on; these are built again.

    Returns:
        The files that changed.

    Raises:
        DamagedStoreError: A last entry below that offset points to no unit.
    """
    changed = []
    for queue in list_queues(consume_queue):
        key = QueueKey(stored_bytes(queue.topic), queue.queue_id)
        if not list_ext_files(reader.folder, key):
            continue
        end = queue_span(queue).max_offset
        address = last_address(queue.path, end)
        if address is not None and reader.unit(key, address) is None:
            end = queue_span(queue, below=whole).max_offset
        changed += cut_units(reader, key, end_of_units(queue.path, reader, key, end), owner, again=again)
    return changed
