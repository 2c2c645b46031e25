"""The state of a running check, with the report that it fills."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from reput.errors import DamagedStoreError
from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.files import LogFiles
from reput.pipeline.check.report import CheckReport
from reput.pipeline.spark.engine import Engine
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.split.job import Job
from reput.store.disk.layout import StoreLayout
from reput.store.disk.settings import StoreSettings
from reput.store.disk.store import StoreOnDisk
from reput.store.owner.holders import Who


@dataclass
class Check:
    """A running check. Records of the log are judged below offset `confirmed`, None: up to the log's end."""

    store: StoreOnDisk
    engine: Engine
    job: Job
    listener: ProgressListener
    report: CheckReport
    confirmed: int | None = None
    half_deleted: frozenset[QueueKey] = frozenset()
    """Queues whose deletion was interrupted: their removed entries are not missing."""

    @property
    def layout(self) -> StoreLayout:
        """The store's paths."""
        return self.store.layout

    @property
    def log(self) -> LogFiles:
        """The files of the log, up to `confirmed`."""
        return self.store.log

    @property
    def settings(self) -> StoreSettings:
        """The store's settings."""
        return self.store.settings

    @cached_property
    def last_entry(self) -> int:
        """The log offset of the last record that has an entry in a queue of any kind; -1 if none has."""
        found = [-1]
        for kind in self.store.kinds:
            # A kind that cannot be read is reported by itself.
            with suppress(DamagedStoreError):
                found.append(max((queue.bounds_and_last()[1] for queue in kind.queues()), default=-1))
        return max(found)

    def fence_late_tasks(self) -> None:
        """Do nothing: what tasks of a check leave is in a folder of its own, and nothing of it goes live."""

    def out_of_date(self, rule: str, file: str, offset: int | None, count: int, detail: str) -> None:
        """Add that an index ends too early: damage below the frontier of a reput process, else remains of a crash."""
        if self.job.judged_to is not None and self.report.held_by != Who.BROKER:
            self.report.damage(rule, file, offset, count, detail)
        else:
            self.report.after_crash(rule, file, offset, count, detail)

    @contextmanager
    def stage(self, name: str, total_bytes: int = 0) -> Iterator[None]:
        """Announce a stage to the listener, and add its time to the report."""
        self.listener.stage(name, total_bytes)
        begin = time.perf_counter()
        yield
        self.report.seconds[name] = round(time.perf_counter() - begin, 4)
