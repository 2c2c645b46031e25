"""The vectors that the look-up kernels are called with: int64 words, made once for a queue or the indexes.

A call passes a vector's address. Words whose names end in `_at` hold addresses; the maker of a vector keeps that
memory as long as the vector is in use.
"""

from __future__ import annotations

from reput.formats.layout import WORD_SIZE, Field, Layout

_INT = "q"

ASK = -1
"""The answer of a look-up kernel that cannot answer alone: something has changed, or is out of the ordinary."""
NEEDS_FILE = -2
"""From here down an answer names a file that must be mapped first; see `needed_file`."""
BUFFER_FULL = -(1 << 62)
"""The answer buffer has no space left: make another one, and ask again."""
COUNT_BITS = 13
"""An answer that found messages holds their number in its low bits, and above them the word where their places begin.

`pack_answer`, `answer_count` and `answer_at` are its two directions.
"""
COUNT_MASK = (1 << COUNT_BITS) - 1
MOST_MESSAGES = 1 << COUNT_BITS - 1
"""A question that may find more messages than that is answered in the general way."""
MIN_PULL_BYTES = 100
"""A pull that asks for fewer bytes stops at that number."""

PLACE_LAYOUT = Layout(
    "The place of a message in the log",
    "reput",
    [Field("log_offset", _INT, "where the record begins"), Field("size", _INT, "its bytes")],
    "=",
)
ANSWERS_LAYOUT = Layout(
    "A buffer of answers, one after the other, each written once; the places of messages follow",
    "reput",
    [
        # A kernel keeps the GIL, so no two answers take the same words.
        Field("free", _INT, "the next free word"),
        Field("end", _INT, "the word after the last one"),
    ],
    "=",
)
KEY_TOPIC_LAYOUT = Layout(
    "A topic in which keys are looked for; the topic's bytes follow",
    "reput",
    [
        Field("index_at", _INT, "the vector of the IndexFiles"),
        Field("hash", _INT, 'the Java hash of topic and "#"'),
        Field("size", _INT, "bytes of the topic"),
    ],
    "=",
)
FILE_TABLE_LAYOUT = Layout(
    "A table of mapped files by number; the address of each follows: 0 for one not mapped yet, -1 for a missing file",
    "reput",
    [Field("first", _INT, "the number of the first file"), Field("count", _INT, "files")],
    "=",
)
WATCH_LAYOUT = Layout(
    "The first words of a queue's and of the indexes' vector; a mark at address 0 is not looked at",
    "reput",
    [
        Field("confirmed_at", _INT, "the store's mark of the confirmed log offset"),
        Field("confirmed", _INT, "the log offset up to which the view has read"),
        Field("frontier_at", _INT, "the store's mark of the durable frontier"),
        Field("frontier", _INT, "the log offset below which the view knows the indexes"),
        Field("generation_at", _INT, "the store's mark that changes when indexes are replaced"),
        Field("generation", _INT, "the generation that the view has read"),
        Field("log_at", _INT, "the table of the log's files"),
        Field("log_file_size", _INT, "bytes of a file of the log"),
        Field("log_end", _INT, "the log offset after the last record"),
    ],
    "=",
)
QUEUE_LAYOUT = Layout(
    "A queue: the entries of its files, and a window, entries of one file that pulls are answered from",
    "reput",
    [
        *WATCH_LAYOUT.fields,
        Field("first", _INT, "queue offset of the first entry in files"),
        Field("end", _INT, "queue offset after the last entry in files"),
        Field("file_entries", _INT, "entries of a file"),
        Field("files_at", _INT, "the table of its files"),
        Field("window_begin", _INT, "queue offset of the window's first entry"),
        Field("window_end", _INT, "queue offset after the window's last entry"),
        Field("entries_at", _INT, "the window's entries"),
        Field("is_last", _INT, "1: a pull may end at the window's end"),
        Field("records_begin", _INT, "log offset from which on records may be taken"),
        Field("records_end", _INT, "log offset at which the last of them must end"),
        Field("most_messages", _INT, "most messages of a pull"),
        Field("most_bytes", _INT, "most bytes of a pull"),
        Field("stop_bytes", _INT, "a pull ends once it has this number of bytes"),
        # A search goes the same way from the same beginning, so step n goes on with step 2n or 2n + 1.
        Field("times_at", _INT, "the store times that a search by time reads first, by step; 0 for one not read yet"),
        Field("time_count", _INT, "the steps whose times are kept, the unused step 0 among them"),
    ],
    "=",
)
INDEX_LAYOUT = Layout(
    "The IndexFiles; the address of each follows, the newest first",
    "reput",
    [
        *WATCH_LAYOUT.fields,
        Field("slots", _INT, "hash slots of a file"),
        Field("items", _INT, "items that a file has space for"),
        Field("below", _INT, "the log offset below which their items count"),
        Field("count", _INT, "files"),
    ],
    "=",
)
SEEKS_LAYOUT = Layout(
    "Many searches by time, and where their answers go",
    "reput",
    [
        Field("queues_at", _INT, "the address of each question's queue vector; 0 for a queue that has none"),
        Field("timestamps_at", _INT, "the time of each question"),
        Field("count", _INT, "questions"),
        Field("above", _INT, "1: only a message stored after the time counts"),
        Field("answers_at", _INT, "the answer to each question, as of `seek_time`"),
        Field("group_at", _INT, "SEEK_GROUP searches under way (`SEARCH_LAYOUT`)"),
    ],
    "=",
)
SEARCH_LAYOUT = Layout(
    "A search by time under way: the files that its last step was in need no division to be found again",
    "reput",
    [
        Field("low", _INT, "no offset below it answers"),
        Field("high", _INT, "it or one below it answers; `low` when the search has ended"),
        Field("step", _INT, "the number of the next step"),
        Field("entry_at", _INT, "the entry in the middle"),
        Field("record_at", _INT, "its record; 0 for an entry out of the ordinary"),
        Field("files_begin", _INT, "queue offset at which the file of the queue begins"),
        Field("files_end", _INT, "queue offset at which it ends"),
        Field("file_at", _INT, "where it is mapped"),
        Field("log_begin", _INT, "log offset at which the file of the log begins"),
        Field("log_end", _INT, "log offset at which it ends"),
        Field("log_at", _INT, "where it is mapped"),
    ],
    "=",
)
KEYS_LAYOUT = Layout(
    "Many questions by key in one topic, and where their answers go",
    "reput",
    [
        Field("topic_at", _INT, "the topic (`KEY_TOPIC_LAYOUT`)"),
        Field("names_at", _INT, "the keys, one after the other"),
        Field("ends_at", _INT, "where each key ends, after the place where the first one begins"),
        Field("count", _INT, "questions"),
        Field("max_messages", _INT, "most messages of an answer"),
        Field("answers_at", _INT, "the answer to each question, as of `find_key`"),
        Field("buffer_at", _INT, "the answer buffer"),
        Field("group_at", _INT, "KEY_GROUP searches under way (`CHAIN_LAYOUT`)"),
    ],
    "=",
)
CHAIN_LAYOUT = Layout(
    "A search by key under way, in one IndexFile",
    "reput",
    [
        Field("hash", _INT, "the hash of topic and key"),
        Field("slot_at", _INT, "the byte at which its slot begins in each file"),
        Field("number", _INT, "the next item; 0 for none"),
    ],
    "=",
)
PlaceAt, AnswersAt, KeyTopicAt = PLACE_LAYOUT.words, ANSWERS_LAYOUT.words, KEY_TOPIC_LAYOUT.words
FileTableAt, WatchAt = FILE_TABLE_LAYOUT.words, WATCH_LAYOUT.words
QueueAt, IndexAt = QUEUE_LAYOUT.words, INDEX_LAYOUT.words
SeeksAt, SearchAt = SEEKS_LAYOUT.words, SEARCH_LAYOUT.words
KeysAt, ChainAt = KEYS_LAYOUT.words, CHAIN_LAYOUT.words

SEEK_GROUP, KEY_GROUP = 16, 16
"""Questions whose memory is asked for together: about as many lines as a core waits for at once."""
PLACE_WORDS = PLACE_LAYOUT.word_count
SEARCH_WORDS, CHAIN_WORDS = SEARCH_LAYOUT.word_count, CHAIN_LAYOUT.word_count
FIRST_PLACE = ANSWERS_LAYOUT.word_count
"""The word of an answer buffer where the first place can be."""
TOPIC_BYTES = KEY_TOPIC_LAYOUT.word_count
FIRST_FILE = FILE_TABLE_LAYOUT.word_count
FIRST_INDEX_FILE = INDEX_LAYOUT.word_count
"""The words that follow those of these layouts."""


def topic_words(size: int) -> int:
    """Return the words of a topic's vector with its bytes."""
    return TOPIC_BYTES + size // WORD_SIZE + 1


def pack_answer(at: int, count: int) -> int:
    """Return the answer for `count` messages whose places begin at word `at` of the buffer."""
    return at << COUNT_BITS | count


def answer_count(answer: int) -> int:
    """Return the number of messages in an answer."""
    return answer & COUNT_MASK


def answer_at(answer: int) -> int:
    """Return the word of the buffer where an answer's places begin."""
    return answer >> COUNT_BITS


def pack_needed(number: int, of_queue: bool) -> int:
    """Return the answer that asks for file `number` of the log, or of the queue."""
    return NEEDS_FILE - 2 * number - of_queue


def needed_file(answer: int) -> tuple[int, bool]:
    """Return the number of the file that an answer asks for, and whether it is one of the queue."""
    number, of_queue = divmod(NEEDS_FILE - answer, 2)
    return number, bool(of_queue)
