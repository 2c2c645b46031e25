"""plan: the log's files become splits, byte ranges that tasks decode. It needs names, sizes and holes only."""

from __future__ import annotations

from dataclasses import dataclass

from reput.errors import ConfigError
from reput.formats.layout import INT64_MAX
from reput.log.read.files import LogFiles

_MIB = 1 << 20
MAX_SPLIT_MB = 1024
_MAX_MB = 1 << 43


@dataclass(frozen=True, slots=True)
class Split:
    """A range [begin, end) of one log file, as log offsets.

    A task decodes the records that start in it. The last one may reach past `end`, up to the file's end `file_start +
    file_size`. `exact`: `begin` is known to be a boundary (a file's start, or proved by the split before); otherwise
    the task searches the first boundary. From `data_end` on the file is a hole.
    """

    number: int
    path: str
    file_start: int
    file_size: int
    begin: int
    end: int
    data_end: int
    exact: bool

    @property
    def size(self) -> int:
        """The bytes in the range."""
        return self.end - self.begin


def mib(argument: str, given: object, most: int = _MAX_MB) -> int:
    """Return the bytes of an argument in MiB, at least 1.

    Raises:
        ConfigError: it is no number above 0, or is above `most`.
    """
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= most:
        limit = "" if most == _MAX_MB else f" and at most {most}"
        raise ConfigError(f"{argument}={given!r:.80}: give a number of MiB above 0{limit}")
    return max(1, int(given * _MIB))


def plan_splits(log: LogFiles, split_bytes: int, begin_offset: int = 0, end_offset: int = INT64_MAX) -> list[Split]:
    """Return the splits of a log, or of a part of it between two boundaries, in log order.

    No split crosses a file, because a file's start is always a boundary.
    """
    splits: list[Split] = []
    for file in log.files:
        begin, file_end, data_end = max(file.start, begin_offset), min(file.end, end_offset), file.data_end
        while begin < min(data_end, end_offset):
            end = min(begin + split_bytes, file_end)
            # A short rest joins the split before it: a task costs more than its bytes.
            if file_end - end < split_bytes // 4:
                end = file_end
            splits.append(
                Split(
                    number=len(splits),
                    path=str(file.path),
                    file_start=file.start,
                    file_size=file.size,
                    begin=begin,
                    end=end,
                    data_end=min(data_end, file_end),
                    exact=begin in (file.start, begin_offset),
                )
            )
            begin = end
    return splits
