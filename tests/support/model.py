"""The model that the simulation compares a store with: the messages that it must hold, as a few lists of Python.

model = Model(rng)
message, queue_id = model.message()
model.take(message, queue_id, place, store_time)        it was stored there, then
model.queue("a", 1, below=confirmed)                    what a reader may see of the queue
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

import reput
from reput.formats.log.record import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Host

if TYPE_CHECKING:
    import random

TOPICS = ("a", "b", "订单", "long-" * 30)
QUEUES = 2
KEYS = ("k1", "k2", "Aa", "BB", "键")
TAGS = (None, "paid", "sent", "Aa", "BB")
GROUPS = ("g1", "g2", "g3")
_KINDS = (0, 0, 0, 0, 0, 0, 0, 0, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


class Held(NamedTuple):
    """A message as the store must give it back, and where and when it was stored."""

    message: reput.Message
    queue_id: int
    place: int
    time: int

    @property
    def keys(self) -> list[str]:
        """Return the keys by which it can be found."""
        keys = self.message.keys
        found = [keys] if isinstance(keys, str) else list(keys or ())
        return found + ([self.message.unique_key] if self.message.unique_key else [])


class Model:
    """The content that the store must have: every message in log order, by queue and by key; committed offsets.

    `first` is each queue's first offset that is still there, `last_time` the store time of the last message.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log: list[Held] = []
        self.queues: dict[tuple[str, int], list[Held]] = defaultdict(list)
        self.first: dict[tuple[str, int], int] = defaultdict(int)
        self.log_min_offset = 0
        self.last_time = 0
        self.offsets: dict[tuple[str, str], dict[int, int]] = {}
        self.resets: dict[tuple[str, str, int], int] = {}
        self.number = 0

    # --- messages --------------------------------------------------------------------------------

    def message(self, *, in_batch: bool = False) -> tuple[reput.Message, int]:
        """A random message with a body of its own, and a queue for it."""
        rng = self.rng
        self.number += 1
        keys = rng.sample(KEYS, rng.randrange(3))
        alone = not in_batch and rng.random() < 0.2
        message = reput.Message(
            rng.choice(TOPICS),
            b"%d " % self.number + bytes(rng.choice((0, 10, 700))),
            tags=rng.choice(TAGS),
            keys=(keys[0] if len(keys) == 1 and rng.random() < 0.5 else keys) or None,
            properties={"region": rng.choice(("eu", "us")), "n": str(self.number)} if rng.random() < 0.3 else None,
            flag=rng.choice((0, 7, -1)),
            unique_key=f"u{self.number}" if rng.random() < 0.3 else None,
            born_timestamp=rng.choice((None, 1, 1_700_000_000_000)),
            born_host=rng.choice((None, Host(bytes(range(16)), 9))) if alone else None,
            sys_flag=rng.choice(_KINDS) if alone else 0,
        )
        return message, rng.randrange(QUEUES)

    def batch(self, most: int, *, in_batch: bool = True) -> list[tuple[reput.Message, int]]:
        """Some messages, each with its queue; often such as make a plain batch of columns."""
        batch = [self.message(in_batch=in_batch) for _ in range(self.rng.randrange(1, most))]
        if not in_batch or self.rng.random() < 0.5:
            return batch
        born = self.rng.choice((None, 1))
        keys = [message.keys if isinstance(message.keys, str) else (message.keys or [None])[0] for message, _ in batch]
        return [
            (replace(message, properties=None, keys=key, born_timestamp=born), queue_id)
            for (message, queue_id), key in zip(batch, keys, strict=True)
        ]

    def next_number(self, message: reput.Message, queue_id: int) -> int:
        """The queue offset that the message must get."""
        return len(self.queues[message.topic, queue_id]) if _is_numbered(message) else 0

    def take(self, message: reput.Message, queue_id: int, place: int, time: int) -> None:
        """The message was stored at this log offset and time."""
        held = Held(message, queue_id, place, time)
        assert not self.log or self.log[-1].place < place
        self.log.append(held)
        self.last_time = time
        if _is_numbered(message):
            self.queues[message.topic, queue_id].append(held)

    def forget(self, log_min_offset: int) -> None:
        """The log begins there now; the queues' numbers go on."""
        self.log_min_offset = log_min_offset
        self.log = [held for held in self.log if held.place >= log_min_offset]
        for queue, held in self.queues.items():
            self.first[queue] = sum(one.place < log_min_offset for one in held)

    # --- what is there ---------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int, below: int) -> list[Held]:
        """The messages of a queue from number 0 on, expired ones among them, up to a log offset."""
        return [held for held in self.queues[topic, queue_id] if held.place < below]

    def with_key(self, topic: str, key: str, below: int) -> list[Held]:
        """The messages of a key in log order, up to a log offset: prepared ones too, rolled back ones not."""
        return [
            held
            for held in self.log
            if held.place < below
            and held.message.topic == topic
            and key in held.keys
            and held.message.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK
        ]

    # --- consumer progress -----------------------------------------------------------------------

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of a group: that of a reset, else the committed one, else -1."""
        reset = self.resets.get((group, topic, queue_id))
        return self.offsets.get((group, topic), {}).get(queue_id, -1) if reset is None else reset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """A commit counts unless a reset waits."""
        if (group, topic, queue_id) in self.resets:
            return False
        self.offsets.setdefault((group, topic), {})[queue_id] = offset
        return True

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Send a group to an offset."""
        self.resets[group, topic, queue_id] = offset
        self.offsets.setdefault((group, topic), {})[queue_id] = offset

    def clone(self, from_group: str, to_group: str, topic: str) -> int:
        """A group's offsets become another's."""
        if (from_group, topic) not in self.offsets:
            return 0
        self.offsets[to_group, topic] = dict(self.offsets[from_group, topic])
        return len(self.offsets[to_group, topic])

    def clean(self, group: str | None, topic: str | None) -> int:
        """Forget the progress of a group, a topic, or one group in one topic."""

        def unwanted(one: str, other: str) -> bool:
            return group in (None, one) and topic in (None, other)

        gone = [names for names in self.offsets if unwanted(*names)]
        for names in gone:
            del self.offsets[names]
        self.resets = {place: offset for place, offset in self.resets.items() if not unwanted(*place[:2])}
        return len(gone)


def as_columns(batch: list[tuple[reput.Message, int]], rng: random.Random) -> pa.Table:
    """The same messages as Arrow columns, of any of the types that may be given."""
    messages = [message for message, _ in batch]
    topics = pa.array([message.topic for message in messages], pa.string())
    keys = [[message.keys] if isinstance(message.keys, str) else message.keys for message in messages]
    # Keys as texts can be had where no message has two.
    texts = [one[0] if one else None for one in keys] if all(len(one or ()) < 2 for one in keys) else None
    as_texts = texts is not None and rng.random() < 0.9
    columns = {
        "topic": topics.dictionary_encode() if rng.random() < 0.3 else topics,
        "body": pa.array([message.body for message in messages], rng.choice((pa.binary(), pa.large_binary()))),
        "queue_id": pa.array([queue_id for _, queue_id in batch], rng.choice((pa.int32(), pa.int64()))),
        "tags": pa.array([message.tags for message in messages], pa.string()),
        "keys": pa.array(texts, pa.string())
        if as_texts
        else pa.array([None if one is None else list(one) for one in keys], pa.list_(pa.string())),
        "properties": pa.array(
            [None if message.properties is None else list(message.properties.items()) for message in messages],
            pa.map_(pa.string(), pa.string()),
        ),
        "unique_key": pa.array([message.unique_key for message in messages], pa.string()),
        "flag": pa.array([message.flag for message in messages], pa.int32()),
        "born_timestamp": pa.array([message.born_timestamp for message in messages], pa.int64()),
    }
    # A column in which no message has anything may be left out as well: so most batches are plain.
    names = [name for name in columns if columns[name].null_count < len(batch) or rng.random() < 0.1]
    rng.shuffle(names)
    table = pa.table({name: columns[name] for name in names})
    # Chunks, and slices of a longer table, are what Spark and files give.
    if rng.random() < 0.3:
        table = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    if rng.random() < 0.3:
        table = pa.concat_tables([table.slice(0, 1), table]).combine_chunks().slice(1)
    return table


def _is_numbered(message: reput.Message) -> bool:
    return message.sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
