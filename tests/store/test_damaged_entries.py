"""Entries of a damaged queue: a reader gives the records that they name, or says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import reput
from reput.formats import paths
from reput.formats.queue.consume_queue import ENTRY_SIZE
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def test_entries_in_no_order_over_two_files_of_the_log(tmp_path: Path) -> None:
    """Entries that are in no order give the records that they name, whatever files of the log these are in."""
    log = LogBuilder(4096)
    placed = [log.message("topic", body=bytes(900)) for _ in range(8)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    file = store / paths.CONSUME_QUEUE / "topic" / "0" / paths.offset_name(0)
    data = file.read_bytes()
    order = [6, 0, 7, 1]
    file.write_bytes(b"".join(data[at * ENTRY_SIZE : (at + 1) * ENTRY_SIZE] for at in order) + data[4 * ENTRY_SIZE :])
    with reput.MessageStore.open(store, stores.SMALL, read_only=True) as opened:
        result = opened.get_message("topic", 0, 0, 4)
        assert [one.physical_offset for one in result] == [placed[number].offset for number in order]
        assert b"".join(result.pieces()) == b"".join(bytes(one.raw) for one in result)
