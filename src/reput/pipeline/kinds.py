"""What the driver of a job does for each kind of queues: the one place among the jobs that lists the kinds.

What tasks do for each is in `sinks.py`; what every kind can do on disk is in `reput.queue.kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from reput.formats.queue_kinds import FILE, ROCKSDB
from reput.pipeline.merge import QueueTable
from reput.pipeline.queue_builder import QueueOutcome
from reput.pipeline.rebuild_files import FileSide
from reput.pipeline.rebuild_rocksdb import RocksdbSide
from reput.pipeline.rebuild_state import EndToKeep, Run
from reput.pipeline.stitch import Stitched
from reput.store.retained import Retained


class QueueSide(Protocol):
    """The driver's part in building one kind of queues."""

    def build(self, run: Run, stitched: Stitched, table: QueueTable) -> list[QueueOutcome]:
        """Bring all queues of the table into shape; returns what the crooked ones did."""
        ...

    def finish(
        self, run: Run, table: QueueTable, retained: Sequence[Retained], kept: Sequence[EndToKeep], end: int
    ) -> None:
        """Give the rest its number, and say that the kind is complete up to log offset `end`."""
        ...

    def verify(self, run: Run, table: QueueTable) -> list[str]:
        """Read back what is staged; returns a line for each queue that is not as it must be."""
        ...

    def parts(self, run: Run) -> list[str]:
        """What is swapped in, relative to the store; staged whole by now."""
        ...


SIDES: Mapping[str, type[QueueSide]] = {FILE: FileSide, ROCKSDB: RocksdbSide}
