"""Late attempts: of every task one that pauses where it would begin to write, as a copy does that Spark gave up."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reput.errors import ReputError
from reput.pipeline.spark.engine import LoopEngine
from reput.pipeline.split.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest


@dataclass
class Attempt:
    """One paused attempt: at `stopped` it has come to where it writes, or to its end."""

    name: str
    stopped: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    error: ReputError | None = None
    paused: bool = False
    thread: threading.Thread | None = None


class LateAttempts(LoopEngine):
    """Runs tasks one after the other, and keeps a paused attempt of each.

    `after` is called with a task function's name when its stage is over.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: Callable[[str], None] = lambda _name: None) -> None:
        self.attempts: list[Attempt] = []
        self.after = after
        self._here = threading.local()
        writing = Job.writing

        @contextlib.contextmanager
        def pausing(job: Job) -> Iterator[None]:
            attempt: Attempt | None = getattr(self._here, "attempt", None)
            if attempt is not None:
                attempt.paused = True
                attempt.stopped.set()
                attempt.go_on.wait()
            with writing(job):
                yield

        monkeypatch.setattr(Job, "writing", pausing)

    def run(self, function: Any, arguments: Sequence[Any], progress: Any) -> list[Any]:
        """See `Engine.run`."""
        name = getattr(function, "func", function).__name__
        for argument in arguments:
            self._pause(name, function, argument)
        results = super().run(function, arguments, progress)
        self.after(name)
        return results

    def is_late(self) -> bool:
        """Return True if the calling thread is such an attempt."""
        return getattr(self._here, "attempt", None) is not None

    def release(self) -> list[tuple[str, ReputError | None]]:
        """Let all attempts go on that have paused; returns the task functions' names with what each raised."""
        released, self.attempts = self.attempts, []
        for one in released:
            one.go_on.set()
            assert one.thread is not None
            one.thread.join()
        return [(one.name, one.error) for one in released]

    def _pause(self, name: str, function: Any, argument: Any) -> None:
        attempt = Attempt(name)

        def work() -> None:
            self._here.attempt = attempt
            try:
                function(argument)
            except ReputError as error:
                attempt.error = error
            finally:
                attempt.stopped.set()

        attempt.thread = threading.Thread(target=work, daemon=True)
        attempt.thread.start()
        attempt.stopped.wait()
        if attempt.paused:
            self.attempts.append(attempt)
