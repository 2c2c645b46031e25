"""The vector that the encode kernels are called with: int64 words; a call passes its address.

A batch is a set of Arrow columns: texts and bodies as Arrow lays them out, whole numbers, one text of keys a message,
and one text of further properties a message. `reput.log.encode.columns` turns other columns into these. Words whose
names end in `_at` hold addresses; the maker of a vector keeps that memory as long as the vector is in use.

Queues are rows of a directory that is kept from batch to batch. A hash table leads from a topic's bytes and a queue id
to the row.
"""

from __future__ import annotations

from enum import IntEnum

from reput.formats.layout import Field, Layout

_INT = "q"

TEXTS_LAYOUT = Layout(
    "A column of texts; all words are 0 for a column that is not there",
    "reput",
    [
        Field("offsets_at", _INT, "the first row's offset"),
        Field("width", _INT, "bytes of an offset: 4 or 8"),
        Field("valid_at", _INT, "the bits of rows that are not null; 0: no row is"),
        Field("first_bit", _INT, "the bit of the first row"),
        Field("data_at", _INT, "the texts"),
        Field("data_size", _INT, "their bytes"),
    ],
    "=",
)

BATCH_LAYOUT = Layout(
    "A batch of messages",
    "reput",
    [
        Field("rows", _INT, "messages"),
        Field.nested("topic", TEXTS_LAYOUT, "no row is null"),
        Field.nested("body", TEXTS_LAYOUT, "no row is null"),
        Field.nested("tags", TEXTS_LAYOUT, "an empty text counts as no tag"),
        Field.nested("keys", TEXTS_LAYOUT, "one key, or several with spaces between them; see `keys_are_joined`"),
        Field.nested("unique_key", TEXTS_LAYOUT, "an empty text counts as no key"),
        Field.nested("properties", TEXTS_LAYOUT, "further properties, encoded and checked"),
        Field("queue_id_at", _INT, "queue ids"),
        Field("queue_id_width", _INT, "bytes of a queue id: 4, 8, or 0 if all are 0"),
        Field("flag_at", _INT, "int32; 0: all are 0"),
        Field("sys_flag_at", _INT, "int32 with the hosts' bits; 0: `sys_flag` for all"),
        Field("born_at", _INT, "born timestamps, int64; 0: the time of the put for all"),
        Field("born_valid_at", _INT, "the bits of those that are not null; 0: none is"),
        Field("born_first_bit", _INT, "the bit of the first row"),
        Field("keys_are_joined", _INT, "1: spaces are separators of checked keys; 0: a text is one key"),
        Field("queue_at", _INT, "filled by lay_out: per message its queue's row, int32"),
        Field("size_at", _INT, "filled by lay_out: per message the record's bytes, int64"),
        Field(
            "place_at", _INT, "per message, int64: bytes before it (by lay_out), then its log offset (by write_records)"
        ),
        Field("number_at", _INT, "filled by write_records: per message its queue offset, int64"),
        Field("touched_at", _INT, "filled by lay_out: the rows of the queues it has messages for, int32"),
        Field("stamp", _INT, "a number that no other batch has"),
        Field("done", _INT, "messages that lay_out has done, or the one that it stopped at"),
        Field("size", _INT, "bytes of the records that lay_out has done"),
        Field("touched", _INT, "rows at `touched_at`"),
        Field("refusal", _INT, "why lay_out refused message `done`: a BatchRefusal"),
        Field("sys_flag", _INT, "sysFlag of records without one of their own"),
        Field("born_host_at", _INT, "the born host as a record holds it"),
        Field("born_host_size", _INT, "its bytes"),
        # What all batches of a writer have in common.
        Field("max_body", _INT, "most bytes of a body"),
        Field("append_crc", _INT, "1: each record ends with the CRC property"),
        Field("tail_at", _INT, "store host, tries and prepared offset as a record holds them"),
        Field("tail_size", _INT, "their bytes"),
        # The directory of queues.
        Field("table_at", _INT, "the hash table: int32, row + 1"),
        Field("mask", _INT, "its places - 1"),
        Field("factor", _INT, "a secret factor of the hash"),
        Field("hash_at", _INT, "per row the hash, uint64"),
        Field("id_at", _INT, "per row the queue id, int32"),
        Field("magic_at", _INT, "per row the records' magic, int32"),
        Field("part_size_at", _INT, "per row the bytes of the topic with its length, int32"),
        Field("part_at", _INT, "per row where that begins in the names, int64"),
        Field("names_at", _INT, "topics with their lengths, as records hold them"),
        Field("next_at", _INT, "per row the next queue offset, int64"),
        Field("stamp_at", _INT, "per row the stamp of the last batch, int64"),
    ],
    "=",
)
TextsAt, BatchAt = TEXTS_LAYOUT.words, BATCH_LAYOUT.words

CHANGED = -1
"""The answer of `write_records` if a text has not the length that `lay_out` measured: a caller changes the column."""
REFUSED, NEW_QUEUE, LAID_OUT = -1, 0, 1
"""The answers of `lay_out`: a message cannot be stored, a message's queue has no row yet, or all is done."""


class BatchRefusal(IntEnum):
    """The reason why a message of a batch cannot be stored."""

    NONE = 0
    BODY_TOO_LONG = 1
    PROPERTIES_TOO_LONG = 2
    BAD_TAGS = 3
    BAD_KEY = 4
    BAD_UNIQUE_KEY = 5
    BAD_OFFSETS = 6
    BAD_QUEUE_ID = 7
