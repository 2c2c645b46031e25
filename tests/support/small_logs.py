"""Logs of some small files, to be walked.

files = written(small_log(), tmp_path)
walk = LogWalk(files, 0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.formats import paths
from reput.log.read.files import LogFiles, list_log_files
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def written(log: LogBuilder, store: Path) -> LogFiles:
    """The files of a log that was built."""
    return list_log_files(log.write(store) / paths.COMMIT_LOG, tolerant=True)


def small_log(messages: int = 40, file_size: int = 4096) -> LogBuilder:
    """A log of some files."""
    log = LogBuilder(file_size)
    for number in range(messages):
        log.message("orders", queue_id=number % 3, body=bytes([65 + number % 26]) * (50 + number * 7))
    return log
