"""The listener that gets a job's progress; the command line draws it."""

from __future__ import annotations


class ProgressListener:
    """Gets the progress of a job and ignores it; subclasses show it."""

    def stage(self, name: str, total_bytes: int) -> None:
        """Begin a stage that reads `total_bytes` of log; 0 for a stage that reads no log."""

    def advance(self, finished: int, total: int) -> None:
        """Note that `finished` of the stage's `total` tasks are done."""

    def note(self, text: str) -> None:
        """Report a line of text while the job runs."""
