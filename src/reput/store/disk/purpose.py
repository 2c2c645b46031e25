"""The uses that callers make of a store: they choose its refusals, and the kinds of queues that it is about."""

from __future__ import annotations

from enum import Enum, auto


class Purpose(Enum):
    """The use that a caller makes of a store."""

    LOOK = auto()
    """Show or compare what is there."""
    CHECK = auto()
    """Compare the indexes with the log."""
    SCAN = auto()
    """Read the log, and indexes as far as they are whole."""
    READ = auto()
    """Answer reads from the indexes; nothing is changed."""
    WRITE = auto()
    """Put messages; the caller owns the store."""
    FOLLOW = auto()
    """Extend the indexes."""
    BUILD = auto()
    """Replace the queues, and the IndexFiles unless they are left alone."""
    BUILD_SOME = auto()
    """Replace the queues of some topics."""
    BUILD_INDEX = auto()
    """Replace the IndexFiles alone."""
    DELETE = auto()
    """Remove queues: found for a dry run, since the owner that removes them opens the store to write."""


BUILDS = frozenset({Purpose.BUILD, Purpose.BUILD_SOME, Purpose.BUILD_INDEX})
MAKES_QUEUES = BUILDS | {Purpose.WRITE, Purpose.FOLLOW}
CHANGES = MAKES_QUEUES | {Purpose.DELETE}
NEEDS_PRESENT_KINDS_ONLY = frozenset({Purpose.LOOK, Purpose.CHECK})
