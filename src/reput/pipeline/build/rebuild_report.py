"""The report of a rebuild as plain values: text and JSON outputs come from the same report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class LogGap:
    """Bytes [begin, end) of the log that are not a record, though records follow; `why` says what is at `begin`."""

    begin: int
    end: int
    file: str
    why: str

    @property
    def size(self) -> int:
        """Bytes in the gap."""
        return self.end - self.begin


@dataclass(slots=True)
class QueueOddity:
    """A queue whose offsets were not consecutive: repeats left out, blanks filled in, generations dropped."""

    topic: str
    queue_id: int
    repeats: int
    blanks: int
    restarts: int
    dropped: int


@dataclass(slots=True)
class TopicSummary:
    """The queues of one topic as they were built."""

    topic: str
    queues: int
    entries: int
    min_offset: int
    max_offset: int


@dataclass(slots=True, repr=False)
class RebuildReport:
    """The result of a rebuild. Offsets are bytes of the log, times milliseconds, durations seconds.

    `index_items` are in IndexFiles, `index_entries` in the index database.
    """

    store: str
    salvage: bool
    built: list[str] = field(default_factory=list)
    log_min_offset: int = 0
    log_max_offset: int = 0
    log_bytes: int = 0
    messages: int = 0
    queue_entries: int = 0
    index_items: int = 0
    index_entries: int = 0
    prepared: int = 0
    rolled_back: int = 0
    queues: int = 0
    index_files: list[str] = field(default_factory=list)
    topics: list[TopicSummary] = field(default_factory=list)
    gaps: list[LogGap] = field(default_factory=list)
    torn_tail_bytes: int = 0
    torn_tail_offset: int | None = None
    out_of_order_queues: list[QueueOddity] = field(default_factory=list)
    retained_queues: list[str] = field(default_factory=list)
    time_regressions: int = 0
    first_time_regression: int | None = None
    stitched_again: int = 0
    assumed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"RebuildReport({self.store!r}, {self.messages} messages, {self.queues} queues, "
            f"{len(self.index_files)} IndexFiles, {len(self.gaps)} gaps, {len(self.warnings)} warnings)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        values = asdict(self)
        return {**values, "crooked_queues": values["out_of_order_queues"]}  # old name, for one version

    @property
    def crooked_queues(self) -> list[QueueOddity]:  # old name, for one version
        """The old name of `out_of_order_queues`."""
        return self.out_of_order_queues
