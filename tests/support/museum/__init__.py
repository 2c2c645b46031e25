"""The museum: faults that stores have had, each as the state that it left. docs/museum.md shows them to readers.

store = museum.make("7355", tmp_path)     a store in the state of that issue, as tmp_path/store

The numbers are those of public issues; most are RocketMQ's. A state is made from a golden store, or from a log that is
built here, so it is the same in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.museum import indexes, logs, metadata, queues

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXHIBITS: dict[str, Callable[[Path], object]] = {
    **logs.EXHIBITS,
    **queues.EXHIBITS,
    **indexes.EXHIBITS,
    **metadata.EXHIBITS,
}
"""The makers of states, by issue. Each makes `store` below a folder."""


def make(number: str, folder: Path) -> Path:
    """Make the state of an issue below a folder; return the store."""
    EXHIBITS[number](folder)
    return folder / "store"
