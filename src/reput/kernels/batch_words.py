"""What the kernels of plain batches are told: one vector of int64 words; a call passes its address.

A batch is *plain* when its columns are what most are: texts and bodies as Arrow lays them out, whole numbers, one key a
message. Words whose names end in `_AT` hold addresses; whoever makes a vector keeps that memory alive.

Queues stand in a directory, one row each, that goes on from batch to batch; a hash table leads from a topic's bytes and
a queue id to the row.
"""

from __future__ import annotations

from enum import IntEnum

TEXT_WORDS = 6


class Text(IntEnum):
    """Six words for a column of texts; all 0 for a column that is not there.

    They are: where the first row's offset stands, an offset's bytes (4 or 8), the bits of rows that are not null (0:
    all are not) and the bit of the first row, the data and its length.
    """

    OFFSETS_AT = 0
    WIDTH = 1
    VALID_AT = 2
    FIRST_BIT = 3
    DATA_AT = 4
    DATA_SIZE = 5


class Batch(IntEnum):
    """Words of a plain batch, the columns first.

    `FLAG_AT`, `BORN_AT`: int32, int64; 0 where no message has one. Filled by `lay_out`: per message its queue's row
    (int32), its size and its place behind the batch's begin (int64); the rows of the queues it has messages for
    (int32, some twice). Filled by `write_rows`: the queue offsets, and instead of the places the log
    offsets (int64).
    """

    ROWS = 0
    TOPIC = 1
    BODY = 7
    TAGS = 13
    KEYS = 19
    UNIQUE_KEY = 25
    QUEUE_ID_AT = 31
    QUEUE_ID_WIDTH = 32
    FLAG_AT = 33
    BORN_AT = 34
    QUEUE_AT = 35
    SIZE_AT = 36
    PLACE_AT = 37
    NUMBER_AT = 38
    TOUCHED_AT = 39
    STAMP = 40
    # Results of `lay_out`: rows that it has done, their bytes, and how many rows stand at TOUCHED_AT.
    DONE = 41
    SIZE = 42
    TOUCHED = 43
    # What all records have in common.
    MAX_BODY = 44
    SYS_FLAG = 45
    BORN_HOST_AT = 46
    BORN_HOST_SIZE = 47
    TAIL_AT = 48
    TAIL_SIZE = 49
    # The directory: the hash table (int32: row + 1) and its mask, a factor that nobody knows, and per row the hash
    # (uint64), queue id, magic, size of the topic's part (int32), its place in the names (int64), the next offset
    # (int64) and the stamp of the last batch (int64).
    TABLE_AT = 50
    MASK = 51
    FACTOR = 52
    HASH_AT = 53
    ID_AT = 54
    MAGIC_AT = 55
    PART_SIZE_AT = 56
    PART_AT = 57
    NAMES_AT = 58
    NEXT_AT = 59
    STAMP_AT = 60


WORDS = Batch.STAMP_AT + 1
"""Words of a vector."""
COLUMN_WORDS = range(Batch.TOPIC, Batch.QUEUE_AT)
CHANGED = -1
"""What `write_rows` answers where a text has another length than `lay_out` measured: somebody changes the column."""
NOT_PLAIN, NEW_QUEUE, LAID_OUT = -1, 0, 1
"""What `lay_out` answers: a message that it leaves to the general way (refused there, perhaps), one whose queue has no
row yet, or that all is done."""
