"""A store that reput writes itself, with messages of every kind, and questions about it in the golden answers' form.

store = open_store(path); put_kinds(store, 3000, seed=1)
python -m support.kinds STORE COUNT     puts so many, says so, and goes on putting until it is killed
questions(store)                        as `ask` of the peer takes them
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reput
from reput.config import StoreConfig, parse_properties
from reput.formats.record import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Host
from support import golden

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = StoreConfig.from_properties(parse_properties(golden.CONFIG))

TOPICS = ("orders", "%RETRY%group-a", "订单-topic", "订单" * 25, "t" * 200, "SCHEDULE_TOPIC_XXXX")
"""The fourth is of more than 127 bytes in fewer characters, the fifth of more than 127 of both."""
QUEUES = 4
TAGS = (None, "", "paid", "退款", "paid || sent", "Aa")
SUBSCRIPTIONS = (None, "paid", "paid || 退款", "*", "nothing")
HOSTS = (None, Host(b"\x0a\0\0\1", 9876), Host(bytes(range(16)), 65535))
# Most messages are in no transaction.
SYS_FLAGS = (*[0] * 33, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, 0x1, 0x300)
LARGE_BODY = 20_000
PAUSE_S = 2.2
_FOREVER = (1 << 63) - 1


def messages(seed: int) -> Iterator[tuple[reput.Message, int]]:
    """Messages without end, each with its queue; the same ones for a seed."""
    chance = random.Random(seed)
    number = 0
    while True:
        topic = chance.choice(TOPICS)
        properties = {"region": "eu", "序": str(number)} if chance.random() < 0.5 else {}
        if topic == TOPICS[-1]:
            properties["DELAY"] = str(chance.randint(1, 18))
        size = chance.randrange(LARGE_BODY) if chance.random() < 0.05 else chance.randrange(500)
        message = reput.Message(
            topic,
            chance.randbytes(size),
            tags=chance.choice(TAGS),
            keys=[f"k{chance.randrange(40)}" for _ in range(chance.randrange(4))] or None,
            properties=properties or None,
            flag=chance.randrange(-(1 << 31), 1 << 31),
            sys_flag=chance.choice(SYS_FLAGS),
            born_host=chance.choice(HOSTS),
            unique_key=f"U{seed}-{number}" if chance.random() < 0.8 else None,
        )
        yield message, chance.randrange(QUEUES)
        number += 1


def open_store(path: Path, config: StoreConfig = CONFIG) -> reput.MessageStore:
    """The store with files as small as the golden ones have."""
    return reput.MessageStore.open(path, config, create=True)


def put_kinds(store: reput.MessageStore, count: int, seed: int) -> None:
    """Put the first messages of a seed."""
    for _, (message, queue_id) in zip(range(count), messages(seed), strict=False):
        result = store.put_message(message, queue_id)
        assert result.status is reput.PutStatus.PUT_OK, result.reason


def index_half(store: reput.MessageStore) -> None:
    """Bring the indexes up to here; what follows is stored seconds later, see `questions`."""
    store.reput(spark=False)
    time.sleep(PAUSE_S)


def questions(store: reput.MessageStore) -> Iterator[dict[str, Any]]:
    """What to ask of a store: its log, and each queue at its ends, past them and inside, by offset, time and key.

    An IndexFile knows times to the second from its own begin on, and RocketMQ's need not begin where ours do (see
    `without_repeat` in the peer suite). So the bounds of keys' times stand in the pause of `index_half`.
    """
    yield {"log": []}
    first, last = _FOREVER, 0
    for topic, queue_id, begin, end in store.queues():
        yield {"queue": [topic, queue_id]}
        middle = (begin + end) // 2
        for offset in sorted({0, begin, begin + 1, middle, end - 40, end - 1, end, end + 1, 1 << 40} - {-1}):
            for most in (0, 1, 32, 100):
                yield from ({"get": [topic, queue_id, offset, most, tags]} for tags in SUBSCRIPTIONS)
        times = [store.store_time(topic, queue_id, offset) for offset in (begin, middle, end - 1)]
        for ms in (0, *(time_ms + shift for time_ms in times for shift in (-1, 0, 1)), times[-1] + 100_000):
            yield {"time": [topic, queue_id, ms]}
        first, last = min(first, *times), max(last, *times)
    middle, last = (first + last) // 2, last + int(1000 * PAUSE_S)
    for topic in TOPICS:
        for key in (*(f"k{number}" for number in range(12)), *(f"U1-{number}" for number in range(0, 3000, 61)), "no"):
            for begin, end in ((0, _FOREVER), (first, middle), (middle, last)):
                yield from ({"key": [topic, key, most, begin, end]} for most in (1, 10, 64))


def main() -> None:
    """Put messages until killed; with `index`, the first half of COUNT is in durable indexes."""
    path, count = Path(sys.argv[1]), int(sys.argv[2])
    store = open_store(path)
    for number, (message, queue_id) in enumerate(messages(seed=1)):
        result = store.put_message(message, queue_id)
        assert result.status is reput.PutStatus.PUT_OK, result.reason
        if number == count // 2 and "index" in sys.argv[3:]:
            index_half(store)
        if number == count:
            sys.stdout.write("stored\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
