"""What tasks really read: each leaves a small file in a folder (option `readReport`), and `read_report` adds them up.

Spark 4.3 lets a Python source count neither bytes nor rows of its own: there are no metrics and no accumulators. So a
task that ends, whether all of it was asked for or not, writes `ID.json`:

| key | meaning |
|---|---|
| log_bytes | bytes of the log that were looked at: whole records and what lies between them |
| queue_bytes | bytes of queue entries that were read, without those of the planner's searches |
| rows | rows that were handed to Spark, of which its own filters may leave fewer |

Attempts that failed, and tasks that ran twice, count as often as they ran: that was read.
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
from reput.log.scan import Gap

_SUFFIX = ".json"
_LIMIT = 1 << 16
_COUNTS = ("log_bytes", "queue_bytes", "rows")


@dataclass
class Seen:
    """What a task has looked at so far, in bytes and rows, and what it passed over."""

    log_bytes: int = 0
    queue_bytes: int = 0
    rows: int = 0
    lost: list[Gap] = field(default_factory=list)


@dataclass
class ReadReport:
    """What the tasks of one or several reads looked at: bytes of log and of queue entries, rows, tasks."""

    tasks: int = 0
    log_bytes: int = 0
    queue_bytes: int = 0
    rows: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of both."""
        return self.log_bytes + self.queue_bytes


def reported(batches: Iterator[Any], seen: Seen, folder: str | None) -> Iterator[Any]:
    """The record batches of a task; when it ends, what it looked at is told in `folder`."""
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
    """What tasks told in a folder; nothing where there is none yet.

    Raises:
        ConfigError: a file there is none of theirs.
    """
    report = ReadReport()
    for entry in fs.list_dir(Path(folder)):
        if entry.is_dir or not entry.name.endswith(_SUFFIX):
            continue
        path = Path(folder) / entry.name
        try:
            told = json.loads(fs.read_bytes(path, _LIMIT) or b"")
            values = [int(told[name]) for name in _COUNTS]
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: not what a task of a read left. Give a folder of its own") from error
        report.tasks += 1
        for name, value in zip(_COUNTS, values, strict=True):
            setattr(report, name, getattr(report, name) + value)
    return report
