"""The number of files that this process may have open. Each map of a file holds one: Python keeps it beside the map."""

from __future__ import annotations

import contextlib
import errno
import resource

from reput.errors import ReputError

_MOST = 1 << 20
"""The limit that a process asks for when it has reached its own."""


def raise_limit(wanted: int) -> bool:
    """Let this process open that number of files, or as many as it may; return True if the limit rose."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return False
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return True
    return False


def has_more_files(error: ReputError) -> bool:
    """Return True if an error is about too many open files, and the limit of them was raised.

    Java does the same when it starts. A process that reads many queues would fail at the usual limit of 1,024.
    """
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EMFILE and raise_limit(_MOST)
