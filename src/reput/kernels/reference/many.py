"""Many look-ups, one after the other: the specification of `reput.kernels.compiled.many`.

`reput.kernels.layouts.lookup` describes the records. Both kernels return the number of questions that are answered.
"""

from __future__ import annotations

import ctypes

from reput.kernels.layouts.lookup import ASK, KeysAt, SeeksAt
from reput.kernels.reference.lookup import find_key, seek_time


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def seek_times(asked: int) -> int:
    """Write the answer of `seek_time` to each question of a vector (`SEEKS_LAYOUT`)."""
    fields = _words(asked, len(SeeksAt))
    count, above = fields[SeeksAt.count], fields[SeeksAt.above]
    queues, timestamps = _words(fields[SeeksAt.queues_at], count), _words(fields[SeeksAt.timestamps_at], count)
    answers = [
        seek_time(queue, timestamp, above) if queue else ASK
        for queue, timestamp in zip(queues, timestamps, strict=True)
    ]
    return _write(answers, fields[SeeksAt.answers_at])


def find_keys(asked: int) -> int:
    """Write the answer of `find_key` to each question of a vector (`KEYS_LAYOUT`)."""
    fields = _words(asked, len(KeysAt))
    ends = _words(fields[KeysAt.ends_at], fields[KeysAt.count] + 1)
    names = (ctypes.string_at(fields[KeysAt.names_at] + ends[n], ends[n + 1] - ends[n]) for n in range(len(ends) - 1))
    topic, most, buffer = fields[KeysAt.topic_at], fields[KeysAt.max_messages], fields[KeysAt.buffer_at]
    return _write([find_key(topic, name, most, buffer) for name in names], fields[KeysAt.answers_at])


def _write(answers: list[int], address: int) -> int:
    words = (ctypes.c_int64 * len(answers))(*answers)
    ctypes.memmove(address, words, ctypes.sizeof(words))
    return sum(answer >= 0 for answer in answers)
