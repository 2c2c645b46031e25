"""A process that has a store open, puts what its input says, and answers questions, a line for each; see `Turn.java`.

with Turn(words, home) as turn:     starts it; kills it at the end, if it has not been closed
    turn.answer()                   its first line: the store is open
    turn.ask([{"queue": ["orders", 0]}])
    turn.close()
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import reput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PATIENCE_S = 120


class TurnError(AssertionError):
    """A turn went wrong: a process ended by itself, or an answer is not what it has to be."""


class Turn:
    """A process that has a store open, puts the messages of its input, and answers questions; see `Turn.java`."""

    def __init__(self, words: Sequence[str], home: Path) -> None:
        self._errors = (home / "stderr").open("w+b")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=self._errors, env=environment())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._errors.close()

    def send(self, line: dict[str, Any]) -> None:
        """Give one line; a process that was killed meanwhile takes none."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield the answers up to the end of the process; a last line that a kill has cut does not count."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):
                yield json.loads(line)

    def answer(self) -> dict[str, Any]:
        """Return the next answer.

        Raises:
            TurnError: The process has ended; the text has what it wrote on stderr.
        """
        for found in self.answers():
            return found
        self._process.wait(PATIENCE_S)
        raise TurnError(f"ended with {self._process.returncode}: {self.errors()}")

    def ask(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the answers to some questions."""
        return list(self.stream(lines))

    def stream(self, lines: Iterable[dict[str, Any]], most: int = 1) -> Iterator[dict[str, Any]]:
        """Yield the answers to some lines, of which `most` may be under way."""
        waiting = 0
        for line in lines:
            self.send(line)
            waiting += 1
            if waiting >= most:
                yield self.answer()
                waiting -= 1
        for _ in range(waiting):
            yield self.answer()

    def errors(self) -> str:
        """Return what the process has written on stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:]

    def kill(self) -> None:
        """End the process with SIGKILL; one that has ended is left alone."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def kill_now(self) -> list[dict[str, Any]]:
        """Kill the process, and return the answers that it had given."""
        self._process.kill()
        return list(self.answers())

    def close(self) -> None:
        """End the input, and wait until the store is closed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        last = self.answer()
        if last != {"closed": True} or self._process.wait(PATIENCE_S) != 0:
            raise TurnError(f"{last}: {self.errors()}")


def environment() -> dict[str, str]:
    """Return the environment of a turn: our packages, and UTF-8 for file names."""
    folders = [str(Path(reput.__file__).parents[1]), str(Path(__file__).parents[1])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "LC_ALL": "C.UTF-8"}
