"""A bound on the lines of the broker's log: what clients send and what a store holds decides how often one is due."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final, NamedTuple

LINES_A_SECOND: Final = 10
"""The lines of one kind that are written in a second. The others are counted."""
_SECOND_S = 1.0
_PASSES: Final = {"passes_bound": True}


class _UnwrittenLines(NamedTuple):
    """Lines that were not written: their number, and the last one of them."""

    lines: int
    last: logging.LogRecord


class _Second:
    """The lines of one kind in a second, from its first one on."""

    __slots__ = ("begin_s", "count", "last")

    def __init__(self, begin_s: float) -> None:
        self.begin_s = begin_s
        self.count = 0
        self.last: logging.LogRecord | None = None


class LineBound(logging.Filter):
    """Lets a logger write ten lines of one kind in a second. `end_second` writes how many it has left out.

    Lines are of one kind if they have the same text before values are put in, and the same `kind` among their
    attributes, if they have one. Any thread may log.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger = logger
        self._lock = threading.Lock()
        self._seconds: dict[tuple[str, str], _Second] = {}
        self._left_out: list[_UnwrittenLines] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if a line is to be written; logging calls it."""
        if getattr(record, "passes_bound", False):
            # There is one for each kind.
            return True
        kind, now_s = (str(record.msg), getattr(record, "kind", "")), time.monotonic()
        with self._lock:
            second = self._seconds.get(kind)
            if second is None or now_s - second.begin_s >= _SECOND_S:
                self._end(kind)
                second = self._seconds[kind] = _Second(now_s)
            second.count += 1
            if second.count <= LINES_A_SECOND:
                return True
            second.last = record
            return False

    def _end(self, kind: tuple[str, str]) -> None:
        second = self._seconds.pop(kind, None)
        if second is not None and second.last is not None:
            self._left_out.append(_UnwrittenLines(second.count - LINES_A_SECOND, second.last))

    def end_second(self, *, at_once: bool = False) -> None:
        """Write the number of the lines that were left out in seconds that are over; `at_once`: in all."""
        now_s = time.monotonic()
        with self._lock:
            for kind in [kind for kind, one in self._seconds.items() if at_once or now_s - one.begin_s >= _SECOND_S]:
                self._end(kind)
            left_out, self._left_out = self._left_out, []
        for lines, last in left_out:
            words = "%d further lines in a second, the last one: %s"
            self._logger.log(last.levelno, words, lines, last.getMessage(), extra=_PASSES)
