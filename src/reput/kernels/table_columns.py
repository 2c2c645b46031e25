"""What the kernel of RocksDB's tables goes by: its state between two calls, and what it says of a block."""

from __future__ import annotations

from enum import IntEnum

from reput.formats.rocksdb import VALUE_SIZE
from reput.formats.rocksdb_table import BLOCK_SIZE, INTERNAL_END, RESTART_INTERVAL

KEY_END = 8 + len(INTERNAL_END)
"""Bytes of an internal key behind its queue's prefix."""
MOST_RESTARTS = BLOCK_SIZE // (RESTART_INTERVAL * (VALUE_SIZE + len(INTERNAL_END))) + 2
"""How many restarts a block can have: an entry brings at least its value and the end of its key."""
ENTRY_ROOM = 3 * 5 + KEY_END + VALUE_SIZE + 4 * (MOST_RESTARTS + 2)
"""Bytes that an entry and the end of its block take at most, beside the queue's prefix."""


class TableState(IntEnum):
    """Places of the kernel's state, int64 each; all 0 but LAST_ROW, which is -1, for a table that begins."""

    PIECE = 0
    """The piece that comes next."""
    DONE = 1
    """How many of its entries are in a block already."""
    BEGIN = 2
    """Where in the output the block under way begins."""
    AT = 3
    """Where its next byte goes."""
    RESTARTS = 4
    """How many restarts it has."""
    SINCE = 5
    """How many entries it has from the last restart on."""
    LAST_ROW = 6
    """The queue of its last entry, -1 where it has none."""
    LAST_OFFSET = 7
    """The queue offset of that entry."""
    ENTRIES = 8
    """Entries of the table so far."""
    KEY_BYTES = 9
    """Bytes of their internal keys."""


class TableBlock(IntEnum):
    """What is said of a block that is whole, int64 each."""

    BEGIN = 0
    """Where in the output it begins."""
    END = 1
    """The place behind it."""
    LAST_ROW = 2
    """The queue of its last entry."""
    LAST_OFFSET = 3
    """The queue offset of that entry."""
    NEXT_ROW = 4
    """The queue of the entry behind the block."""
    NEXT_OFFSET = 5
    """The queue offset of that entry."""
