"""Files that went while somebody looked for them: a writer deletes expired ones at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reput.errors import ReputError

TRIES = 3
"""A file that is away each time was not deleted just now."""
_Gotten = TypeVar("_Gotten")


def is_gone(error: ReputError) -> bool:
    """Return True if an error is about a file that is not there."""
    return isinstance(error.__cause__, FileNotFoundError)


def tried_again(call: Callable[[], _Gotten]) -> _Gotten:
    """Return what a call returns; it is made again, from the names of the files on, if a file went meanwhile."""
    for _ in range(TRIES - 1):
        try:
            return call()
        except ReputError as error:
            if not is_gone(error):
                raise
    return call()
