"""The vectors that the kernel of a single put is called with: int64 words; a call passes their addresses.

The kernel gives a message its place at the log's end and its number in its queue, and writes its record there. Words
whose names end in `_at` hold addresses; the maker of a vector keeps that memory as long as the vector is in use.
"""

from __future__ import annotations

from reput.formats.layout import INT64_MIN, Field, Layout

_INT = "q"

END_LAYOUT = Layout(
    "The end of a log",
    "reput",
    [
        Field("offset", _INT, "log offset after the last record; raised with each record"),
        Field("room_end", _INT, "log offset up to which the memory takes records; -1: there is none"),
        Field("memory_at", _INT, "the place that log offset 0 would have in the memory of the current file"),
        Field("last_ms", _INT, "store time of the last record, in ms; no record gets an earlier one"),
        Field("wrote_at", _INT, "where `offset` is published"),
        Field("confirmed_at", _INT, "where it is published for readers; 0: they wait for something else"),
        Field("max_body", _INT, "most bytes of a body"),
        Field("sys_flag", _INT, "the bits of both hosts"),
        Field("born_host_at", _INT, "the host that stores, the born host of messages that have none"),
        Field("born_host_size", _INT, "its bytes"),
        Field("tail_at", _INT, "what follows the store time: the host that stores, tries, and prepared offset"),
        Field("tail_size", _INT, "its bytes"),
        Field("held_at", _INT, "a byte whose lowest bit is set while a thread holds the lock; then nothing is stored"),
        Field("answer_at", _INT, "the address of a PutResult of a stored message, which every answer is like"),
    ],
    "=",
)
EndAt = END_LAYOUT.words

TOPIC_LAYOUT = Layout(
    "A topic; its part of a record follows: the length in one or two bytes, and the name",
    "reput",
    [
        Field("numbers_at", _INT, "the next offset of each queue by its id, int64; negative: it is not known"),
        Field("queues", _INT, "queue ids in `numbers_at`, from 0 on; 0 while they move"),
        Field("magic", _INT, "the record version's magic"),
        Field("part_size", _INT, "bytes of the topic's part"),
    ],
    "=",
)
TopicAt = TOPIC_LAYOUT.words

MESSAGE_FIELDS = (
    "topic",
    "body",
    "tags",
    "keys",
    "properties",
    "flag",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "unique_key",
    "reconsume_times",
    "prepared_transaction_offset",
)
MESSAGE_LAYOUT = Layout(
    "The class of messages, and the place of each value in an object of it, in bytes",
    "reput",
    [Field("class_at", _INT, "the address of the class"), *(Field(name, _INT, "its slot") for name in MESSAGE_FIELDS)],
    "=",
)
MessageAt = MESSAGE_LAYOUT.words

NOT_PLACED = -1
"""The answer to a list of messages of which nothing was written: a put of any kind must look at it."""
NO_ROOM = -2
"""The same if there is no room in memory, or a thread holds the lock: this number less the bytes of the records."""
OWN_HOST = INT64_MIN
"""In place of a born host: the host that stores. Another one is the eight bytes of `HOST_V4`, as one number."""
