"""What the driver of a job that builds does for each kind of queues.

What tasks do for each is in `split/sinks.py`, what a check does in `check/kinds.py`. What every kind can do on disk is
in `reput.queue.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from reput.files import fs
from reput.formats.queue_kinds import FILE, ROCKSDB
from reput.pipeline.build.grow_files import FileGrower
from reput.pipeline.build.grow_rocksdb import RocksdbGrower
from reput.pipeline.build.grow_state import GrowDriver, QueueGrowth
from reput.pipeline.build.queue_builder import QueueOutcome
from reput.pipeline.build.rebuild_files import FileSide
from reput.pipeline.build.rebuild_rocksdb import RocksdbSide
from reput.pipeline.build.rebuild_state import EndToKeep, RebuildRun
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.stitch import Stitched
from reput.queue.kinds import QueueKind
from reput.store.disk.retained import Retained


class QueueSide(Protocol):
    """The driver's part in building one kind of queues."""

    reads_parts: ClassVar[bool]
    """Whether `build` reads what decode tasks left of all queues, not only of crooked ones."""

    def build(self, run: RebuildRun, stitched: Stitched, table: SplitQueues) -> list[QueueOutcome]:
        """Bring all queues of the table into shape; returns what the crooked ones did."""
        ...

    def finish(
        self, run: RebuildRun, table: SplitQueues, retained: Sequence[Retained], kept: Sequence[EndToKeep], end: int
    ) -> None:
        """Give the rest its number, and say that the kind is complete up to log offset `end`."""
        ...

    def verify(self, run: RebuildRun, table: SplitQueues) -> list[str]:
        """Read back what is staged; returns a line for each queue that is not as it must be."""
        ...

    def parts(self, run: RebuildRun) -> list[str]:
        """What is swapped in, relative to the store; staged whole by now."""
        ...


class KindGrower(Protocol):
    """Lets the live queues of one kind go on with the log, until it is closed; their only writer."""

    def grow(self, driver: GrowDriver, growth: QueueGrowth) -> list[QueueOutcome]:
        """Take in a range, behind the tasks that decoded it; returns what the queues did that do not run straight."""
        ...

    def close(self) -> None:
        """Let go of what is held open."""
        ...


SIDES: Mapping[str, type[QueueSide]] = {FILE: FileSide, ROCKSDB: RocksdbSide}
GROWERS: Mapping[str, Callable[[QueueKind, fs.Owner], KindGrower]] = {FILE: FileGrower, ROCKSDB: RocksdbGrower}
