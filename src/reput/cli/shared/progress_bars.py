"""Progress of a job on stderr: on a terminal a bar with bytes, rate and time left, elsewhere a line for each stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reput.cli.shared.output import say
from reput.pipeline.spark.listener import ProgressListener
from reput.texts import size_text


@contextmanager
def progress(quiet: bool = False) -> Iterator[ProgressListener]:
    """Return a listener that writes to stderr, or nothing with `quiet`."""
    if quiet:
        yield ProgressListener()
    elif sys.stderr.isatty():
        with _bars() as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


class _Lines(ProgressListener):
    """Writes one line when a stage begins, for logs and pipes."""

    def stage(self, name: str, total_bytes: int) -> None:
        """Write the name of the stage."""
        say(f"{name}: {size_text(total_bytes)} of log" if total_bytes else f"{name} ...")


class _Bars(ProgressListener):
    """Draws one bar for each stage; a stage that reads the log shows bytes, rate and time left."""

    def __init__(self, bars: Any) -> None:
        self.bars = bars
        self.task: Any = None
        self.total = 0

    def stage(self, name: str, total_bytes: int) -> None:
        """Begin a bar."""
        self.finish()
        self.total = total_bytes
        self.task = self.bars.add_task(name, total=total_bytes or None, rate="")
        self.begin = time.monotonic()

    def advance(self, finished: int, total: int) -> None:
        """Move the bar to the share of tasks that are done."""
        if self.task is None or not total:
            return
        if self.total:
            done = self.total * finished // total
            rate = size_text(done / max(time.monotonic() - self.begin, 1e-3)) + "/s"
            self.bars.update(self.task, completed=done, rate=rate if finished else "")
        else:
            self.bars.update(self.task, total=total, completed=finished)

    def finish(self) -> None:
        """Complete the bar of the previous stage."""
        if self.task is not None:
            total = self.bars.tasks[-1].total or 1
            self.bars.update(self.task, total=total, completed=total)


@contextmanager
def _bars() -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield bars
