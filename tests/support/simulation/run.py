"""A simulation: lives of a store, each with steps in an order that the seed decides, and a power cut or a close."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

import reput
from reput.errors import NotAStoreError, ReputError, StoreLockedError
from reput.formats.own import files as own
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from reput.store import message_store
from support.determined import determined
from support.power.disk import Disk, write_tree
from support.power.journal import Known, Rename
from support.power.recorder import Recorder
from support.power.scenarios import ASYNC, GROUP, SYNC, TOPICS, NotStoredError, Scenario, message
from support.power.verdict import KEYLESS, KEYS_LOST, TAGS_LOST, Promises, assert_kept, content, keyless, open_empty
from support.simulation.broker import ModelBroker
from support.simulation.lives import Lives
from support.simulation.side import (
    BEGUN,
    DURABLE,
    EXPIRED,
    FIRST,
    MAY_GO,
    SIDE,
    SIDE_PROMISES,
    SideMessage,
    assert_side_kept,
    side_messages,
)
from support.simulation.sometimes import (
    BROKER,
    DELETED,
    EXPIRED_FILES,
    FAILED_SYNC,
    FULL,
    KEPT_OUT,
    KILLED_BROKER,
    LOST_KEYS,
    TORN_HEAD,
)
from support.simulation.torn import has_torn_head

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from reput.formats.log.record import Record
    from support.power.disk import Tree
    from support.power.journal import Entry
    from support.simulation.sometimes import Sometimes

_STEPS_MOST = 14
WEIGHTS: Final[Mapping[str, int]] = {
    "put": 6,
    "batch": 3,
    "flush": 2,
    "reput": 2,
    "follow": 3,
    "read": 2,
    "commit": 2,
    "reopen": 1,
    "rebuild": 2,
    "expire": 2,
    "broker": 2,
    "put_side": 4,
    "delete_side": 3,
}
"""The steps, and how often each is taken."""
_BROKER_STEPS, _SIDE_STEPS = ("broker",), ("put_side", "delete_side")
"""A seed has steps of one of them alone: after a crash RocketMQ's broker brings the queues of a deleted topic back."""
_BEGINS = (own.INTENT_NAME, own.DELETED_NAME)
"""The files whose names begin a swap and a deletion."""
_STEP_BYTES = 600
_LARGE = 900
"""Bytes of a body of which a file of the log takes three."""
_JUMPS_MS = (0, 0, 0, 1, 700, -1000, 86_400_000)
_PROMISES = ("begun", "durable", "may go", "committed", "kept", KEYLESS, KEYS_LOST, TAGS_LOST, *SIDE_PROMISES)


class _Life:
    """The programs of one life of a store; a step is one call of one of them."""

    def __init__(
        self,
        path: Path,
        recorder: Recorder,
        chance: random.Random,
        known: dict[str, int],
        sometimes: Sometimes,
        now_ms: Callable[[], int],
    ) -> None:
        self._path, self._recorder, self._chance = path, recorder, chance
        self._known, self._sometimes, self._now_ms = known, sometimes, now_ms
        self._config = chance.choice((SYNC, ASYNC))
        self._follower: Follow | None = None
        self._store = self._open() if known["durable"] else open_empty(path, self._config)
        self.end = self._store.view.confirmed()
        # All of them may have expired.
        self._note("begun", self._numbers(self._store).stop or known["may go"])
        self._look_at_side()
        # Only messages that were not acknowledged may have lost their keys, and later they stay without.
        self._note(KEYLESS, keyless(self._store) & (-1 << known["durable"] | known[KEYLESS]))

    def _open(self) -> reput.MessageStore:
        return reput.MessageStore.open(self._path, self._config, create=True)

    def _note(self, what: str, value: int) -> None:
        self._known[what] = value
        self._recorder.note(what, value)

    def _stored(self, count: int, put: Callable[[range], bool]) -> None:
        begin = self._known["begun"]
        self._note("begun", begin + count)
        if not put(range(begin, begin + count)):
            raise NotStoredError
        if self._config is SYNC:
            self._note("durable", begin + count)

    @staticmethod
    def _numbers(store: reput.MessageStore) -> range:
        """Return the numbers of the messages that are there; fail if one is missing in between."""
        numbers = [int(body.split()[0]) for body in content(store)]
        found = range(numbers[0], numbers[-1] + 1) if numbers else range(0)
        assert numbers == list(found), f"messages are lost or doubled: {numbers}"
        return found

    def _look_at_side(self) -> None:
        """Note where the side topic goes on: a deletion that was under way has been done, or not begun."""
        found, end = side_messages(self._store), self._store.max_offset(SIDE, 0)
        if found:
            self._note(FIRST, found[0].id - found[0].number)
        elif not end:
            self._note(FIRST, self._known[BEGUN])
        self._note(BEGUN, self._known[FIRST] + end)

    def put_side(self) -> None:
        """Put messages into the topic that is deleted at times."""
        for _ in range(self._chance.randrange(1, 8)):
            one = SideMessage(self._known[BEGUN], self._known[BEGUN] - self._known[FIRST])
            self._note(BEGUN, one.id + 1)
            if not self._is_ok(self._store.put_message(one.message())):
                raise NotStoredError
            if self._config is SYNC:
                self._all_durable()

    def delete_side(self) -> None:
        """Delete that topic; a follower does not let the writer do it."""
        if not any(one.topic == SIDE for one in self._store.queues()):
            return
        self._note(MAY_GO, self._known[BEGUN])
        try:
            gone = self._store.delete_topic(SIDE)
        except StoreLockedError:
            if self._follower is None:
                raise
            self._sometimes.reached(KEPT_OUT)
            return
        self._note(FIRST, self._known[BEGUN])
        self._sometimes.reached(DELETED, bool(gone))

    def expire(self) -> None:
        """Fill files of the log, and delete those that are old enough, and what refers to them."""
        for _ in range(self._chance.randrange(7)):
            self._stored(1, lambda numbers: self._is_ok(self._store.put_message(message(numbers[0], _LARGE))))
        self.close()
        self._note("may go", self._known["begun"])
        self._note(EXPIRED, self._known[BEGUN])
        with reput.MessageStore.open(self._path, replace(self._config, file_reserved_time=0)) as store:
            self._sometimes.reached(EXPIRED_FILES, bool(store.delete_expired(manual=True)))
        self._store = self._open()

    def put(self) -> None:
        """Put a message."""
        size = self._chance.choice((0, 10, _LARGE))
        self._stored(1, lambda numbers: self._is_ok(self._store.put_message(message(numbers[0], size))))

    def batch(self) -> None:
        """Put a batch."""
        self._stored(5, lambda numbers: self._is_ok(self._store.put_messages([message(number) for number in numbers])))

    @staticmethod
    def _is_ok(result: object) -> bool:
        return getattr(result, "status", None) is reput.PutStatus.PUT_OK

    def _all_durable(self) -> None:
        self._note("durable", self._known["begun"])
        self._note(DURABLE, self._known[BEGUN])

    def flush(self) -> None:
        """Make the log durable."""
        self._store.flush()
        self._all_durable()

    def reput(self) -> None:
        """Have the writer catch its indexes up, which a follower does not let it."""
        try:
            self._store.reput(spark=False)
        except StoreLockedError:
            if self._follower is None:
                raise
            self._sometimes.reached(KEPT_OUT)
            return
        self._all_durable()

    def follow(self) -> None:
        """Have the follower index a part of what is new."""
        if self._follower is None:
            self._follower = Follow(self._path, LoopEngine(), self._config, max_batch_bytes=_STEP_BYTES)
        self._follower.step()

    def read(self) -> None:
        """Open the store beside its writer: each message is there once, in order."""
        with reput.MessageStore.open(self._path, self._config, read_only=True) as reader:
            numbers = self._numbers(reader)
            side = side_messages(reader)
        assert numbers.stop in (self._known["begun"], 0), f"a reader sees {numbers}"
        assert numbers.start <= self._known["may go"], f"a reader sees {numbers}"
        assert (side[-1].id + 1 if side else self._known[BEGUN]) == self._known[BEGUN], f"a reader sees {side}"

    def commit(self) -> None:
        """Commit an offset, and save it."""
        offset = self._known["committed"] + 1
        self._note("committed", offset)
        for queue_id in range(2):
            self._store.commit_offset(GROUP, "a", queue_id, offset)
        self._store.progress.persist()
        self._note("kept", offset)

    def reopen(self) -> None:
        """Close the store, with or without its indexes, and open it again."""
        self.close()
        self._store = self._open()

    def rebuild(self) -> None:
        """Build all indexes anew while the store is closed."""
        self.close()
        reput.rebuild(self._path, spark=False, config=self._config)
        self._store = self._open()

    def broker(self) -> None:
        """Have RocketMQ's broker go on with the store; it ends well, or is killed with entries missing."""
        self.close()
        broker = ModelBroker(self._path, self._config, self._now_ms)
        if not broker.knows(TOPICS):
            self._store = self._open()
            return
        if broker.may_lose_keys:
            self._sometimes.reached(LOST_KEYS)
            self._note(KEYS_LOST, 1)
        if broker.keeps_old_tags:
            self._note(TAGS_LOST, 1)
        broker.start()
        for _ in range(self._chance.randrange(1, 6)):
            number = self._known["begun"]
            self._note("begun", number + 1)
            self._note(KEYLESS, self._known[KEYLESS] | 1 << number)
            broker.put(TOPICS[number % 2], b"%d " % number)
            broker.dispatch(self._chance.randrange(3))
        self._sometimes.reached(BROKER)
        if self._chance.random() < 0.5:
            broker.close()
            self._all_durable()
        else:
            self._sometimes.reached(KILLED_BROKER)
        self._store = self._open()

    def close(self) -> None:
        """Close the follower and the store."""
        if self._follower is not None:
            follower, self._follower = self._follower, None
            follower.close()
        self._store.close(reput=self._chance.random() < 0.5)
        self._all_durable()

    def abandon(self) -> None:
        """Let the programs go; the disk is not looked at any more."""
        with contextlib.suppress(ReputError):
            if self._follower is not None:
                self._follower.close()
        with contextlib.suppress(ReputError):
            self._store.close(reput=False)


def _is_durable(promises: Promises, _: int, record: Record) -> bool:
    number = int(record.body.split()[0])
    return number < promises.last(DURABLE if record.topic == SIDE.encode() else "durable")


class Simulation(Lives):
    """Lives in which one step follows another."""

    kind, count = "simulation", 3

    def __init__(self, seed: int, folder: Path, sometimes: Sometimes, weights: Mapping[str, int] = WEIGHTS) -> None:
        super().__init__(seed, folder, sometimes)
        left_out = self._chance.choice((_BROKER_STEPS, _SIDE_STEPS))
        self._weights = {name: weight for name, weight in weights.items() if name not in left_out}
        self._jumps_ms = 0
        self._known = dict.fromkeys(_PROMISES, 0)

    def _clock_ns(self) -> int:
        return (next(self._ticks) + self._jumps_ms) * 1_000_000

    def _live(self, folder: Path, tree: Tree) -> Tree:
        write_tree(tree, folder / "disk")
        path, chance = folder / "disk" / "store", self._chance
        fails, full = {"failing_sync": chance.randrange(1, 12)}, {"full_from": chance.randrange(8, 60)}
        fault: dict[str, int] = chance.choice(({}, {}, fails, full))
        known = [Known(what, value) for what, value in self._known.items()]
        seed = chance.randrange(1 << 32)
        recorder = Recorder(folder / "disk", **fault, seed=seed)
        with determined(seed, self._clock_ns), pytest.MonkeyPatch.context() as patch, recorder:
            patch.setattr(message_store, "_TICK_S", 1000.0)
            before, is_closed = self._work(path, recorder, tree, fault)
        self._remember(recorder)
        # The power is cut at any call of the last step, or the store was closed and nothing is lost.
        call = len(recorder.journal) if is_closed else self._cut(recorder.journal, before)
        choice = 1 if is_closed else chance.choice((0, 1, *(chance.randrange(2, 1 << 32) for _ in range(4))))
        disk, promises = Disk(recorder.before), Promises(known)
        for entry in recorder.journal[:call]:
            disk.apply(entry)
            promises.add(entry)
        self._known = {what: promises.last(what) for what in _PROMISES}
        kept = disk.state(choice)
        shutil.rmtree(folder)
        self._done.append(f"{'closed' if is_closed else 'power cut'} after call {call}, choice {choice}")
        write_tree(kept, folder / "judged")
        # A store that was closed is whole: nothing in it is torn.
        if not is_closed and has_torn_head(folder / "judged" / "store", partial(_is_durable, promises)):
            self._sometimes.reached(TORN_HEAD)
            self._known = dict.fromkeys(_PROMISES, 0)
            kept = {}
        else:
            self._judge(folder / "judged", kept, promises)
        shutil.rmtree(folder / "judged")
        return kept

    def _work(self, path: Path, recorder: Recorder, tree: Tree, fault: dict[str, int]) -> tuple[int, bool]:
        """Take steps until the life ends; return the number of calls before the last step, and if it is a close."""
        before, life, chance = 0, None, self._chance
        try:
            life = _Life(path, recorder, chance, self._known, self._sometimes, lambda: self._clock_ns() // 1_000_000)
            self._sometimes.look_at_tail(tree, life.end)
            for _ in range(chance.randrange(1, _STEPS_MOST)):
                name = chance.choices(list(self._weights), list(self._weights.values()))[0]
                self._jumps_ms += chance.choice(_JUMPS_MS)
                self._done.append(name)
                before = len(recorder.journal)
                getattr(life, name)()
                if name == "delete_side" and chance.random() < 0.5:
                    break
            if chance.random() < 0.3:
                life.close()
                return before, True
        except (ReputError, NotStoredError) as error:
            # Only a fault of the disk makes a step fail.
            if not fault:
                raise AssertionError("a step fails without a fault of the disk") from error
            self._sometimes.reached(FAILED_SYNC if "failing_sync" in fault else FULL)
        finally:
            if life is not None:
                end = len(recorder.journal)
                life.abandon()
                del recorder.journal[end:]
        return before, False

    def _cut(self, journal: list[Entry], before: int) -> int:
        """Return the call of the last step after which the power is cut; of two swaps or deletions one is under way."""
        marks = [n for n, one in enumerate(journal) if isinstance(one, Rename) and one.to_name in _BEGINS]
        marks = [n for n in marks if n >= before]
        if marks and self._chance.random() < 0.5:
            return min(self._chance.choice(marks) + self._chance.randrange(2, 8), len(journal))
        return self._chance.randrange(before, len(journal) + 1)

    def _judge(self, folder: Path, kept: Tree, promises: Promises) -> None:
        """Fail unless what the disk has kept keeps its promises, whatever is done with it next."""
        self._sometimes.look_at_disk(kept)
        with determined():
            with contextlib.suppress(NotAStoreError), reput.MessageStore.open(folder / "store", SYNC) as store:
                assert_side_kept(store, promises)
            assert_kept(folder / "store", promises, Scenario(lambda *_: None, config=SYNC))
