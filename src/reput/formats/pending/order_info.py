"""config/consumerOrderInfo.json: the messages that a broker has given to orderly pop consumers, queue by queue.

    table           "topic@group" -> queue id -> what the group's last pop of the queue got:
    popTime         when that was (ms)
    i               for how long its messages are invisible (ms)
    o               their queue offsets: the first, then the distance of each other one from it
    cm              a bit for each of them: 1 it is acked
    ot              queue offset -> when the message becomes visible again (ms), if a consumer has changed that
    oc              queue offset -> how often the message was given before
    l, a            when it was last asked for (ms), and the request that got it

The committed offset of the group stays at the first message without an ack. fastjson writes keys that are numbers
without quotes.

Source: `QueueLevelConsumerManager`, its `OrderInfo`; `PopMessageProcessor.popMsgFromQueue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reput.errors import DamagedStoreError
from reput.formats.config.consumer_offset import key_of, split_key
from reput.formats.java.fastjson import parse_fastjson, write_fastjson_file
from reput.formats.java.java_numbers import parse_whole
from reput.formats.pending.pop_database import PopRecord

FILE_NAME = "consumerOrderInfo.json"
SIZE_LIMIT = 256 << 20
"""The maximum bytes of a file to be read."""
_BITS = 64


@dataclass(slots=True)
class OrderInfo:
    """The messages that the last pop of a queue has given to a group in order; times in ms.

    Attributes:
        pop_time: When that was.
        invisible_time: For how long its messages are invisible.
        offsets: Their queue offsets.
        acked_bits: A bit for each of them: 1 it is acked.
        next_visible: When a message becomes visible again, by queue offset, if a consumer has changed that.
        counts: How often a message was given before, by queue offset; not those that were not.
        last_used: When it was given.
        attempt_id: The request that got it.
    """

    pop_time: int
    invisible_time: int
    offsets: list[int]
    acked_bits: int = 0
    next_visible: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    last_used: int = 0
    attempt_id: str | None = None

    def not_acked(self) -> list[int]:
        """Return the queue offsets of the messages without an ack."""
        # Java shifts by the lowest six bits.
        return [offset for number, offset in enumerate(self.offsets) if not self.acked_bits >> (number % _BITS) & 1]

    @property
    def next_offset(self) -> int:
        """The queue offset of the first message without an ack; that after the last message if all have one."""
        left = self.not_acked()
        return left[0] if left else self.offsets[-1] + 1

    def visible_time(self, offset: int) -> int:
        """Return when a message becomes visible again."""
        return self.next_visible.get(offset, self.pop_time + self.invisible_time)


OrderTable = dict[tuple[str, str], dict[int, OrderInfo]]
"""By topic and group, then by queue."""


def decode_order_info(data: bytes, where: str) -> Iterator[PopRecord]:
    """Yield the messages without an ack.

    Raises:
        DamagedStoreError: the text is no such JSON.
    """
    for (topic, group), queues in decode_order_table(data, where).items():
        for queue_id, info in queues.items():
            for offset in info.not_acked():
                invisible = info.visible_time(offset) - info.pop_time
                count = info.counts.get(offset, 0)
                yield PopRecord(group, topic, queue_id, offset, info.pop_time, invisible, count)


def decode_order_table(data: bytes, where: str) -> OrderTable:
    """Return what the file has.

    Raises:
        DamagedStoreError: the text is no such JSON.
    """
    value = parse_fastjson(data)
    table = (value.get("table") or {}) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise DamagedStoreError(f"{where}: damaged: {data[:40]!r} is not JSON with a table of pops")
    decoded: OrderTable = {}
    for key, queues in table.items():
        names = split_key(key)
        if names is None or not isinstance(queues, dict):
            continue
        for queue, info in queues.items():
            queue_id = parse_whole(queue, 32)
            if queue_id is None or not isinstance(info, dict) or not _is_info(info):
                raise DamagedStoreError(
                    f"{where}: damaged: {key[:80]}, queue {queue[:20]}: {str(info)[:80]!r} is not a pop"
                )
            decoded.setdefault(names, {})[queue_id] = _info(info)
    return decoded


def encode_order_table(table: Mapping[tuple[str, str], Mapping[int, OrderInfo]]) -> bytes:
    """Return the bytes of the file."""
    values = {
        key_of(*names): {str(queue_id): _values(info) for queue_id, info in queues.items()}
        for names, queues in table.items()
    }
    return write_fastjson_file({"table": values})


def _values(info: OrderInfo) -> dict[str, Any]:
    first = info.offsets[0] if info.offsets else 0
    values: dict[str, Any] = {"cm": info.acked_bits, "i": info.invisible_time, "l": info.last_used}
    values["o"] = [offset - first if number else offset for number, offset in enumerate(info.offsets)]
    values["oc"] = {str(offset): count for offset, count in info.counts.items()}
    if info.next_visible:
        values["ot"] = {str(offset): time for offset, time in info.next_visible.items()}
    values["popTime"] = info.pop_time
    if info.attempt_id is not None:
        values["a"] = info.attempt_id
    return values


def _is_info(info: dict[str, Any]) -> bool:
    numbers = [info.get(name) or 0 for name in ("popTime", "i", "cm", "l")]
    offsets, times, counts = info.get("o") or [], info.get("ot") or {}, info.get("oc") or {}
    if not isinstance(offsets, list) or not isinstance(times, dict) or not isinstance(counts, dict):
        return False
    return all(type(one) is int for one in (*numbers, *offsets, *times.values(), *counts.values()))


def _info(info: dict[str, Any]) -> OrderInfo:
    distances, attempt_id = info.get("o") or [], info.get("a")
    return OrderInfo(
        info.get("popTime") or 0,
        info.get("i") or 0,
        [distances[0] + distance if number else distance for number, distance in enumerate(distances)],
        info.get("cm") or 0,
        _by_offset(info.get("ot")),
        _by_offset(info.get("oc")),
        info.get("l") or 0,
        attempt_id if isinstance(attempt_id, str) else None,
    )


def _by_offset(values: dict[str, int] | None) -> dict[int, int]:
    numbers = {parse_whole(text, 64): value for text, value in (values or {}).items()}
    return {offset: value for offset, value in numbers.items() if offset is not None}
