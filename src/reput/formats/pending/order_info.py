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

from collections.abc import Iterator
from typing import Any

from reput.errors import DamagedStoreError
from reput.formats.config.consumer_offset import split_key
from reput.formats.java.fastjson import parse_fastjson
from reput.formats.java.java_numbers import parse_whole
from reput.formats.pending.pop_database import PopRecord

FILE_NAME = "consumerOrderInfo.json"
SIZE_LIMIT = 256 << 20
"""The maximum bytes of a file to be read."""
_BITS = 64


def decode_order_info(data: bytes, where: str) -> Iterator[PopRecord]:
    """Yield the messages without an ack.

    Raises:
        DamagedStoreError: the text is no such JSON.
    """
    value = parse_fastjson(data)
    table = (value.get("table") or {}) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise DamagedStoreError(f"{where}: damaged: {data[:40]!r} is not JSON with a table of pops")
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
            yield from _not_acked(*names, queue_id, info)


def _is_info(info: dict[str, Any]) -> bool:
    numbers = [info.get(name) or 0 for name in ("popTime", "i", "cm")]
    offsets, times, counts = info.get("o") or [], info.get("ot") or {}, info.get("oc") or {}
    if not isinstance(offsets, list) or not isinstance(times, dict) or not isinstance(counts, dict):
        return False
    return all(type(one) is int for one in (*numbers, *offsets, *times.values(), *counts.values()))


def _not_acked(topic: str, group: str, queue_id: int, info: dict[str, Any]) -> Iterator[PopRecord]:
    offsets, times, counts = info.get("o") or [], info.get("ot") or {}, info.get("oc") or {}
    pop_time, acked = info.get("popTime") or 0, info.get("cm") or 0
    for number, distance in enumerate(offsets):
        # Java shifts by the lowest six bits.
        if acked >> (number % _BITS) & 1:
            continue
        offset = distance if number == 0 else offsets[0] + distance
        visible_time = times.get(str(offset), pop_time + (info.get("i") or 0))
        yield PopRecord(group, topic, queue_id, offset, pop_time, visible_time - pop_time, counts.get(str(offset), 0))
