"""The compiled decoders that are tried, each with the inputs that changes begin with and the words for its answers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, Verdict
from reput.kernels import client_kernels
from reput.kernels.layouts.client_batch import COLUMNS_LAYOUT, column_sizes
from reput.kernels.layouts.columns import Columns, Stop
from reput.kernels.layouts.vectors import address_of
from support import twins
from support.fuzz import corpus
from support.fuzz.compiled.change import MOST_BYTES, Pool
from support.fuzz.compiled.laws import Current, Rooms, try_batches, try_logs
from support.guarded import GuardedRoom, guard_outputs, guarded_array
from support.records import BAD_TOPICS, GOOD_TOPICS, LEVELS, NAMES, TEXTS, LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

_MADE = 300
_TOPIC = np.frombuffer(b"topic", dtype=np.uint8)
_COLUMNS = Columns(MOST_BYTES // MIN_RECORD_SIZE + 2, 2 * MOST_BYTES, 64)


class Target(NamedTuple):
    """A compiled decoder.

    Attributes:
        name: its name.
        what: what it decodes, for people.
        share: of ten inputs, how many are its own.
        pool: makes the inputs that changes begin with.
        ends: makes the array that counts answers.
        loop: makes the compiled loop: it takes a number of inputs and returns how many kept the law.
        compare: compares both twins on an input with this base and check; raises if they differ.
        answers: says in words what was counted.
    """

    name: str
    what: str
    share: int
    pool: Callable[[], Pool]
    ends: Callable[[], Any]
    loop: Callable[[Pool, Rooms, Current, Any], Callable[[int], int]]
    compare: Callable[[bytes, int, int], None]
    answers: Callable[[Any], str]


def rooms(data: Any) -> Rooms:
    """Return the memory of a loop whose input is made in `data`."""
    room = GuardedRoom(MOST_BYTES)
    return Rooms(data, room.array(room.size, np.uint8), np.zeros(2 * MOST_BYTES, dtype=np.uint8))


def _properties(chance: Random) -> bytes:
    pieces = (chance.choice(NAMES) + b"\1" + chance.choice((*TEXTS, *LEVELS, b"")) for _ in range(chance.randrange(7)))
    return b"".join(piece + b"\2" for piece in pieces)


# --- the log -------------------------------------------------------------------------------------


def _records() -> Pool:
    chance, made = Random(1), []
    for number in range(_MADE):
        log = LogBuilder(1 << 14, append_crc=number % 3 == 0)
        log.message(
            chance.choice(GOOD_TOPICS * 20 + BAD_TOPICS),
            queue_id=chance.choice((*range(20), -1)),
            body=chance.randbytes(chance.randrange(60)),
            properties=_properties(chance),
            sys_flag=chance.choice((0, 0, 0, chance.randrange(1 << 11))),
            magic=MAGIC_V2,
        )
        made.append(bytes(log))
    short = LogBuilder(1 << 14)
    short.message("t", body=b"", properties=b"", magic=MAGIC_V1)
    return Pool.of([*made, *([bytes(short)] * 20), *(one[1:] for one in corpus.load("record") if len(one) > 1)])


def _try_logs(pool: Pool, memory: Rooms, now: Current, ends: Any) -> Callable[[int], int]:
    columns = guard_outputs(Columns(MOST_BYTES // MIN_RECORD_SIZE + 2, 2 * MOST_BYTES, 64))
    columns.clear()
    arrays, empty, rules = columns.arrays, columns.state.copy(), (True, twins.DELAYS_MS)
    return lambda inputs: int(try_logs(inputs, pool, memory, now, rules, arrays, empty, ends))


def _compare_logs(data: bytes, base: int, check: int) -> None:
    call = twins.Call(base=base, crc_check=check)
    found = []
    for kind in twins.TWINS:
        _COLUMNS.clear()
        decoded = twins.decode(kind, data, call, _COLUMNS)
        found.append((decoded.values, decoded.stops, twins.boundary(kind, data, call)))
    assert found[0] == found[1], "the twins differ"


def _log_answers(ends: Any) -> str:
    by_verdict = [f"{verdict.name} {int(ends[:-1, verdict].sum()):,}" for verdict in Verdict]
    return f"{int(ends[-1, 0]):,} records, {int(ends[-1, 1]):,} items; ended at {', '.join(by_verdict)}"


# --- batches of clients --------------------------------------------------------------------------


def _messages() -> Pool:
    chance = Random(2)
    return Pool.of(
        [
            encode_messages([InnerMessage(0, chance.randbytes(chance.randrange(40)), _properties(chance))])
            for _ in range(_MADE)
        ]
        + corpus.load("batch")
    )


def _batch_columns(size: int) -> list[Any]:
    return [guarded_array(size, np.uint8) for size in column_sizes(size, len(_TOPIC)).values()]


def _try_batches(pool: Pool, memory: Rooms, now: Current, ends: Any) -> Callable[[int], int]:
    columns = dict(zip(COLUMNS_LAYOUT.offsets, _batch_columns(MOST_BYTES), strict=True))
    addresses = np.array([address_of(column) for column in columns.values()], dtype=np.int64)
    looked_at = (
        addresses,
        columns["body_offsets_at"].view(np.int64),
        columns["property_offsets_at"].view(np.int64),
        columns["flags_at"].view(np.int32),
        columns["bodies_at"],
        columns["properties_at"],
    )
    # The loop has addresses of these arrays only.
    held = [*columns.values()]

    def run(inputs: int) -> int:
        assert held
        return int(try_batches(inputs, pool, memory, now, looked_at, _TOPIC, ends))

    return run


def _compare_batches(data: bytes, base: int, check: int) -> None:
    answers = []
    for kind in twins.TWINS:
        columns = [np.zeros(max(size, 1), dtype=np.uint8) for size in column_sizes(len(data), len(_TOPIC)).values()]
        vector = np.array([address_of(column) for column in columns], dtype=np.int64)
        rows = client_kernels(kind).split_batch(address_of(vector), data, _TOPIC.tobytes(), 3, 4)
        answers.append((rows, [column.tobytes() for column in columns] if rows > 0 else []))
    assert answers[0] == answers[1], "the twins differ"


def _batch_answers(ends: Any) -> str:
    broken, unusual, split, messages = (int(one) for one in ends)
    return f"{messages:,} messages; {split:,} batches split, {unusual:,} with unusual properties, {broken:,} broken"


TARGETS = (
    Target(
        "log",
        "records of the log, and the search for the next one",
        7,
        _records,
        lambda: np.zeros((max(Stop) + 2, len(Verdict)), dtype=np.int64),
        _try_logs,
        _compare_logs,
        _log_answers,
    ),
    Target(
        "batch",
        "batches of clients",
        3,
        _messages,
        lambda: np.zeros(4, dtype=np.int64),
        _try_batches,
        _compare_batches,
        _batch_answers,
    ),
)
