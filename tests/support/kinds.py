"""Messages of every kind, a store that reput writes of them, and questions about any store in the golden answers' form.

store = open_store(path); put_kinds(store, 3000, seed=1)
python -m support.kinds STORE COUNT     puts COUNT messages, says so, and goes on putting until it is killed
questions(store)                        as `ask` of the peer takes them
messages(seed, GOLDEN)                  what the golden stores have, see tests/golden/README.md
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import reput
from reput.config import StoreConfig, parse_properties
from reput.formats.log.record import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Host
from support import golden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONFIG = StoreConfig.from_properties(parse_properties(golden.CONFIG))

QUEUES = 4
DELAYED_TOPIC = "SCHEDULE_TOPIC_XXXX"
BATCHES = "batches"
TAGS = (None, "", "paid", "退款", "created", "A", "paid || sent", "Aa")
SUBSCRIPTIONS = (None, "paid", "paid || 退款", "*", "nothing")
HOSTS = (None, Host(b"\x0a\0\0\1", 9876), Host(bytes(range(16)), 65535))
_TRANSACTIONS = (TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)
INNER_BATCH = 0x80
_KEYS = (*(f"k{number}" for number in range(50)), *(f"键{number}" for number in range(20)))
LARGE_BODY = 20_000
PAUSE_S = 2.2
_FOREVER = (1 << 63) - 1


class Mix(NamedTuple):
    """The messages of a store: what a topic and a system flag are drawn from, and queues where a topic has fewer."""

    topics: tuple[str, ...]
    sys_flags: tuple[int, ...]
    queues: Mapping[str, int]
    batches: int = 0
    """One of this number of messages is an inner batch; 0 for none."""


OURS = Mix(
    # The fourth has more than 127 bytes in fewer characters, the fifth more than 127 of both.
    topics=("orders", "%RETRY%group-a", "订单-topic", "订单" * 25, "t" * 200, DELAYED_TOPIC),
    # Most messages are in no transaction. The last two claim to be compressed.
    sys_flags=(*[0] * 33, *_TRANSACTIONS, 0x1, 0x300),
    queues={},
)
GOLDEN = Mix(
    topics=(
        *["orders", "clicks", "payments"] * 7,
        *("audit", "%RETRY%group-a", "订单-topic", "long-" + "x" * 140, DELAYED_TOPIC),
    ),
    sys_flags=(*[0] * 33, *_TRANSACTIONS),
    queues={"orders": 1},
)
"""A mix that RocketMQ can write: it counts characters of a topic, so OURS has one that would stop it."""
GOLDEN_BATCHES = GOLDEN._replace(batches=3)


def messages(seed: int, mix: Mix = OURS) -> Iterator[tuple[reput.Message, int]]:
    """Messages without end, each with its queue; the same ones for a seed."""
    chance = random.Random(seed)
    number = 0
    while True:
        topic, sys_flag = chance.choice(mix.topics), chance.choice(mix.sys_flags)
        properties = {"region": "eu", "序": str(number)} if chance.random() < 0.5 else {}
        if chance.random() < 0.3:
            properties["amount"] = str(chance.randrange(1000))
        if mix.batches and chance.random() < 1 / mix.batches:
            topic, sys_flag = BATCHES, INNER_BATCH
            properties["INNER_NUM"] = str(chance.randint(1, 9))
        if topic == DELAYED_TOPIC:
            properties["DELAY"] = str(chance.randint(1, 18))
        size = chance.randrange(LARGE_BODY) if chance.random() < 0.05 else chance.randrange(500)
        message = reput.Message(
            topic,
            (chance.randbytes(8) * (size // 8 + 1))[:size],
            tags=chance.choice(TAGS),
            keys=[chance.choice(_KEYS) for _ in range(chance.randrange(4))] or None,
            properties=properties or None,
            flag=chance.randrange(-(1 << 31), 1 << 31),
            sys_flag=sys_flag,
            born_host=chance.choice(HOSTS),
            unique_key=f"U{seed}-{number}" if chance.random() < 0.8 else None,
            reconsume_times=chance.randrange(3),
        )
        yield message, chance.randrange(QUEUES) % mix.queues.get(topic, QUEUES)
        number += 1


ASKED_KEYS = (*(f"k{number}" for number in range(12)), *(f"U1-{number}" for number in range(0, 3000, 61)), "no")
"""Keys that `questions` asks for: keys of many messages, unique keys of seed 1, and one that no message has."""


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


def questions(store: reput.MessageStore, keys: tuple[str, ...] = ASKED_KEYS) -> Iterator[dict[str, Any]]:
    """Return questions about a store: its log, and each queue at its ends, past them and inside, by offset, time, key.

    An IndexFile knows times to the second from its own begin on, and RocketMQ's need not begin where ours do (see
    `without_repeat` in the peer suite). So the bounds of keys' times lie in the pause of `index_half`.
    """
    yield {"log": []}
    first, last, topics = _FOREVER, 0, {}
    for topic, queue_id, begin, end in store.queues():
        yield {"queue": [topic, queue_id]}
        topics[topic] = None
        middle = (begin + end) // 2
        for offset in sorted({0, begin, begin + 1, middle, end - 40, end - 1, end, end + 1, 1 << 40} - {-1}):
            for most in (0, 1, 32, 100):
                yield from ({"get": [topic, queue_id, offset, most, tags]} for tags in SUBSCRIPTIONS)
        times = [store.store_time(topic, queue_id, offset) for offset in (begin, middle, end - 1)]
        for ms in (0, *(time_ms + shift for time_ms in times for shift in (-1, 0, 1)), times[-1] + 100_000):
            yield {"time": [topic, queue_id, ms]}
        first, last = min(first, *times), max(last, *times)
    middle, last = (first + last) // 2, last + int(1000 * PAUSE_S)
    for topic in topics:
        for key in keys:
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
