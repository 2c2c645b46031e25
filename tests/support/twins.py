"""The two twins of the kernels, called and compared: every law about kernels is held by both.

@pytest.mark.parametrize("twin", TWINS)
def test_...(twin):
decoded = decode(twin, data)            the whole of `data`, grown where a column is full
assert decoded == decode("reference", data)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.formats.log.record import CHECK_BODY, Verdict
from reput.kernels import Kernels, kernels
from reput.kernels.layouts.columns import Columns, DecodeRules, StateAt, Stop
from reput.kernels.layouts.log import LogBytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

TWINS = ("reference", "compiled")

DELAYS_MS = np.array((-1, *(n * 1000 for n in (1, 5, 10, 30, *(60 * m for m in range(1, 11)))), 1_200_000))
"""Delays by level, level n at place n: 1s 5s 10s 30s 1m ... 10m 20m; place 0 is no level."""
GOLDEN_DELAYS_MS = np.array((*DELAYS_MS, 1_800_000, 3_600_000, 7_200_000))
"""RocketMQ's own messageDelayLevel: 18 levels up to two hours."""

FULL = (Stop.RECORDS_FULL, Stop.ITEMS_FULL, Stop.QUEUES_FULL)

RECORD_COLUMNS = ("position", "size", "queue", "queue_offset", "tags_code", "store_timestamp", "flags")
QUEUE_COLUMNS = ("queue_id", "topic_at", "topic_size", "topic_hash", "is_schedule")


def twin(kind: str) -> Kernels:
    """The kernels of one kind."""
    return kernels(kind)


def as_buffer(data: bytes) -> NDArray[np.uint8]:
    """Bytes as a kernel takes them: read-only, as a mapped file is."""
    return np.frombuffer(data, dtype=np.uint8)


@dataclass(slots=True)
class Call:
    """The arguments of a decode: `begin`, `end` and `limit` are positions, an `end` or `limit` of -1 is all."""

    base: int = 0
    begin: int = 0
    end: int = -1
    limit: int = -1
    crc_check: int = CHECK_BODY
    tag_items: bool = True
    delays_ms: NDArray[np.int64] = field(default_factory=lambda: DELAYS_MS)


@dataclass(slots=True)
class Decoded:
    """Everything that a decode says, as plain values: equal where two decodes say the same."""

    values: dict[str, Any]
    stops: list[Stop]
    columns: Columns = field(compare=False)

    @property
    def stop(self) -> Stop:
        """Why the last call came back."""
        return self.stops[-1]

    @property
    def position(self) -> int:
        """Return the place where the last call stopped."""
        return int(self.columns.state[StateAt.position])

    @property
    def verdict(self) -> Verdict:
        """Return what is found there."""
        return Verdict(int(self.columns.state[StateAt.verdict]))

    def state(self, place: int) -> int:
        """A counter of the state vector."""
        return int(self.columns.state[place])


def log_of(data: bytes, call: Call) -> LogBytes:
    """The log that a call reads."""
    return LogBytes(as_buffer(data), call.base, len(data) if call.limit < 0 else call.limit)


def decode(kind: str, data: bytes, call: Call | None = None, columns: Columns | None = None) -> Decoded:
    """Decode a range with the twin `kind`; columns that are full are grown, and the call goes on."""
    call, columns = call or Call(), columns or Columns(64, 64, 8)
    stops = [decode_once(kind, data, call, columns)]
    begin = call.begin
    while stops[-1] in FULL:
        columns.grow(stops[-1])
        begin = int(columns.state[StateAt.position])
        stops.append(decode_once(kind, data, call, columns, begin))
    return Decoded(plain(columns), stops, columns)


def decode_once(kind: str, data: bytes, call: Call, columns: Columns, begin: int | None = None) -> Stop:
    """One call of the twin `kind`, from `begin` instead of the call's own where given."""
    return Stop(
        kernels(kind).decode_range(
            log_of(data, call),
            call.begin if begin is None else begin,
            len(data) if call.end < 0 else call.end,
            DecodeRules(call.crc_check, call.tag_items, call.delays_ms),
            columns.arrays,
        )
    )


def boundary(kind: str, data: bytes, call: Call) -> int:
    """`find_boundary` of the twin `kind`."""
    end = len(data) if call.end < 0 else call.end
    return int(kernels(kind).find_boundary(log_of(data, call), call.begin, end, call.crc_check))


def plain(columns: Columns) -> dict[str, Any]:
    """Return the content of the columns as plain values, up to their counts."""
    records, queues = columns.records, columns.queues
    values: dict[str, Any] = {name: getattr(columns, name)[:records].tolist() for name in RECORD_COLUMNS}
    values |= {name: getattr(columns, name)[:queues].tolist() for name in QUEUE_COLUMNS}
    values["first_item"] = columns.first_item[: records + 1].tolist()
    values["item_hash"] = columns.item_hash[: columns.items].tolist()
    values["names"] = columns.names[: int(columns.state[StateAt.names])].tobytes()
    values["state"] = dict(zip(StateAt._fields, columns.state.tolist(), strict=True))
    return values
