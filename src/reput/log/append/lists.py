"""Lists of ordinary messages on their way into the log: one kernel call checks, places and numbers all of them.

The kernel reads the values from the slots of each `Message`, whose places in the object are found by a look at one.
"""

from __future__ import annotations

import ctypes
from array import array
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from reput.kernels import place_kernels
from reput.kernels.layouts.place import MESSAGE_FIELDS, MESSAGE_LAYOUT, NO_ROOM, NOT_PLACED
from reput.kernels.layouts.vectors import address_of, words_of
from reput.log.encode.message import Message, PutManyResult, PutStatus

if TYPE_CHECKING:
    from reput.log.append.log_end import LogEnd
    from reput.log.encode.topics import TopicTable


def _fields_of_messages() -> array[int]:
    """Return the vector of the class `Message` for the kernel."""
    marks = {field.name: object() for field in fields(Message)}
    assert tuple(marks) == MESSAGE_FIELDS, "a field of Message that the kernel of lists does not know"
    one = Message(**marks)  # type: ignore[arg-type]
    width = ctypes.sizeof(ctypes.c_void_p)
    inside = (ctypes.c_void_p * (Message.__basicsize__ // width)).from_address(id(one))
    slots = [value or 0 for value in inside]
    places = {name: width * slots.index(id(mark)) for name, mark in marks.items()}
    return array("q", words_of(MESSAGE_LAYOUT, class_at=id(Message), **places))


_FIELDS = _fields_of_messages()
FIELDS_AT: int = _FIELDS.buffer_info()[0]
"""The address of that vector, by which kernels read the slots of messages."""


class MessageLists:
    """Places lists at the end of one log."""

    def __init__(self, end: LogEnd, topics: TopicTable) -> None:
        self._end, self._topic_at = end, topics.at_by_name
        self._run = place_kernels().place_messages

    def place(self, messages: object, queue_id: object, now_ns: int) -> PutManyResult | int:
        """Store messages, all or none.

        Returns: the answer; else a number, and nothing is stored: NOT_PLACED if the messages must be looked at one by
        one, otherwise the bytes of room in memory that they need: there is less, or a thread holds the log's lock.
        """
        if type(messages) is not list or not messages:
            return NOT_PLACED
        results = np.empty(3 * len(messages) + 1, dtype=np.int64)
        done = self._run(self._end.at, FIELDS_AT, self._topic_at, messages, queue_id, now_ns, address_of(results))
        if done < 0:
            return NOT_PLACED if done == NOT_PLACED else NO_ROOM - done
        offsets, sizes, numbers = results[:-1].reshape(3, -1)
        return PutManyResult(PutStatus.PUT_OK, offsets, sizes, numbers, int(results[-1]))
