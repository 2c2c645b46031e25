"""Report of what tasks really read: each leaves a small file in a folder (option `readReport`), `read_report` adds up.

Spark 4.3 lets a Python source count neither bytes nor rows of its own: it has no metrics and no accumulators. So each
task writes `ID.json` at its end, even if Spark did not take all of its rows:

| key | meaning |
|---|---|
| log_bytes | bytes of the log that were read: whole records and the bytes between them |
| queue_bytes | bytes of queue entries that were read, without those of the planner's searches |
| rows | rows that Spark got, before its own filters |

Attempts that failed, and tasks that ran twice, count as often as they ran.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reput.errors import ConfigError
from reput.files import fs
from reput.log.read.scan import Gap

_SUFFIX = ".json"
_LIMIT = 1 << 16
_COUNTS = ("log_bytes", "queue_bytes", "rows")


@dataclass
class Seen:
    """Bytes and rows that a task has read so far, and the bytes that it skipped.

    `has_lost_file`: the log file of its range is not there.
    """

    log_bytes: int = 0
    queue_bytes: int = 0
    rows: int = 0
    lost: list[Gap] = field(default_factory=list)
    has_lost_file: bool = False


@dataclass
class ReadReport:
    """Sums over the tasks of one or several reads: bytes of log and of queue entries, rows, tasks."""

    tasks: int = 0
    log_bytes: int = 0
    queue_bytes: int = 0
    rows: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of log and of queue entries."""
        return self.log_bytes + self.queue_bytes


def reported(batches: Iterator[Any], seen: Seen, folder: str | None) -> Iterator[Any]:
    """Yield the record batches of a task, and at its end write what it read into `folder`."""
    try:
        for batch in batches:
            seen.rows += batch.num_rows
            yield batch
    finally:
        if folder is not None:
            values = {name: getattr(seen, name) for name in _COUNTS}
            fs.make_dirs(Path(folder))
            fs.write_whole(Path(folder) / f"{uuid.uuid4().hex}{_SUFFIX}", json.dumps(values).encode())


def read_report(folder: str | Path) -> ReadReport:
    """Add up what tasks left in a folder; zeros if there is nothing yet.

    Raises:
        ConfigError: a file there is not from a task.
    """
    report = ReadReport()
    for entry in fs.list_dir(Path(folder)):
        if not entry.is_file or not entry.name.endswith(_SUFFIX):
            continue
        path = Path(folder) / entry.name
        try:
            found = json.loads(fs.read_bytes(path, _LIMIT) or b"")
            values = [int(found[name]) for name in _COUNTS]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: not what a task of a read left. Give a folder of its own") from error
        report.tasks += 1
        for name, value in zip(_COUNTS, values, strict=True):
            setattr(report, name, getattr(report, name) + value)
    return report
