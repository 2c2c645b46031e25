"""The end of `reput put`: how many lines are stored, and how to continue after an early end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from reput.cli.shared import output
from reput.texts import size_text

if TYPE_CHECKING:
    from reput.embedded import MessageStore


class TakenLines:
    """Counts lines and messages.

    The first `lines` of stdin are taken: skipped, stored, or empty lines between JSON objects. The next line has the
    number `lines` + 1; `at_end` is True if there is none.
    """

    def __init__(self, skipped: int) -> None:
        self.lines = self.skipped = skipped
        self.messages = 0
        self.timed_out = 0
        self.at_end = False
        self.refused_line: int | None = None
        # The last line of each batch that may not be durable yet, and the log offset where its record ends.
        self._batches: deque[tuple[int, int]] = deque()
        self._durable_lines = skipped

    def add(self, messages: int, last_line: int, end_offset: int, flushed_offset: int) -> None:
        """Count messages that were stored, up to line `last_line`, whose record ends at `end_offset`."""
        self.messages += messages
        self.lines = last_line
        self._batches.append((last_line, end_offset))
        self.durable_lines(flushed_offset)

    def refuse(self, line: int) -> None:
        """Note the refused line; the lines before it are taken."""
        self.lines, self.refused_line = line - 1, line

    def durable_lines(self, flushed_offset: int) -> int:
        """Return the number of lines that are durable if the log is durable up to `flushed_offset`."""
        while self._batches and self._batches[0][1] <= flushed_offset:
            self._durable_lines, _ = self._batches.popleft()
        return self._durable_lines if self._batches else self.lines

    def values(self, store: MessageStore | None) -> dict[str, Any]:
        """Return the counts for programs; `store` may be closed."""
        return {
            "stored": self.messages,
            "lines_taken": self.lines,
            "next_line": None if self.at_end else self.lines + 1,
            "durable_lines": self.lines if store is None else self.durable_lines(store.flushed_offset),
            "behind_bytes": 0 if store is None else store.behind_bytes,
        }

    def sentences(self, store: MessageStore | None) -> Iterator[str]:
        """Iterate over sentences about the end; `store` may be closed, and is None if it could not be opened."""
        yield self._how_to_go_on()
        if store is None:
            return
        durable = self.durable_lines(store.flushed_offset)
        if durable < self.lines:
            yield (
                f"lines up to {durable} are durable. The disk refused to keep the lines after them: `reput info` shows "
                "where the log ends now, and the output of this run shows the log offset of each line. Skip the lines "
                "that the log has"
            )
        if (unindexed := store.behind_bytes) and not store.is_followed:
            also = "" if store.is_tail_full else ", and so does the next put"
            yield (
                f"{size_text(unindexed)} of log are not in the indexes yet. Their messages are stored and "
                f"readable; `reput follow {store.layout.root} --until-caught-up` catches up{also}"
            )

    def _how_to_go_on(self) -> str:
        if self.at_end:
            return f"all {output.counted(self.lines, 'line')} of stdin are taken: do not put them again"
        text = "no line of stdin is taken"
        if self.lines:
            text = (
                f"{output.counted(self.lines, 'line')} of stdin taken, line {self.lines + 1} comes next: to go on, run "
                f"the command again with the same input and --skip-lines {self.lines}"
            )
        if self.refused_line is not None:
            text += f". --skip-lines {self.refused_line} leaves line {self.refused_line} out"
        return text
