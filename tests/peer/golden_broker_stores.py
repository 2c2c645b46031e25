"""Makes golden stores of the second set: a whole broker 5.5.0 writes them, and answers questions about all.

make golden-stores SET=5.5 OUT=folder SEED=7 MESSAGES=1500
PYTHONPATH=tests python -m peer.golden_broker_stores FOLDER --seed 7 --messages 1500 [--only json pending ...]

tests/golden-5.5/README.md says what is in them. The seed decides the messages, and how they are spread: the share of
each topic, queue, light queue, compression and transaction. The broker stores them at times of its own.
"""

from __future__ import annotations

import base64
import gzip
import random
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from peer import peer
from peer.golden_stores import MakingError, as_lines, make_as_asked, pack
from peer.turns import Turn
from reput.formats.log.record import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from support import golden
from support.switches import SWITCHES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KINDS = {"json": "file", "config-v1": "rocksdb", "config-v1-killed": "rocksdb", "pending": "file"}
"""The kind of each store that is not named as its kind is (`support.switches`)."""


def switches_of(name: str) -> dict[str, str]:
    """Return the switches of a store."""
    return dict(line.split("=", 1) for line in SWITCHES[_KINDS.get(name, name)])


_NAMES = ("brokerName=golden", "brokerClusterName=golden")
TOPICS = ("orders", "payments", "订单-topic")
QUIET, LITE, LONELY = "quiet", "sessions", "lonely"
"""A topic without messages, one of type LITE without messages, and one that has a single message with some seeds."""
QUEUES = 4
GROUPS = ("billing", "shipping", "审计")
TAGS = ("paid", "退款")
COMPRESSIONS = ("LZ4", "ZSTD", "ZLIB")
PULL, ANSWERS_MOST = 32, 64
UNDER_WAY = 50
"""The most messages that are given to the broker before it says where the first of them is."""
MESSAGES_MIN = 400
"""Golden tests need compressed bodies of every type."""
_UNIQUE_KEY = "7F00000100002A9F{:016X}"
_TEN_MINUTES_MS, _DAY_MS = 600_000, 86_400_000
_CHECKED_AFTER_S = 6.5
"""The broker checks half messages that are older than 6 s, and at its end, too; then it puts each once more."""
_PATIENCE_S = 60


class Shape(NamedTuple):
    """The spread of a store's messages."""

    topics: tuple[float, ...]
    queues: dict[str, tuple[float, ...]]
    """The weights of a topic's queues, 0 for one that stays empty."""
    lonely: bool
    compressed: float
    plain_sizes: tuple[int, int]
    """The least and the greatest size of a body that is compressed."""
    transactions: float
    timers: float
    halves: float
    keys: int
    light_queues: int
    committed: float
    """The share of queues of which a group has committed an offset."""

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        """Draw one. Every other seed leaves a queue empty, and every other has a topic with a single message."""
        queues = {topic: [chance.uniform(0.2, 1) for _ in range(QUEUES)] for topic in TOPICS}
        if chance.random() < 0.5:
            queues[chance.choice(TOPICS)][chance.randrange(QUEUES)] = 0
        most = chance.choice((6_000, 10_000, 20_000, 60_000))
        return cls(
            topics=tuple(chance.uniform(0.15, 1) for _ in TOPICS),
            queues={topic: tuple(weights) for topic, weights in queues.items()},
            lonely=chance.random() < 0.5,
            compressed=chance.uniform(0.08, 0.4),
            plain_sizes=(4097, most),
            transactions=chance.uniform(0.03, 0.15),
            timers=chance.uniform(0.05, 0.2),
            halves=chance.uniform(0.04, 0.15),
            keys=chance.choice((15, 50, 50, 200)),
            light_queues=chance.randrange(5, 60),
            committed=chance.uniform(0.4, 0.9),
        )


class Making:
    """A golden store in the making: its broker, its messages, and what was put.

    `pending` counts the timers and half messages, as the answers have it.
    """

    def __init__(self, name: str, seed: int, count: int) -> None:
        self.name, self.seed, self.count = name, seed, count
        self.chance = random.Random(f"{name} {seed}")
        self.shape = Shape.draw(random.Random(seed))
        self.pending = {"timers": 0, "halves": 0}
        self.is_queued: list[bool] = []
        """True if each message has an entry in its queue."""
        self.last_indexed: tuple[str, str] | None = None
        """Topic and unique key of the last message that an index has."""

    @property
    def has_pending(self) -> bool:
        """Return True if timers and half messages belong into the store."""
        return self.name.startswith("pending")

    def make(self, folder: Path) -> tuple[Path, list[dict[str, Any]]]:
        """Have a broker write the store and answer; return the store and the answers."""
        store, home = folder / self.name, folder / "home"
        home.mkdir()
        with Turn(peer.turn_words("broker", store, home, *self.options()), home) as turn:
            turn.answer()
            self.administer(turn)
            self.put(turn)
            answers = self.answers(turn)
            if self.name.endswith("-killed"):
                turn.kill()
            else:
                turn.close()
        return store, answers

    def options(self) -> list[str]:
        """Return the settings of the broker, as the command line has them."""
        lines = (
            *golden.CONFIG.split(),
            *_NAMES,
            *(f"{name}={value}" for name, value in switches_of(self.name).items()),
        )
        return [word for line in lines for word in ("--set", line)]

    def administer(self, turn: Turn) -> None:
        """Make topics and groups."""
        lonely = (LONELY,) if self.shape.lonely else ()
        lines: list[dict[str, Any]] = [
            {"new-topic": topic, "queues": QUEUES, "attributes": {}} for topic in (*TOPICS, QUIET, *lonely)
        ]
        attributes = {"+message.type": "LITE", "+lite.topic.expiration": "60"}
        lines.append({"new-topic": LITE, "queues": 1, "attributes": attributes})
        lines += [{"new-group": group} for group in GROUPS]
        turn.ask(lines)

    def put(self, turn: Turn) -> None:
        """Put the messages, and wait until queues, index and timers have them."""
        last = 0
        for number, answered in enumerate(turn.stream(self.messages(), UNDER_WAY)):
            if answered["status"] != "PUT_OK":
                raise MakingError(f"{self.name}: the broker answers {answered} to a message")
            if self.is_queued[number]:
                last = answered["offset"]
        turn.ask([{"await": "dispatch"}])
        self.wait(turn, {"queued": []}, lambda found: found["queued"] >= last)
        if self.name.startswith("index") and self.last_indexed is not None:
            self.wait(turn, {"key": [*self.last_indexed, 1]}, lambda found: len(found["phys"]) == 1)
        if self.has_pending:
            self.wait(turn, {"timers": []}, lambda found: found["timers"] == self.pending["timers"])
            # With every other seed nothing has been checked yet.
            time.sleep(_CHECKED_AFTER_S * (self.seed % 2))

    def wait(self, turn: Turn, question: dict[str, Any], is_there: Any) -> None:
        """Ask until the answer is the one that is waited for.

        Raises:
            MakingError: It is not, after a minute.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while not is_there(found := turn.ask([question])[0]):
            if time.monotonic() > deadline:
                raise MakingError(f"{self.name}: the broker still answers {found}")
            time.sleep(0.1)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages as a turn takes them."""
        chance, shape = self.chance, self.shape
        first_unique = chance.randrange(1 << 28)
        lonely_at = chance.randrange(self.count) if shape.lonely else -1
        for number in range(self.count):
            unique_key = _UNIQUE_KEY.format(first_unique + number)
            (topic,) = chance.choices(TOPICS, shape.topics)
            (queue_id,) = chance.choices(range(QUEUES), shape.queues[topic])
            if number == lonely_at:
                topic, queue_id = LONELY, 0
            properties = {"UNIQ_KEY": unique_key}
            if chance.random() < 2 / 3:
                properties["TAGS"] = chance.choice(TAGS)
            if chance.random() < 2 / 3:
                properties["KEYS"] = f"k{chance.randrange(shape.keys)}"
            line = {"topic": topic, "queue": queue_id, "flag": 0, "sysFlag": 0, "properties": properties}
            self.give_body(line)
            if topic != LONELY:
                self.give_sort(line)
            self.is_queued.append(line["sysFlag"] in {0, TRANSACTION_COMMIT})
            if line["sysFlag"] != TRANSACTION_ROLLBACK:
                self.last_indexed = topic, unique_key
            yield line

    def give_body(self, line: dict[str, Any]) -> None:
        """Give a message a body; one that is to be compressed says what it expands to."""
        chance, shape = self.chance, self.shape
        if chance.random() < shape.compressed:
            start, size = chance.randrange(26), chance.randrange(*shape.plain_sizes)
            letters = bytes(97 + (start + at) % 26 for at in range(26))
            body = (letters * (size // 26 + 1))[:size]
            line["compress"] = chance.choice(COMPRESSIONS)
            line["properties"] |= {"plainSize": str(size), "plainCrc": str(zlib.crc32(body) & 0x7FFFFFFF)}
        else:
            pattern = chance.randbytes(12)
            body = (pattern * 50)[: chance.randrange(10, 600)]
        line["bodyBase64"] = base64.b64encode(body).decode()

    def give_sort(self, line: dict[str, Any]) -> None:
        """Make a message transactional, a timer, or one that is in light queues as well."""
        chance, shape, properties = self.chance, self.shape, line["properties"]
        if chance.random() < shape.transactions:
            line["sysFlag"] = chance.choice((TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))
            return
        if self.has_pending and chance.random() < shape.timers:
            due_ms = time.time_ns() // 1_000_000 + chance.randrange(_TEN_MINUTES_MS, _DAY_MS)
            properties["TIMER_DELIVER_MS"] = str(due_ms)
            self.pending["timers"] += 1
        if self.has_pending and chance.random() < shape.halves:
            line["half"] = True
            properties |= {"TRAN_MSG": "true", "PGROUP": "pg"}
            self.pending["halves"] += 1
        # A prepared message would take a place in its light queue, and leave a hole there that RocketMQ cannot read.
        if self.name.startswith("lmq") and chance.random() < 0.5:
            light = [f"%LMQ%{chance.randrange(shape.light_queues)}"]
            if chance.random() < 1 / 3:
                light.append(f"%LMQ%x{chance.randrange(5)}")
            properties["INNER_MULTI_DISPATCH"] = ",".join(light)

    def answers(self, turn: Turn) -> list[dict[str, Any]]:
        """Ask the broker everything that the answers of a golden store hold."""
        chance, shape = self.chance, self.shape
        topics: list[tuple[str, int]] = [(topic, QUEUES) for topic in TOPICS]
        if shape.lonely:
            topics.append((LONELY, QUEUES))
        if self.name.startswith("lmq"):
            light = (*(f"%LMQ%{number}" for number in range(shape.light_queues)), *(f"%LMQ%x{at}" for at in range(5)))
            topics += [(name, 1) for name in light]
        log = turn.ask([{"log": []}])[0]
        found = [{"config": switches_of(self.name)}, {"pending": self.pending}, {"log": [log["min"], log["max"]]}]
        queues = turn.ask([{"queue": [topic, at]} for topic, count in topics for at in range(count)])
        queues = [one for one in queues if one["max"] > 0]
        for one in queues:
            found += [one, *pulls(turn, one)]
        keys = [*(f"k{number}" for number in sorted(chance.sample(range(shape.keys), 3))), "missing"]
        asked = (*TOPICS, QUIET, LITE)
        found += turn.ask([{"key": [topic, key, ANSWERS_MOST]} for topic in asked for key in keys])
        found += self.commit(turn, queues)
        found += turn.ask([{"topics": []}])[0]["topics"]
        found += [{"group": group} for group in turn.ask([{"groups": []}])[0]["groups"]]
        return found

    def commit(self, turn: Turn, queues: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Commit offsets of the groups, and ask for them."""
        chance = self.chance
        commits = [
            [group, *one["queue"], chance.randrange(one["max"] + 1)]
            for group in GROUPS
            for one in queues
            if not one["queue"][0].startswith("%LMQ%") and chance.random() < self.shape.committed
        ]
        turn.ask([{"commit": one} for one in commits])
        turn.ask([{"persist": []}])
        return turn.ask([{"offset": one[:3]} for one in commits])


def pulls(turn: Turn, queue: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the pulls from a queue's first offset to its last."""
    offset = queue["min"]
    while offset < queue["max"]:
        (got,) = turn.ask([{"get": [*queue["queue"], offset, PULL, None]}])
        if got["next"] <= offset:
            raise MakingError(f"the broker answers {got}")
        offset = got["next"]
        yield got


def make(out: Path, seed: int, count: int, names: Sequence[str] = golden.STORES_55) -> Iterator[str]:
    """Make the golden stores `names`, and say the name of each that is done."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="reput-golden-") as scratch:
            store, answers = Making(name, seed, count).make(Path(scratch))
            pack(out, name, store)
            (out / f"{name}.jsonl.gz").write_bytes(gzip.compress(as_lines(answers), mtime=0))
        yield name


def main() -> None:
    """Make what the command line asks for."""
    about, problem = "Have a whole RocketMQ broker write golden stores and answer about them.", peer.available("broker")
    make_as_asked(make, about, golden.STORES_55, messages=1500, messages_min=MESSAGES_MIN, problem=problem)


if __name__ == "__main__":
    main()
