"""Another user's view: a function that runs in a fork without root's rights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.forked import answer_of_child

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY = 65534


def as_another_user(function: Callable[[], str]) -> str:
    """What `function` returns when a user without rights calls it; skips where we cannot become one."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")

    def call() -> str:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return function()

    return answer_of_child(call)
