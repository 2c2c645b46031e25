"""Turn about: reput and RocketMQ write one store alternately, and most turns end with a kill at a random instant.

python -m peer.rounds --rounds 100 --seed 7                     every kind of store, every peer that can open it
python -m peer.rounds --rounds 20 --seed 7 --kind double --peer broker

After each turn reput opens a copy of the store, and `check` has to be clean. A copy for RocketMQ and one for reput are
asked about every queue, by offset, time and key, and have to answer alike. What was acknowledged has to be there.
Beside a whole broker both also commit offsets of groups, and have to find the other's; and both delete topics, which
begin again at 0.
A line for each turn says what was done; the first line has the seed, which repeats a run but for its instants.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import reput
from peer import peer
from peer.turns import Turn, TurnError
from reput.config import StoreConfig, parse_properties
from reput.formats import paths
from reput.formats.log.record import (
    FLAG_INNER_BATCH,
    MAGIC_BLANK,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.formats.topics.lite_topics import LITE, LITE_TOPIC, MESSAGE_TYPE, light_queue_of
from support import stores
from support.checked import assert_sound
from support.inner import topics_json
from support.opened import BROKER_LIMITS
from support.switches import lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.pipeline.check.report import Finding

SMALL = """\
mappedFileSizeCommitLog=262144
mappedFileSizeConsumeQueue=2000
maxHashSlotNum=500
maxIndexNum=2000
messageIndexSafe=true
commitLogRecoverMaxNum=1000
timerWheelEnable=false
fileReservedTime=876000
diskMaxUsedSpaceRatio=95
cleanFileForciblyEnable=false
"""
"""Settings of every store: small files, nothing deleted, and RocketMQ builds whatever index it takes away."""
ANSWERS_MOST = 64
QUEUES = 3
TOPICS = ("orders", "payments", "订单-topic")
BATCHES = "batches"
SESSIONS, USERS = "sessions", ("user-1", "会话")
GROUPS = ("billing", "审计")
LIGHT = ("%LMQ%a", "%LMQ%b", "%LMQ%订单")
TAGS = ("paid", "sent", "退款")
LOST_ITEMS = {"index-item-missing"}


class Kind(NamedTuple):
    """A kind of store: further settings, the topics of batches and of lite topics, and the peers that can open it."""

    settings: str = ""
    batch_topics: tuple[str, ...] = ()
    peers: tuple[str, ...] = ("store", "broker")
    lite_topics: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return all settings as the text of a broker.conf."""
        return SMALL + self.settings

    @property
    def config(self) -> StoreConfig:
        """Return the configuration for reput."""
        return StoreConfig.from_properties(parse_properties(self.text))

    @property
    def options(self) -> list[str]:
        """Return the options for RocketMQ."""
        words = [word for line in self.text.split() for word in ("--set", line)]
        words += [word for topic in self.batch_topics for word in ("--batch-topic", topic)]
        return words + [word for topic in self.lite_topics for word in ("--lite-topic", topic)]

    @property
    def attributes(self) -> dict[str, dict[str, str]]:
        """Return the topics that have attributes."""
        batches = {topic: {"queue.type": "BatchCQ"} for topic in self.batch_topics}
        return batches | {topic: {MESSAGE_TYPE: LITE} for topic in self.lite_topics}


KINDS = {
    "file": Kind(peers=("store", "broker", "old")),
    "ext": Kind(f"{lines_of('ext')}mappedFileSizeConsumeQueueExt=4096\n"),
    "batch": Kind("mapperFileSizeBatchConsumeQueue=4600\n", (BATCHES,)),
    # With double write a broker 5.5.0 starts only with combineCQUseRocksdbForLmq=true (RocksDBLiteLifecycleManager).
    "double": Kind(lines_of("double"), peers=("store",)),
    # These are of 5.5.1 alone.
    "separate-double": Kind(lines_of("separate-double"), peers=("store",)),
    "selective": Kind(lines_of("selective"), peers=("store",), lite_topics=(SESSIONS,)),
    # Where a broker has its topics and offsets; store code alone has neither.
    **{name: Kind(lines_of(name), peers=("broker",)) for name in ("config-v1-single", "config-v2")},
    **{
        name: Kind(lines_of(name))
        for name in ("lmq", "rocksdb", "separate", "lmq-rocksdb", "index-both", "index-rocksdb")
    },
}


def open_turn(side: str, store: Path, kind: str, home: Path) -> Turn:
    """Start a turn of reput, or of a peer."""
    home.mkdir(exist_ok=True)
    if side == "reput":
        return Turn([sys.executable, "-m", "peer.rounds", "--turn", str(store), "--kind", kind], home)
    return Turn(list(peer.turn_words(side, store, home, *KINDS[kind].options)), home)


# --- reput's own turn --------------------------------------------------------------------------------


def take_turn(path: Path, kind: str) -> None:
    """Have a store open, as `Turn.java` has it, until stdin ends or somebody kills this process."""
    store = reput.MessageStore.open(path, KINDS[kind].config, create=True, limits=BROKER_LIMITS)
    say({"open": True})
    for line in sys.stdin:
        say(answer(store, json.loads(line)))
    store.close()
    say({"closed": True})


def say(answered: dict[str, Any]) -> None:
    """Write a line at once."""
    sys.stdout.write(json.dumps(answered) + "\n")
    sys.stdout.flush()


def answer(store: reput.MessageStore, asked: dict[str, Any]) -> dict[str, Any]:
    """Do what a line says."""
    if "topic" in asked:
        return put(store, asked)
    if "await" in asked:
        store.reput(spark=False)
        return {"dispatched": True}
    if "commit" in asked:
        store.commit_offset(*asked["commit"])
        return asked
    if "persist" in asked:
        store.progress.persist()
        return asked
    if "delete-topic" in asked:
        if store.queues(asked["delete-topic"]):
            store.delete_topic(asked["delete-topic"])
        return asked
    ((kind, of),) = asked.items()
    return {kind: of, **QUESTIONS[kind](store, of)}


def pulled(store: reput.MessageStore, asked: list[Any]) -> dict[str, Any]:
    """Answer a pull."""
    got = store.get_message(*asked)
    return {"status": str(got.status), "next": got.next_offset, "phys": got.physical_offsets.tolist()}


QUESTIONS: dict[str, Callable[[reput.MessageStore, list[Any]], dict[str, Any]]] = {
    "log": lambda store, _: {"min": store.view.log.min_offset, "max": store.view.follower.offset},
    "queue": lambda store, of: {"min": store.min_offset(*of), "max": store.max_offset(*of)},
    "get": pulled,
    "key": lambda store, of: {"phys": store.query_message(*of, exact=False).physical_offsets},
    "time": lambda store, of: {"lower": store.offset_by_time(*of)},
    "offset": lambda store, of: {"at": store.query_offset(*of)},
}


def put(store: reput.MessageStore, asked: dict[str, Any]) -> dict[str, Any]:
    """Put the message of a line."""
    message = reput.Message(
        asked["topic"],
        asked["body"].encode(),
        properties=asked["properties"],
        flag=asked["flag"],
        sys_flag=asked["sysFlag"],
    )
    result = store.put_message(message, asked["queue"])
    if result.status is not reput.PutStatus.PUT_OK:
        return {"status": result.status.name}
    return {"status": result.status.name, "offset": result.physical_offset, "queue_offset": result.queue_offset}


# --- what is put -------------------------------------------------------------------------------------


def messages(rng: random.Random, number: int, kind: Kind) -> Iterator[dict[str, Any]]:
    """Yield messages of all sorts without end, for one turn."""
    count = 0
    while True:
        properties = {"UNIQ_KEY": f"U{number}-{count}", "序": str(count)}
        if rng.random() < 0.7:
            properties["TAGS"] = rng.choice(TAGS)
        if rng.random() < 0.6:
            properties["KEYS"] = " ".join(f"k{number}-{rng.randrange(40)}" for _ in range(rng.randrange(1, 4)))
        topic, sys_flag = rng.choice(TOPICS), 0
        if kind.batch_topics and rng.random() < 0.5:
            topic, sys_flag = BATCHES, FLAG_INNER_BATCH
            properties["INNER_NUM"] = str(rng.randrange(1, 9))
        elif kind.lite_topics and rng.random() < 0.4:
            topic, user = rng.choice(kind.lite_topics), rng.choice(USERS)
            light = light_queue_of(topic.encode(), user.encode()).decode()
            properties |= {LITE_TOPIC.decode(): user, "INNER_MULTI_DISPATCH": light}
        elif rng.random() < 0.1:
            sys_flag = rng.choice((TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))
        elif "enableLmq=true" in kind.settings and rng.random() < 0.6:
            properties["INNER_MULTI_DISPATCH"] = ",".join(rng.sample(LIGHT, rng.randrange(1, 4)))
        size = rng.randrange(20_000) if rng.random() < 0.03 else rng.randrange(600)
        yield {
            "topic": topic, "queue": rng.randrange(QUEUES), "body": rng.choice("abc") * size,
            "flag": rng.randrange(-(1 << 31), 1 << 31), "sysFlag": sys_flag, "properties": properties,
        }  # fmt: skip
        count += 1


class Stored(NamedTuple):
    """A message that was acknowledged, and where."""

    asked: dict[str, Any]
    offset: int
    queue_offset: int

    @property
    def is_in_queue(self) -> bool:
        """True if it has an entry in its queue: it is in no transaction, or in one that is committed."""
        return bool(self.asked["sysFlag"] & TRANSACTION_ROLLBACK in {0, TRANSACTION_COMMIT})


# --- rounds ------------------------------------------------------------------------------------------


class Rounds:
    """A store, who wrote to it, and what was acknowledged."""

    def __init__(self, kind: str, seed: int, folder: Path, peers: tuple[str, ...]) -> None:
        self.kind, self.peers, self.folder = kind, peers, folder
        self.of_kind = KINDS[kind]
        self.rng = random.Random(f"{kind} {seed}")
        self.store = folder / "store"
        (self.store / "commitlog").mkdir(parents=True)
        if self.of_kind.attributes:
            topics_json(self.store, self.of_kind.attributes)
        self.stored: list[Stored] = []
        self.committed: dict[tuple[str, str, int], int] = {}
        self.deleted_at: dict[str, int] = {}
        """The log offset up to which the messages of a topic were acknowledged when it was last deleted."""
        self.brought_back: set[str] = set()
        """Topics that a recovery may have brought back in part: they were deleted, and later a writer was killed."""
        self.number = 0
        self.is_index_cut = False
        """True once RocketMQ has recovered a crash, for which it takes away its newest IndexFile."""

    def round(self) -> str:
        """Have one side write, look at what it left, and say what was done.

        Raises:
            AssertionError: Something acknowledged is not there, the store is not sound, or answers differ.
        """
        side = "reput" if self.number % 2 else self.rng.choice(self.peers)
        self.is_index_cut |= side != "reput" and self.is_unclean
        how = self.write(side)
        if self.is_unclean:
            self.brought_back |= self.deleted_at.keys()
        how += self.mend_index()
        asked_of = side if side != "reput" else self.rng.choice(self.peers)
        compared = self.look(asked_of)
        self.number += 1
        return f"{self.kind} {self.number}: {side} {how}; {len(self.stored)} stored, {compared} answers as {asked_of}"

    @property
    def is_unclean(self) -> bool:
        """True if the store was not closed."""
        return (self.store / "abort").exists()

    def mend_index(self) -> str:
        """Rebuild what RocketMQ has lost of the indexes; return what was done.

        After a crash it removes the IndexFiles above its checkpoint, and indexes again from where it begins to recover
        the log. Keys of older messages in those files are lost, with messageIndexSafe, too; `check` names them.

        With double write it begins a queue of the database whose end a kill has taken at the end that the files have,
        so the database hides the messages before (`RocksDBConsumeQueue.initializeWithOffset`).
        """
        findings = reput.check(self.store, spark=False, config=self.of_kind.config).findings
        damage = [one for one in findings if one.severity == "damage"]
        lost = [one for one in damage if one.rule in LOST_ITEMS]
        hidden = [one for one in damage if self.hides(one)]
        assert len(lost) + len(hidden) == len(damage), f"as it was left: {damage}"
        if not damage:
            return ""
        assert self.is_index_cut, f"RocketMQ has recovered no crash, and did not do this: {damage}"
        reput.rebuild(self.store, spark=False, config=self.of_kind.config, only=None if hidden else "index")
        assert_sound(self.store, self.of_kind.config)
        self.is_index_cut = False
        return ", index rebuilt"

    def hides(self, finding: Finding) -> bool:
        """Return True if a queue of a database beside files begins too late."""
        return "double" in self.kind and finding.rule == "queue-end-wrong" and ": min is " in finding.detail

    def write(self, side: str) -> str:
        """Have a side put messages; it is killed, or closes the store."""
        rng = self.rng
        count, how = rng.randrange(20, 400), rng.choice(("killed", "killed", "killed at once", "closed"))
        lines, how_much = messages(rng, self.number, self.of_kind), str(count)
        with open_turn(side, self.store, self.kind, self.folder / "home") as turn:
            if how == "killed at once":
                time.sleep(rng.random() * 2)
                turn.kill()
                return how
            turn.answer()
            asked = []
            for _ in range(count):
                asked.append(next(lines))
                turn.send(asked[-1])
                # A few are under way at any time.
                if len(asked) > rng.randrange(1, 20):
                    self.take(asked.pop(0), turn.answer())
                if rng.random() < 0.01:
                    self.take_all(asked, turn)
                    turn.ask([{"await": "dispatch"}])
                if self.is_administered and rng.random() < 0.003:
                    self.take_all(asked, turn)
                    self.delete_topic(turn, side)
                    how_much += ", a topic deleted"
            if self.is_administered:
                self.take_all(asked, turn)
                self.commit(turn)
            if how == "closed":
                self.take_all(asked, turn)
                turn.close()
            else:
                time.sleep(rng.random() * 0.02)
                for line, found in zip(asked, turn.kill_now(), strict=False):
                    self.take(line, found)
        return f"{how} after {how_much}"

    @property
    def is_administered(self) -> bool:
        """True if all who write the store keep topics and offsets of groups: store code alone does not."""
        return self.peers == ("broker",)

    def delete_topic(self, turn: Turn, side: str) -> None:
        """Delete a topic; a broker may make it again, and forgets the offsets of groups in it, as reput does not."""
        topic = self.rng.choice(TOPICS)
        made = [{"new-topic": topic, "queues": QUEUES, "attributes": {}}] if self.rng.random() < 0.5 else []
        # Records that are not in the queues yet would come back.
        lines = [{"await": "dispatch"}, {"delete-topic": topic}, *(made if side == "broker" else [])]
        turn.ask([*lines, {"persist": []}])
        self.deleted_at[topic] = max((one.offset for one in self.stored), default=-1)
        self.brought_back.discard(topic)
        if side == "broker":
            self.committed = {place: at for place, at in self.committed.items() if place[1] != topic}

    def commit(self, turn: Turn) -> None:
        """Commit offsets of groups, and have them persisted."""
        rng = self.rng
        places = {(rng.choice(GROUPS), rng.choice(TOPICS), rng.randrange(QUEUES)) for _ in range(3)}
        offsets = {place: rng.randrange(1 << rng.choice((3, 20, 53))) for place in sorted(places)}
        turn.ask([*({"commit": [*place, at]} for place, at in offsets.items()), {"persist": []}])
        self.committed |= offsets

    def take_all(self, asked: list[dict[str, Any]], turn: Turn) -> None:
        """Note that all messages that are under way were acknowledged."""
        while asked:
            self.take(asked.pop(0), turn.answer())

    def take(self, asked: dict[str, Any], answered: dict[str, Any]) -> None:
        """Note that a message was acknowledged."""
        if answered.get("status") != "PUT_OK":
            raise TurnError(f"{asked}: {answered}")
        self.stored.append(Stored(asked, answered["offset"], answered["queue_offset"]))

    def look(self, side: str) -> int:
        """Look at copies of the store; return how many answers were compared."""
        config, is_cut = self.of_kind.config, self.is_unclean
        ours, theirs = (stores.copy(self.store, self.folder / name) for name in ("ours", "theirs"))
        try:
            with reput.MessageStore.open(ours, config, create=True, limits=BROKER_LIMITS) as store:
                self.find_stored(store)
                questions = list(self.questions(store))
                for place, at in self.committed.items():
                    assert store.query_offset(*place) == at, f"{place} was committed as {at}"
                wanted = [answer(store, question) for question in questions]
                with open_turn(side, theirs, self.kind, self.folder / "home") as turn:
                    turn.answer()
                    found = turn.ask(questions)
                different = [
                    (theirs_, ours_)
                    for theirs_, ours_ in zip(found, wanted, strict=True)
                    if not is_alike(store, theirs_, ours_, is_cut=is_cut)
                    and not (side == "old" and searches_another_file(self.store, theirs_, ours_))
                ]
            assert not different, f"{len(different)} answers differ, first RocketMQ's: {different[:3]}"
            assert_sound(ours, config)
        except BaseException:
            (self.folder / "as-left").exists() or stores.copy(self.store, self.folder / "as-left")
            raise
        shutil.rmtree(ours)
        shutil.rmtree(theirs)
        shutil.rmtree(self.folder / "home")
        return len(questions)

    def find_stored(self, store: reput.MessageStore) -> None:
        """Find every acknowledged message at its place: in the log, and in its queue."""
        for one in self.stored:
            message = store.message_at(one.offset)
            assert message is not None, f"lost: {one}"
            assert message.body == one.asked["body"].encode()
            assert message.properties["UNIQ_KEY"] == one.asked["properties"]["UNIQ_KEY"]
        for one in self.rng.sample(self.stored, min(200, len(self.stored))):
            if one.is_in_queue and self.is_sure(one):
                got = store.get_message(one.asked["topic"], one.asked["queue"], one.queue_offset, 1)
                assert got.physical_offsets.tolist() == [one.offset], f"{one}: {got}"

    def is_sure(self, one: Stored) -> bool:
        """Return True if a message has to be in its queue: the topic was not deleted after it, and none came back.

        A broker that recovers makes entries of deleted messages again, and with these none of later messages that have
        the same numbers (`ConsumeQueue.putMessagePositionInfo`).
        """
        topic = one.asked["topic"]
        return topic not in self.brought_back and one.offset > self.deleted_at.get(topic, -1)

    def questions(self, store: reput.MessageStore) -> Iterator[dict[str, Any]]:
        """Yield questions about every queue that both know alike, and about keys of all turns."""
        rng = self.rng
        yield {"log": []}
        for topic, queue_id, begin, end in store.queues():
            if self.is_unclean and topic in self.brought_back:
                # Each recovers its copy by itself, from where it takes the indexes to be complete.
                continue
            yield {"queue": [topic, queue_id]}
            offsets = {begin, end - 1, end, end + 1, *(rng.randrange(begin, end + 1) for _ in range(8))}
            for offset in sorted(offsets - {-1}):
                yield {"get": [topic, queue_id, offset, rng.choice((1, 7, 32))]}
            for offset in {begin, end - 1, *(rng.randrange(begin, end) for _ in range(3))} if begin < end else ():
                yield {"time": [topic, queue_id, store.store_time(topic, queue_id, offset)]}
        yield from ({"offset": list(place)} for place in self.committed)
        for one in rng.sample(self.stored, min(60, len(self.stored))):
            keys = [one.asked["properties"]["UNIQ_KEY"], *one.asked["properties"].get("KEYS", "").split()]
            yield {"key": [one.asked["topic"], rng.choice(keys), ANSWERS_MOST]}


def is_alike(store: reput.MessageStore, theirs: dict[str, Any], ours: dict[str, Any], *, is_cut: bool) -> bool:
    """Return True if two answers say the same.

    Of several messages of one millisecond RocketMQ's search finds any one. After a crash it may index a message a
    second time, which it then gives twice; and with `is_cut` it has just lost a part of its index.
    """
    if "time" in theirs and theirs["lower"] != ours["lower"]:
        topic, queue_id, asked_ms = theirs["time"]
        return {store.store_time(topic, queue_id, one["lower"]) for one in (theirs, ours)} == {asked_ms}
    if "log" in theirs:
        # Without a file of the log RocketMQ's min is -1.
        ends = theirs["max"], ours["max"]
        return max(0, theirs["min"]) == ours["min"] and (ends[0] == ends[1] or is_blank(store, *ends))
    if "key" in theirs:
        found, wanted = set(theirs["phys"]), set(ours["phys"])
        return found <= wanted if is_cut else found == wanted
    return theirs == ours


def searches_another_file(left: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Return True if RocketMQ 4.9 searches by time in another file than the one that has the answer.

    It takes the first file that was not changed before that time, else the last one. The time of a mapped file is that
    of the first change since a flush, so it may be before the times of its last entries: then the search begins too
    late. A file that is full may be changed after the time of its last entry: then the search ends with that entry.

    Source: `ConsumeQueue.getOffsetInQueueByTime` and `MappedFileQueue.getMappedFileByTime` of 4.9.7.
    """
    if "time" not in theirs:
        return False
    topic, queue_id, asked_ms = theirs["time"]
    files = sorted((left / paths.CONSUME_QUEUE / topic / str(queue_id)).iterdir())
    searched = next((file for file in files if file.stat().st_mtime_ns // 1_000_000 >= asked_ms), files[-1])
    first = int(searched.name) // ENTRY_SIZE
    last = first + searched.stat().st_size // ENTRY_SIZE - 1
    return bool(ours["lower"] < theirs["lower"] == first or last == theirs["lower"] < ours["lower"])


def is_blank(store: reput.MessageStore, begin: int, end: int) -> bool:
    """Return True if a blank record fills a file of the log from here to its end, with which the log ends.

    After such an end RocketMQ takes the log to end before the blank, and writes one there again.
    """
    log, size = store.view.layout.commit_log, KINDS["file"].config.mapped_file_size_commit_log
    assert size is not None
    if end % size or not end - size <= begin < end or (log / paths.offset_name(end)).exists():
        return False
    blank = (log / paths.offset_name(end - size)).read_bytes()[begin - end :]
    return blank[:8] == (end - begin).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big", signed=True)


def main() -> int:
    """Run rounds, and say what was done; on a failure the store stays, and its path is said."""
    parser = argparse.ArgumentParser(description="reput and RocketMQ write one store alternately, killed at random")
    parser.add_argument("--rounds", type=int, default=20, help="turns for each kind of store")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--kind", action="append", choices=KINDS, help="a kind of store; all where none is given")
    parser.add_argument("--peer", action="append", choices=peer.PROGRAMS, help="who writes; all where none is given")
    parser.add_argument("--turn", type=Path, help="a turn of reput at this store, as the rounds start it")
    given = parser.parse_args()
    if given.turn is not None:
        take_turn(given.turn, given.kind[0])
        return 0
    sys.stdout.write(f"seed {given.seed}\n")
    for kind in given.kind or KINDS:
        peers = tuple(name for name in KINDS[kind].peers if name in (given.peer or peer.PROGRAMS))
        folder = Path(tempfile.mkdtemp(prefix=f"reput-rounds-{kind}-"))
        rounds = Rounds(kind, given.seed, folder, peers)
        try:
            for _ in range(given.rounds if peers else 0):
                sys.stdout.write(rounds.round() + "\n")
                sys.stdout.flush()
        except BaseException:
            sys.stdout.write(f"{kind}, round {rounds.number + 1}, seed {given.seed}: the store is {folder}\n")
            raise
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
