"""Another user's view: a function that runs in a fork without root's rights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY = 65534


def as_another_user(function: Callable[[], str]) -> str:
    """What `function` returns when a user without rights calls it; skips where we cannot become one."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = function()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer
