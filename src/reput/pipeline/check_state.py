"""A check under way: what it knows and the report it fills."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from reput.log.files import LogFiles
from reput.pipeline.engine import Engine
from reput.pipeline.job import Job
from reput.pipeline.listener import ProgressListener
from reput.store.layout import StoreLayout
from reput.store.report import CheckReport
from reput.store.settings import StoreSettings


@dataclass(slots=True)
class Check:
    """A check under way."""

    layout: StoreLayout
    log: LogFiles
    settings: StoreSettings
    engine: Engine
    job: Job
    listener: ProgressListener
    report: CheckReport

    @contextmanager
    def stage(self, name: str, total_bytes: int = 0) -> Iterator[None]:
        """Tell the listener of a stage, and the report how long it took."""
        self.listener.stage(name, total_bytes)
        begin = time.perf_counter()
        yield
        self.report.seconds[name] = round(time.perf_counter() - begin, 4)
