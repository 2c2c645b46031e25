"""Exhibits about what is beside the log: committed offsets, and messages that wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reput.formats import paths
from support import golden
from support.museum.made import FILE_SIZE, built, crashed, golden_store, orders
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OFFSETS = "consumerOffset.json"
CUT_TIMERS = 600
"""The records at the end of the log that a truncation takes."""


def _offsets(**queues: dict[str, int]) -> bytes:
    return json.dumps({"offsetTable": {f"orders@{group}": table for group, table in queues.items()}}).encode()


def _store(folder: Path) -> Path:
    log = LogBuilder(FILE_SIZE)
    orders(log, 20)
    store = built(folder, log)
    (store / paths.CONFIG).mkdir()
    return store


def garbage_offsets(folder: Path) -> None:
    """Lose the text of consumerOffset.json in a power cut: the file has its length, and the .bak is whole."""
    config = crashed(_store(folder)) / paths.CONFIG
    (config / f"{OFFSETS}.bak").write_bytes(_offsets(billing={"0": 15}))
    (config / OFFSETS).write_bytes(bytes(len(_offsets(billing={"0": 17}))))


def old_text_after_new(folder: Path) -> None:
    """Write shorter offsets over longer ones, and do not cut the rest; the .bak got the same bytes."""
    config = crashed(_store(folder)) / paths.CONFIG
    old, new = _offsets(billing={"0": 15}, shipping={"0": 12}), _offsets(billing={"0": 17})
    mixed = new + old[len(new) :]
    for name in (OFFSETS, f"{OFFSETS}.bak"):
        (config / name).write_bytes(mixed)


def committed_past_the_end(folder: Path) -> None:
    """Let a group have committed more than the queue has, since a crash took messages that it had consumed."""
    config = crashed(_store(folder)) / paths.CONFIG
    (config / OFFSETS).write_bytes(_offsets(billing={"0": 25}))


def timers_after_truncation(folder: Path) -> None:
    """Truncate the log, and leave the timer wheel and its log, which lead to records above the log's new end."""
    store = golden_store(folder, "pending")
    records = golden.records(store)
    cut = records[-CUT_TIMERS].offset
    for start, data in golden.log_files(store):
        path = store / paths.COMMIT_LOG / paths.offset_name(start)
        path.write_bytes(data[: max(0, cut - start)].ljust(len(data), b"\0"))
    crashed(store)


EXHIBITS: dict[str, Callable[[Path], object]] = {
    "3401": garbage_offsets,
    "9328": old_text_after_new,
    "8239": committed_past_the_end,
    "10668": timers_after_truncation,
}
