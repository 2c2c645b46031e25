"""What the lookup kernels are told: vectors of int64, made once for a queue or the index. A call passes their address.

Words whose names end in `_AT` hold addresses; whoever makes a vector keeps that memory alive as long as it is in use.
"""

from __future__ import annotations

from enum import IntEnum

ASK = -1
"""What a lookup kernel answers that cannot tell by itself: something has changed, or is out of the ordinary."""
NEEDS_FILE = -2
"""And below: file number (NEEDS_FILE - answer) // 2 has to be mapped first; of the log; with a rest, of the queue."""
NEEDS_ROOM = -(1 << 62)
"""The room that was given is full: make another one, and ask again."""
COUNT_BITS = 13
"""An answer that found messages: the word of the room at which they stand, and in its low bits how many they are."""
COUNT_MASK = (1 << COUNT_BITS) - 1
MOST_MESSAGES = 1 << COUNT_BITS - 1
"""What finds more messages than that at once is answered in the general way."""


class Room(IntEnum):
    """Where answers put what they have found, one answer behind the other, each written once.

    The word that is free next and the one behind the last; then the places of messages, two words each: log offset and
    size. A kernel keeps the GIL, so that no two answers take the same words.
    """

    FREE = 0
    END = 1
    PLACES = 2


class KeyTopic(IntEnum):
    """A topic, as a key's messages are looked for in it.

    Where the vector of the IndexFiles stands, the hash of "TOPIC#" (int32), the topic's bytes and their number.
    """

    INDEX_AT = 0
    HASH = 1
    SIZE = 2
    BYTES = 3


class Table(IntEnum):
    """A table of mapped files by number: the first number, how many, and from FILES on the address of each.

    0 stands for a file that is not mapped yet, -1 for one that is not there.
    """

    FIRST = 0
    COUNT = 1
    FILES = 2


class Watch(IntEnum):
    """The first words of each vector: what tells that things are as they were; a word at address 0 is not looked at."""

    CONFIRMED_AT = 0
    CONFIRMED = 1
    FRONTIER_AT = 2
    FRONTIER = 3
    GENERATION_AT = 4
    GENERATION = 5
    LOG_AT = 6
    LOG_FILE_SIZE = 7
    LOG_END = 8


class Queue(IntEnum):
    """One queue: its files' entries [FIRST, END), and a window, entries [BEGIN, BEHIND) of one file.

    Pulls from the window end at BEHIND only where IS_LAST is 1, and take records in log [RECORDS_BEGIN, RECORDS_END).
    """

    FIRST = 9
    END = 10
    FILE_ENTRIES = 11
    FILES_AT = 12
    BEGIN = 13
    BEHIND = 14
    ENTRIES_AT = 15
    IS_LAST = 16
    RECORDS_BEGIN = 17
    RECORDS_END = 18
    MOST_MESSAGES = 19
    MOST_BYTES = 20
    STOP_BYTES = 21


class Index(IntEnum):
    """The IndexFiles: slots and items of each, the log offset below which they count, their addresses newest first."""

    SLOTS = 9
    ITEMS = 10
    BELOW = 11
    COUNT = 12
    FILES = 13
