"""A log that a test appends to, and its content afterwards.

with open_log(tmp_path) as log: log.append(...)
read_log(tmp_path)                  the records, as the log's readers find them; fails where the log breaks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.formats.log.record import CHECK_BODY, Record, Verdict
from reput.log.append.append import LogAppender
from reput.log.append.positions import LogStart
from reput.log.append.settings import LogSettings
from reput.log.read.files import list_log_files
from reput.log.read.reader import end_of
from reput.log.read.scan import LogWalk, checking

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 1 << 16


def open_log(folder: Path, *, end_offset: int = 0, file_size: int = FILE_SIZE, **named: Any) -> LogAppender:
    """An appender with small files; `named` are its own arguments and fields of the settings."""
    arguments = {name: named.pop(name) for name in ("watermarks", "owner") if name in named}
    start = LogStart(end_offset, **{name: named.pop(name) for name in LogStart._fields if name in named})
    settings = LogSettings(mapped_file_size_commit_log=file_size, **named)
    return LogAppender(folder, settings, start, **arguments)


def read_log(folder: Path, begin: int = 0, crc_check: int = CHECK_BODY) -> list[Record]:
    """The records from log offset `begin` on; the log must end in zeros, not in damage."""
    walk = LogWalk(list_log_files(folder), begin, checking(crc_check))
    records = [found.decode() for found in walk]
    assert walk.verdict is Verdict.ZERO
    assert end_of(walk).written == 0
    return records
