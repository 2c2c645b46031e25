"""A finding about one queue, as a task reports it."""

from __future__ import annotations

from typing import NamedTuple


class QueueFinding(NamedTuple):
    """A fault in a queue's files or units; `offset` is a byte of the file.

    `times`: the count. `physical_offset`: the log offset of the entry, -1 for none.
    """

    rule: str
    file: str
    offset: int | None
    times: int
    physical_offset: int
    detail: str
