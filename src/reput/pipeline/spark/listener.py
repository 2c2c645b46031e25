"""How a job tells what it is at; the command line draws it."""

from __future__ import annotations


class ProgressListener:
    """Told what a job is at; the command line draws it. Does nothing by itself."""

    def stage(self, name: str, total_bytes: int) -> None:
        """A stage begins that goes over so many bytes of log."""

    def advance(self, finished: int, total: int) -> None:
        """So many of the stage's tasks are done."""

    def note(self, text: str) -> None:
        """Something worth a line while the job runs."""
