"""Forked children that answer: `answer_of_child(function)` is what it returns there, or its error.

A child that hangs is killed, and fails the test.
"""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 60.0


def answer_of_child(function: Callable[[], object], patience_s: float = PATIENCE_S) -> str:
    """The text of what `function` returns in a forked child; "Class: text" of the error that it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(function())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        # `select` takes no descriptor above 1,023, and a process that has run many tests may have that many.
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        if not ready.poll(patience_s * 1000):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"the child has not answered for {patience_s} s")
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer
