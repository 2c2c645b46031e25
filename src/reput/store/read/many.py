"""Many questions at once: a kernel call answers some thousand of them, and waits for the memory of several at a time.

The single calls answer the questions that the kernels leave open: they know all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.errors import ConfigError
from reput.formats.layout import INT64_MAX
from reput.formats.queue.consume_queue import QueueKey
from reput.formats.stored_text import stored_bytes
from reput.kernels import many_kernels
from reput.kernels.layouts.lookup import (
    ASK,
    BUFFER_FULL,
    CHAIN_WORDS,
    KEY_GROUP,
    KEYS_LAYOUT,
    SEARCH_WORDS,
    SEEK_GROUP,
    SEEKS_LAYOUT,
    needed_file,
)
from reput.kernels.layouts.vectors import address_of, vector_of
from reput.store.read.again import between_swaps
from reput.store.read.lookup import QueueLookup, TopicLookup
from reput.store.read.results import AnswerBuffer, QueryResults
from reput.store.read.view import StoreView, bytes_of, number_of

AT_ONCE = 1 << 12
"""Questions of a kernel call. It keeps the GIL for a millisecond or two."""
_MOST_ROUNDS = 256
_PLACES_EACH = 2
"""Messages of a question for which the first answer buffer has space."""


# --- by time --------------------------------------------------------------------------------------


class TimeQuestions(NamedTuple):
    """Questions by time: the queues that they name, each once, the place of each question's queue, and its time.

    `times` are cut to 64 bits; `given` has them as they were given.
    """

    keys: list[QueueKey]
    places: NDArray[np.intp]
    times: NDArray[np.int64]
    given: Sequence[int]


def time_questions(view: StoreView, topic: str, queue_ids: object, timestamps_ms: object) -> TimeQuestions:
    """Return the questions for queues and times. Either may be one number for all questions.

    Raises:
        ConfigError: No topic or queue can have this name or id, a time is no whole number, or the numbers of queues and
            times differ.
    """
    ids, given = _listed("queue_ids", queue_ids), _listed("timestamps_ms", timestamps_ms)
    if not _are_numbers(ids):
        ids = [index(view.key_of(topic, one).queue_id) for one in ids]
    if not _are_numbers(given):
        given = [number_of("timestamp_ms", one) for one in given]
    count = len(ids) if _is_many(queue_ids) else len(given)
    if not _is_many(timestamps_ms):
        given = [given[0]] * count
    elif len(given) != count:
        raise ConfigError(f"{len(ids)} queue_ids and {len(given)} timestamps_ms: give a time for each, or one for all")
    if _is_many(queue_ids):
        distinct, places = np.unique(np.asarray(ids), return_inverse=True)
    else:
        distinct, places = np.asarray(ids), np.zeros(count, dtype=np.intp)
    view.key_of(topic, 0)
    keys = [view.key_of(topic, int(one)) for one in distinct.tolist()]
    return TimeQuestions(keys, places.reshape(-1), _cut(given), given)


@between_swaps
def seek_times(view: StoreView, topic: str, asked: TimeQuestions, above: bool) -> NDArray[np.int64]:
    """Return the offsets that the kernels find, -1 for each question that they leave open."""
    found = np.full(len(asked.times), ASK, dtype=np.int64)
    for begin in range(0, len(found), AT_ONCE):
        part = slice(begin, begin + AT_ONCE)
        view.catch_up()
        reader = view.reader_of(topic)
        if reader is not view.entry_reader or not view.lookups.can_seek:
            break
        places, counts = np.unique(asked.places[part], return_counts=True)
        with view.follower.lock:
            queues: dict[int, QueueLookup] = {}
            for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                queue = view.entry_reader.prepare_seek(asked.keys[place], count)
                if queue is not None:
                    queues[place] = queue
        found[part] = _sought(view, asked, part, queues, above)
    # A search for the end of time is left to the single call: its time may have been cut.
    found[np.abs(asked.times) == INT64_MAX] = ASK
    return found


def _sought(
    view: StoreView, asked: TimeQuestions, part: slice, queues: dict[int, QueueLookup], above: bool
) -> NDArray[np.int64]:
    """Return the kernel's answers. It is called again for questions that need a file, once the file is mapped."""
    fields = np.zeros((len(asked.keys), 4), dtype=np.int64)
    for place, queue in queues.items():
        fields[place] = queue.address, queue.min_offset, queue.file_end, queue.max_offset
    addresses, first, file_end, end = fields[asked.places[part]].T
    times = asked.times[part]
    found, left = np.full(len(times), ASK, dtype=np.int64), np.arange(len(times))
    group = np.empty(SEEK_GROUP * SEARCH_WORDS, dtype=np.int64)
    for _ in range(_MOST_ROUNDS):
        given, sought, answers = addresses[left], times[left], np.empty(len(left), dtype=np.int64)
        vector = vector_of(
            SEEKS_LAYOUT,
            queues_at=address_of(given),
            timestamps_at=address_of(sought),
            count=len(left),
            above=above,
            answers_at=address_of(answers),
            group_at=address_of(group),
        )
        many_kernels().seek_times(address_of(vector))
        found[left] = answers
        left = left[answers < ASK]
        needed = {
            (place, int(found[n])) for n, place in zip(left.tolist(), asked.places[part][left].tolist(), strict=True)
        }
        if not needed or not _mapped(view, asked.keys, queues, needed):
            break
    # The end of the files is no answer if the queue continues in the tail.
    is_answer = (found >= 0) & ((found < file_end) | (file_end == end))
    return np.where(is_answer, np.maximum(first, found - 1) if above else found, ASK)


def _mapped(
    view: StoreView, keys: list[QueueKey], queues: dict[int, QueueLookup], needed: set[tuple[int, int]]
) -> bool:
    """Map the files that searches need; return False if there are too many."""
    # Queues share the files of the log.
    of_log = {answer: place for place, answer in needed if not needed_file(answer)[1]}
    wanted = [
        *((place, answer) for answer, place in of_log.items()),
        *(one for one in needed if needed_file(one[1])[1]),
    ]
    with view.follower.lock:
        return all(view.lookups.map_for(answer, keys[place], queues[place]) for place, answer in wanted)


# --- by key ---------------------------------------------------------------------------------------


def key_texts(keys: object) -> list[str]:
    """Return keys as a list.

    Raises:
        ConfigError: They are no list of texts that messages can have.
    """
    if not _is_many(keys):
        raise ConfigError(f"keys {keys!r:.80}: give a list of texts")
    assert isinstance(keys, Iterable)
    texts = list(keys)
    try:
        is_sound = "".join(texts).isascii()
    except TypeError:
        is_sound = False
    if not is_sound:
        for text in texts:
            bytes_of("key", text)
    return texts


@between_swaps
def find_keys(view: StoreView, topic: str, keys: list[str], max_messages: int) -> QueryResults:
    """Return the answers that the kernels find; other questions stay open."""
    name, found = view.key_of(topic, 0).topic, QueryResults(len(keys), max_messages)
    for begin in range(0, len(keys), AT_ONCE):
        part = range(begin, min(begin + AT_ONCE, len(keys)))
        view.catch_up()
        with view.follower.lock:
            if not view.follower.items and topic not in view.lookups.topics:
                view.lookups.add_topic(topic, name, view.known, len(part))
            prepared = view.lookups.topics.get(topic)
        if prepared is not None:
            _find(view, prepared, keys, part, found)
    return found


def _find(view: StoreView, topic: TopicLookup, keys: list[str], part: range, found: QueryResults) -> None:
    """Take in the kernel's answers to a part of the questions.

    It is called again for questions that need a file, or more space for answers.
    """
    left, asked, space = np.asarray(part), keys[part.start : part.stop], _PLACES_EACH * len(part)
    for _ in range(_MOST_ROUNDS):
        buffer = AnswerBuffer(space)
        answers = _key_answers(topic, asked, found.max_messages, buffer)
        found.take(left, answers, topic.index, buffer)
        is_left = answers < ASK
        if not is_left.any():
            break
        left, needed = left[is_left], set(answers[is_left].tolist())
        asked = [keys[number] for number in left.tolist()]
        if BUFFER_FULL in needed:
            space = max(2 * space, found.max_messages)
            needed.remove(BUFFER_FULL)
        with view.follower.lock:
            if not all(view.lookups.map_log(answer, topic.index.log) for answer in needed):
                break


def _key_answers(topic: TopicLookup, keys: list[str], most: int, buffer: AnswerBuffer) -> NDArray[np.int64]:
    """Return the kernel's answer to each question by key."""
    text = "".join(keys)
    if text.isascii():
        names, sizes = text.encode(), map(len, keys)
    else:
        each = [stored_bytes(key) for key in keys]
        names, sizes = b"".join(each), map(len, each)
    data, ends = np.frombuffer(names, dtype=np.uint8), np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(sizes, dtype=np.int64, count=len(keys)), out=ends[1:])
    answers = np.empty(len(keys), dtype=np.int64)
    group = np.empty(KEY_GROUP * CHAIN_WORDS, dtype=np.int64)
    vector = vector_of(
        KEYS_LAYOUT,
        topic_at=topic.address,
        names_at=address_of(data),
        ends_at=address_of(ends),
        count=len(keys),
        max_messages=max(0, min(most, INT64_MAX)),
        answers_at=address_of(answers),
        buffer_at=buffer.address,
        group_at=address_of(group),
    )
    many_kernels().find_keys(address_of(vector))
    return answers


# --- arguments ------------------------------------------------------------------------------------


def answer_rest(found: NDArray[np.int64], single: Callable[[int], int]) -> NDArray[np.int64]:
    """Fill in what the kernels left open: the answer of the single call to question n."""
    for n in np.flatnonzero(found < 0).tolist():
        found[n] = single(n)
    return found


def _is_many(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str | bytes)


def _listed(what: str, given: object) -> Sequence[int]:
    """Return numbers as a sequence; a single one makes one."""
    if not _is_many(given):
        return [given]  # type: ignore[list-item]
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise ConfigError(f"{what}: {given.ndim} dimensions; give one")
    values: Any = given
    if not isinstance(values, Sequence | np.ndarray):
        values = list(values)
    listed: Sequence[int] = values
    return listed


def _are_numbers(given: Sequence[int]) -> bool:
    """Return True if all are whole numbers of at most 64 bits."""
    try:
        array = np.asarray(given)
    except (ValueError, OverflowError):
        return False
    return not len(given) or (array.dtype.kind in "iu" and array.ndim == 1)


def _cut(given: Sequence[int]) -> NDArray[np.int64]:
    """Return times as an array; one that has more than 64 bits is cut."""
    array = np.asarray(given)
    if array.dtype.kind == "i":
        return np.maximum(array.astype(np.int64), -INT64_MAX)
    return np.array([max(-INT64_MAX, min(int(one), INT64_MAX)) for one in given], dtype=np.int64)
