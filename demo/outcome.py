"""Parts of both demos: Spark's start, the rebuild with its progress, and the report of its outcome."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reput.cli.shared.output import say, show
from reput.texts import size_text

if TYPE_CHECKING:
    from reput.pipeline.build.rebuild_report import RebuildReport

_DIFFERS = 1
_DIFFERENCES_SHOWN = 10
_NAME_WIDTH = 40


def printable_start(text: str) -> str:
    """Return `text`, shortened if it is long."""
    return text if len(text) <= _NAME_WIDTH else text[: _NAME_WIDTH - 3] + "..."


def start_spark() -> float:
    """Start Spark in this process; return the seconds that it took."""
    from reput.pipeline.spark.session import start_context

    begin = time.perf_counter()
    start_context()
    return time.perf_counter() - begin


def rebuild(store: Path, config: Path | None) -> RebuildReport:
    """Rebuild a store with the running Spark, with progress on stderr."""
    import reput
    from reput.cli.shared.progress_bars import progress

    with progress() as listener:
        return reput.rebuild(store, config=config, listener=listener)


def show_rates(report: RebuildReport, start_seconds: float) -> None:
    """Show how long Spark's start and the rebuild took."""
    seconds = max(report.seconds["total"], 1e-3)
    show(f"  start of Spark  {start_seconds:.1f} s")
    show(
        f"  rebuild         {seconds:.1f} s: {report.messages:,} messages at "
        f"{report.messages / seconds:,.0f} messages/s, {size_text(report.log_bytes / seconds)}/s"
    )


def show_differences(differences: Sequence[str]) -> int:
    """Show the first differences; return the exit code."""
    for text in differences[:_DIFFERENCES_SHOWN]:
        say(f"differs: {text}")
    if len(differences) > _DIFFERENCES_SHOWN:
        say(f"differs: ... and {len(differences) - _DIFFERENCES_SHOWN} more")
    if not differences:
        say("differs: there was nothing to compare")
    return _DIFFERS
