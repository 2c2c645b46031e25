"""Lives of a store in which several threads are at work at the same time, in an order that the seed decides.

Each thread puts messages of its own, or flushes, indexes, follows, reads, waits, commits offsets or closes. The body of
a message names its thread and its number there. Whatever the order, a thread's messages are there once and in order,
and each can be read as soon as its put has returned.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import reput
from reput.errors import ClosedError, DamagedLogError, ReputError, StoreLockedError, TailFullError
from reput.pipeline.follow.catch_up import SparkIndexer
from reput.pipeline.follow.follow import Follow
from reput.pipeline.spark.engine import LoopEngine
from support.checked import assert_sound
from support.determined import determined
from support.power.disk import Disk, write_tree
from support.power.journal import Known
from support.power.recorder import Recorder
from support.power.scenarios import ASYNC, GROUP, SYNC, NotStoredError
from support.power.verdict import Promises, content, open_empty
from support.simulation.conductor import Conductor
from support.simulation.lives import Lives
from support.simulation.sometimes import CLOSED_AMID, CONTENDED, FAILED_SYNC, FULL, TAIL_FULL, TORN_HEAD
from support.simulation.torn import has_torn_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from support.power.disk import Tree
    from support.simulation.sometimes import Sometimes

_WRITERS, _CALLS_MOST = 3, 5
_TOPIC, _QUEUES = "a", 2
_TAIL_MOST = 12
_STEP_BYTES = 600
_OTHERS = ("flush", "index", "follow", "read", "read_beside", "wait", "commit", "close")
"""The works of threads that put nothing."""


def _message(writer: int, number: int, size: int = 0) -> reput.Message:
    return reput.Message(_TOPIC, b"%d %d " % (writer, number) + bytes(size), keys=f"k{writer}", tags="t")


def _by_writer(bodies: Iterable[bytes]) -> dict[int, list[int]]:
    """Return the numbers of each writer's messages, in their order."""
    found: dict[int, list[int]] = defaultdict(list)
    for body in bodies:
        writer, number = body.split()[:2]
        found[int(writer)].append(int(number))
    return found


class _Shared:
    """The store that the threads of one life share, and what they know of it."""

    def __init__(
        self, path: Path, recorder: Recorder, chance: random.Random, found: list[int], offset: int, sometimes: Sometimes
    ) -> None:
        self._path, self._recorder, self._chance, self._sometimes = path, recorder, chance, sometimes
        tail_most = chance.choice((None, None, _TAIL_MOST))
        self._config = replace(chance.choice((SYNC, ASYNC)), tail_max_entries=tail_most)
        self._is_sync = self._config.flush_disk_type == SYNC.flush_disk_type
        self._begun = list(found)
        self._returned = list(self._begun)
        self._first = list(self._begun)
        self._committed = offset
        self.closes = False
        self._store = self._open()
        self._note_durable(self._returned)

    def _open(self) -> reput.MessageStore:
        try:
            has_durable = any(self._begun)
            return self._open_now() if has_durable else open_empty(self._path, self._config)
        except TailFullError:
            # The two remedies that the error names. A follower does not cut what a power cut has torn.
            try:
                with contextlib.closing(Follow(self._path, LoopEngine(), ASYNC)) as follower:
                    while follower.step():
                        pass
            except DamagedLogError:
                self._config = replace(self._config, tail_max_entries=None)
            return self._open_now()

    def _open_now(self) -> reput.MessageStore:
        return reput.MessageStore.open(self._path, self._config, create=True)

    # --- what is known ---------------------------------------------------------------------------------

    def _note_durable(self, returned: list[int]) -> None:
        for writer, number in enumerate(returned):
            self._recorder.note(f"durable {writer}", number)

    def _begin(self, writer: int, count: int) -> range:
        begin = self._begun[writer]
        self._begun[writer] = begin + count
        self._recorder.note(f"begun {writer}", begin + count)
        return range(begin, begin + count)

    def _end(self, writer: int, result: object, end: int) -> None:
        if getattr(result, "status", None) is not reput.PutStatus.PUT_OK:
            raise NotStoredError
        self._returned[writer] = max(self._returned[writer], end)
        if self._is_sync:
            self._recorder.note(f"durable {writer}", self._returned[writer])

    # --- what the threads do -----------------------------------------------------------------------------

    def works(self) -> list[Callable[[], None]]:
        """Return what the threads of this life do."""
        chance = self._chance
        writers = range(chance.randrange(1, _WRITERS + 1))
        works: list[Callable[[random.Random], None]] = [partial(self._write, writer) for writer in writers]
        works += [getattr(self, f"_{name}") for name in chance.sample(_OTHERS, chance.randrange(1, 5))]
        return [partial(self._allow, work, random.Random(chance.random())) for work in works]

    def _allow(self, work: Callable[[random.Random], None], chance: random.Random) -> None:
        """Do a thread's work; another thread may close the store meanwhile, or keep this one out."""
        try:
            for _ in range(chance.randrange(1, _CALLS_MOST)):
                work(chance)
        except ClosedError:
            assert self.closes, "the store is closed, and nobody has closed it"
        except TailFullError:
            self._sometimes.reached(TAIL_FULL)

    def _write(self, writer: int, chance: random.Random) -> None:
        """Put messages: one, a batch, or some with futures."""
        kind, count, size = chance.randrange(3), chance.choice((2, 3)), chance.choice((0, 10, 400))
        numbers = self._begin(writer, 1 if kind == 0 else count)
        messages = [_message(writer, number, size) for number in numbers]
        if kind == 0:
            self._end(writer, self._store.put_message(messages[0], numbers[0] % _QUEUES), numbers.stop)
        elif kind == 1:
            queue_ids = [number % _QUEUES for number in numbers]
            self._end(writer, self._store.put_messages(messages, queue_ids), numbers.stop)
        else:
            numbered = list(zip(numbers, messages, strict=True))
            futures = [self._store.put_message_async(message, number % _QUEUES) for number, message in numbered]
            for number, future in zip(numbers, futures, strict=True):
                self._end(writer, future.result(), number + 1)

    def _flush(self, _: random.Random) -> None:
        """Make durable what was put before."""
        returned = list(self._returned)
        self._store.flush()
        self._note_durable(returned)

    def _index(self, _: random.Random) -> None:
        """Have the writer's indexes catch up, unless a follower builds them."""
        returned = list(self._returned)
        with contextlib.suppress(StoreLockedError):
            self._store.catch_up_with(SparkIndexer(LoopEngine()))
            self._note_durable(returned)

    def _follow(self, chance: random.Random) -> None:
        """Follow the store for some steps, unless another one does."""
        with contextlib.suppress(StoreLockedError):
            follower = Follow(self._path, LoopEngine(), self._config, max_batch_bytes=_STEP_BYTES)
            try:
                for _ in range(chance.randrange(1, 4)):
                    follower.step()
            finally:
                follower.close()

    def _read(self, _: random.Random) -> None:
        """Read each queue and ask for keys: all that puts have returned is there, in order."""
        self._see(self._store)

    def _read_beside(self, _: random.Random) -> None:
        """Do the same in a store that is open to read only."""
        with reput.MessageStore.open(self._path, self._config, read_only=True) as reader:
            self._see(reader)

    def _see(self, store: reput.MessageStore) -> None:
        returned = list(self._returned)
        for queue_id in range(_QUEUES):
            bodies, offset = [], 0
            while messages := list(result := store.get_message(_TOPIC, queue_id, offset)):
                assert [one.queue_offset for one in messages] == list(range(offset, offset + len(messages)))
                bodies += [one.body for one in messages]
                offset = result.next_offset
            found = _by_writer(bodies)
            for writer, end in enumerate(returned):
                self._see_all(writer, found[writer], end, queue_id, _QUEUES, f"queue {queue_id}")
        for writer, end in enumerate(returned):
            keyed = [one.body for one in store.query_message(_TOPIC, f"k{writer}", 1000)]
            self._see_all(writer, sorted(_by_writer(keyed)[writer]), end, 0, 1, f"key k{writer}")

    def _see_all(self, writer: int, numbers: list[int], end: int, remainder: int, step: int, where: str) -> None:
        """Fail unless a writer's messages of this life are there in order, at least those below number `end`."""
        # Of earlier lives a power cut may have taken the keys of messages that were not acknowledged.
        first = self._first[writer]
        found = [number for number in numbers if number >= first]
        all_of_them = [number for number in range(first, self._begun[writer]) if number % step == remainder]
        wanted = sum(number < end for number in all_of_them)
        assert found == all_of_them[: len(found)], f"{where} has {found} of writer {writer}"
        assert len(found) >= wanted, f"{where} lacks messages of writer {writer}: {found}, {end} puts have returned"

    def _wait(self, chance: random.Random) -> None:
        """Wait for the next message of a queue; if there is one, it can be read."""
        queue_id = chance.randrange(_QUEUES)
        offset = self._store.max_offset(_TOPIC, queue_id)
        if self._store.wait(_TOPIC, queue_id, offset, chance.choice((0.01, 3.0))):
            found = list(self._store.get_message(_TOPIC, queue_id, offset))
            assert found, "a wait ends, and no message is there"

    def _commit(self, chance: random.Random) -> None:
        """Commit an offset, and save it."""
        offset = self._committed = self._committed + 1
        self._recorder.note("committed", offset)
        self._store.commit_offset(GROUP, _TOPIC, 0, offset)
        if chance.random() < 0.5:
            self._store.progress.persist()
            self._recorder.note("kept", offset)

    def _close(self, chance: random.Random) -> None:
        """Close the store while others are at work, now and then."""
        if chance.random() < 0.3:
            self._sometimes.reached(CLOSED_AMID)
            self.end()

    def end(self) -> None:
        """Close the store; all that puts have returned is durable."""
        self.closes = True
        returned = list(self._returned)
        self._store.close(reput=self._chance.random() < 0.5)
        self._note_durable(returned)

    def abandon(self) -> None:
        """Let the store go; the disk is not looked at any more."""
        with contextlib.suppress(ReputError):
            self._store.close(reput=False)


class Together(Lives):
    """Lives in which threads are at work at the same time."""

    kind, count = "together", 2

    def __init__(self, seed: int, folder: Path, sometimes: Sometimes) -> None:
        super().__init__(seed, folder, sometimes)
        self._found, self._offset = [0] * _WRITERS, 0

    def _live(self, folder: Path, tree: Tree) -> Tree:
        write_tree(tree, folder / "disk")
        chance = self._chance
        fault: dict[str, int] = chance.choice(
            ({}, {}, {"failing_sync": chance.randrange(1, 12)}, {"full_from": chance.randrange(8, 60)})
        )
        seed = chance.randrange(1 << 32)
        recorder = Recorder(folder / "disk", **fault, seed=seed)
        with determined(seed, lambda: next(self._ticks) * 1_000_000), Conductor(chance) as conductor, recorder:
            is_closed = self._work(folder / "disk" / "store", recorder, conductor, fault)
        self._sometimes.reached(CONTENDED, bool(conductor.contended))
        self._remember(recorder)
        call = len(recorder.journal) if is_closed else chance.randrange(len(recorder.journal) + 1)
        choice = 1 if is_closed else chance.choice((0, 1, *(chance.randrange(2, 1 << 32) for _ in range(4))))
        disk = Disk(recorder.before)
        names = [f"{what} {writer}" for what in ("durable", "begun") for writer in range(_WRITERS)]
        values = [*self._found, *self._found, self._offset, self._offset]
        promises = Promises(map(Known, [*names, "kept", "committed"], values))
        for entry in recorder.journal[:call]:
            disk.apply(entry)
            promises.add(entry)
        kept = disk.state(choice)
        shutil.rmtree(folder)
        self._done.append(f"{'closed' if is_closed else 'power cut'} after call {call}, choice {choice}")
        durable = sum(promises.last(f"durable {writer}") for writer in range(_WRITERS))
        has_durable = durable > 0
        write_tree(kept, folder)
        # A store that was closed is whole: nothing in it is torn.
        is_torn = not is_closed and has_torn_head(folder / "store", lambda place, _: place < durable)
        self._sometimes.reached(TORN_HEAD, is_torn)
        if is_torn:
            self._found, self._offset, kept = [0] * _WRITERS, 0, {}
        else:
            self._judge(folder, promises, has_durable=has_durable)
        shutil.rmtree(folder)
        return kept

    def _work(self, path: Path, recorder: Recorder, conductor: Conductor, fault: dict[str, int]) -> bool:
        """Have threads work with the store; return True if it is closed, False if the power may be cut."""
        shared = None
        try:
            shared = _Shared(path, recorder, self._chance, self._found, self._offset, self._sometimes)
            conductor.together(shared.works())
            if shared.closes or self._chance.random() < 0.3:
                shared.end()
                return self._chance.random() < 0.5
        except (ReputError, NotStoredError) as error:
            # Only a fault of the disk makes a call fail.
            if not fault:
                raise AssertionError("a call fails without a fault of the disk") from error
            self._sometimes.reached(FAILED_SYNC if "failing_sync" in fault else FULL)
        finally:
            if shared is not None:
                end = len(recorder.journal)
                shared.abandon()
                del recorder.journal[end:]
        return False

    def _judge(self, folder: Path, promises: Promises, *, has_durable: bool) -> None:
        """Fail unless what the disk has kept keeps its promises."""
        path = folder / "store"
        with determined():
            with reput.MessageStore.open(path, SYNC) if has_durable else open_empty(path, SYNC) as store:
                found = _by_writer(content(store))
                for writer in range(_WRITERS):
                    numbers = found[writer]
                    assert numbers == list(range(len(numbers))), f"writer {writer} has {numbers}"
                    least, most = promises.last(f"durable {writer}"), promises.last(f"begun {writer}")
                    assert least <= len(numbers) <= most, f"writer {writer} has {len(numbers)} of {least} to {most}"
                offset = max(store.query_offset(GROUP, _TOPIC, 0), 0)
                assert promises.last("kept") <= offset <= promises.last("committed"), f"progress {offset}"
            assert_sound(path, SYNC)
        self._found, self._offset = [len(found[writer]) for writer in range(_WRITERS)], offset
