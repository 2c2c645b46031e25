"""The programs of a soak: `python -m support.soak.programs ROLE STORE BOARD SEED`, each in a process of its own.

Each queue belongs to one thread of the writer, so its messages are numbered by one counter, and a reader sees them in
their order. A body names its queue and its number.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
import time
import zlib
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from support.soak.board import QUEUES, Board, Phase, Timed, Weather
from support.soak.weather import begin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import reput
    from reput.log.append.flush import PutFuture
    from reput.log.encode.message import PutManyResult, PutResult

TOPICS, BATCH, UNDER_WAY, AT_ONCE = 4, 50, 64, 64
FILE_BYTES = 4 << 20
KEPT_BYTES = 16 * FILE_BYTES
"""The bytes of log that are kept once they are read. The reader may lag by as much again before the writer waits."""
TAIL_MAX = 200_000
SETTINGS = {
    "mappedFileSizeCommitLog": f"{FILE_BYTES}",
    "mappedFileSizeConsumeQueue": f"{20 * 20_000}",
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
}
"""The sizes of the store's files, for every program that makes some."""
_Tried = TypeVar("_Tried")
_NOISE = random.Random(1).randbytes(1 << 16)
_LATE_S = 60.0
_GONE_S = 5.0
"""Time for a reader to see that another process has deleted a file."""


class LostError(Exception):
    """A message is not there, or another is in its place."""


def place(queue: int) -> tuple[str, int]:
    """The topic and the queue id of a queue."""
    return f"soak-{queue % TOPICS}", queue // TOPICS


def key_of(queue: int, number: int) -> str:
    """The key of a message."""
    return f"k-{queue}-{number}"


def body_of(queue: int, number: int) -> bytes:
    """The body of a message; one in 500 is large."""
    chance = zlib.crc32(b"%d %d" % (queue, number))
    size = 40_000 if chance % 500 == 0 else chance % 400
    begins = chance % (len(_NOISE) - size)
    return b"%d %d " % (queue, number) + _NOISE[begins : begins + size]


def config(seed: int, turn: int) -> reput.StoreConfig:
    """The configuration of one open: all kinds of weather come with async flush, then with sync flush."""
    import reput

    flush = ("ASYNC_FLUSH", "SYNC_FLUSH")[(seed + turn // len(Weather)) % 2]
    values = SETTINGS | {"flushDiskType": flush, "deleteFileBatchMax": "100"}
    return replace(reput.StoreConfig.from_properties(values), tail_max_entries=TAIL_MAX)


# --- the writer -----------------------------------------------------------------------------------


class Writer:
    """The store's writer: threads that put, those that wait for what comes, and one that has old files deleted."""

    def __init__(self, path: Path, board: Board, seed: int) -> None:
        self._path, self._board, self._seed = path, board, seed
        self._failed: list[BaseException] = []

    def run(self) -> None:
        """Open the store whenever there is work, and close it for each pause."""
        for turn in itertools.count():
            self._work(turn)
            self._board.state[Board.PAUSED] = 1
            while self._board.phase is Phase.PAUSE:
                time.sleep(0.05)
            if self._board.phase is Phase.END:
                return
            self._board.state[Board.PAUSED] = 0

    def _work(self, turn: int) -> None:
        import reput

        with reput.MessageStore.open(self._path, config(self._seed, turn), create=True) as store:
            own = [range(first, QUEUES, 4) for first in range(4)]
            works: list[Callable[[], None]] = [
                *(lambda queues=queues: self._put(store, queues, 1) for queues in own[:2]),
                lambda: self._put(store, own[2], BATCH),
                lambda: self._put_promised(store, own[3]),
                *(lambda queue=queue: self._wait(store, queue) for queue in range(2)),
                lambda: self._delete(store),
            ]
            self._board.state[Board.WRITER_OPEN] = 1
            threads = [threading.Thread(target=self._guarded, args=[work]) for work in works]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if self._failed:
                raise self._failed[0]
            self._board.state[Board.WRITER_OPEN] = 0

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            self._failed.append(error)

    @property
    def _goes_on(self) -> bool:
        return self._board.phase is Phase.WORK and not self._failed

    def _turns(self, store: reput.MessageStore, queues: range, chance: random.Random) -> Iterator[int]:
        """Yield queues while there is work and the reader and the follower keep up."""
        while self._goes_on:
            end = store.view.confirmed()
            self._board.state[Board.LOG_END] = end
            if end - int(self._board.state[Board.READ_TO]) > KEPT_BYTES:
                time.sleep(0.005)
                continue
            for _ in range(20):
                yield chance.choice(queues)

    def _messages(self, queue: int, count: int) -> list[reput.Message]:
        import reput

        topic, first = place(queue)[0], int(self._board.put[queue])
        return [
            reput.Message(topic, body_of(queue, number), "soak", key_of(queue, number))
            for number in range(first, first + count)
        ]

    def _stored(self, queue: int, messages: list[reput.Message]) -> None:
        total = int(self._board.put_sums[queue])
        for message in messages:
            total = zlib.crc32(message.body, total)
        self._board.put_sums[queue] = total
        self._board.put[queue] += len(messages)

    def _refused(self, reason: str) -> None:
        self._board.state[Board.REFUSED] += 1
        if not reason:
            raise LostError("a put was refused without a reason")
        time.sleep(0.02)

    def _tried(self, put: Callable[[], _Tried]) -> _Tried | None:
        """The answer to a put; None if it waited in vain for the follower, which may lag for long on a slow disk."""
        import reput

        try:
            return put()
        except reput.TailFullError as error:
            self._refused(str(error))
            return None

    def _put(self, store: reput.MessageStore, queues: range, count: int) -> None:
        """Put messages one by one, or that number at once."""
        timed = Timed.PUT if count == 1 else Timed.BATCH
        for queue in self._turns(store, queues, random.Random(self._seed + queues.start)):
            messages, queue_id = self._messages(queue, count), place(queue)[1]
            put: Callable[[], PutResult | PutManyResult] = partial(store.put_messages, messages, queue_id)
            if count == 1:
                put = partial(store.put_message, messages[0], queue_id)
            begun = time.perf_counter_ns()
            result = self._tried(put)
            if result is None:
                continue
            self._board.took(timed, time.perf_counter_ns() - begun)
            if result.status.is_stored:
                self._stored(queue, messages)
            else:
                self._refused(result.reason)

    def _put_promised(self, store: reput.MessageStore, queues: range) -> None:
        """Have puts under way; a queue's next message is begun when the one before is known to be stored or not."""
        under_way: deque[tuple[int, int, PutFuture[PutResult]]] = deque()

        def settle() -> None:
            queue, begun, future = under_way.popleft()
            result = future.result(_LATE_S)
            self._board.took(Timed.PROMISED, time.perf_counter_ns() - begun)
            if not result.status.is_stored:
                raise LostError(f"queue {queue}: a promised put ended with {result}")

        for queue in self._turns(store, queues, random.Random(self._seed + queues.start)):
            messages = self._messages(queue, 1)
            begun = time.perf_counter_ns()
            future = self._tried(partial(store.put_message_async, messages[0], place(queue)[1]))
            if future is None:
                continue
            if future.done() and not future.result().status.is_stored:
                self._refused(future.result().reason)
                continue
            # Stored, though not durable yet: the queue's next message has the next number.
            self._stored(queue, messages)
            under_way.append((queue, begun, future))
            if len(under_way) == UNDER_WAY:
                settle()
        while under_way:
            settle()

    def _wait(self, store: reput.MessageStore, queue: int) -> None:
        """Wait for a queue's next message, again and again."""
        topic, queue_id = place(queue)
        while self._goes_on:
            offset = store.max_offset(topic, queue_id)
            begun = time.perf_counter_ns()
            if store.wait(topic, queue_id, offset, 1.0):
                self._board.took(Timed.WAIT, time.perf_counter_ns() - begun)
                found = store.get_message(topic, queue_id, offset, 1)
                if [message.body for message in found] != [body_of(queue, offset)]:
                    raise LostError(f"{topic}/{queue_id} at {offset}: {found}")

    def _delete(self, store: reput.MessageStore) -> None:
        """Age the log's files that have been read, and have the store delete what has expired."""
        folder = store.layout.commit_log
        while self._goes_on:
            time.sleep(0.5)
            files = sorted(folder.glob("[0-9]*"))
            keep_from = min(int(self._board.state[Board.READ_TO]), store.view.confirmed() - KEPT_BYTES)
            for file in files:
                if int(file.name) + FILE_BYTES <= keep_from:
                    os.utime(file, (1, 1))
            self._board.state[Board.LAG] = store.lag().bytes
            self._board.state[Board.DELETED] += len(store.delete_expired(manual=True))


# --- those that read ------------------------------------------------------------------------------


def read(path: Path, board: Board, _seed: int) -> None:
    """Read every queue to its end, in rounds; each message must be the next one of its queue."""
    store = _opened(path, board)
    while board.phase is not Phase.END and store is not None:
        board.state[Board.READ_TO] = _read_round(store, board)
        time.sleep(0.02)
    if store is not None:
        _read_round(store, board)
        store.close()


def _opened(path: Path, board: Board) -> reput.MessageStore | None:
    """Open the store once it is there; None if the soak ends before."""
    import reput

    while board.phase is not Phase.END:
        try:
            return reput.MessageStore.open(path, read_only=True)
        except reput.NotAStoreError:
            time.sleep(0.05)
    return None


def _read_round(store: reput.MessageStore, board: Board) -> int:
    """Read all queues to their ends; return the log offset up to which all has been read."""
    confirmed = store.view.confirmed()
    for queue in range(QUEUES):
        topic, queue_id = place(queue)
        end = store.max_offset(topic, queue_id)
        while (offset := int(board.read[queue])) < end:
            begun = time.perf_counter_ns()
            found = store.get_message(topic, queue_id, offset, AT_ONCE)
            board.took(Timed.GET, time.perf_counter_ns() - begun)
            if not found.messages or found.messages[0].queue_offset != offset:
                raise LostError(f"{topic}/{queue_id}: {offset} of {end} is not there: {found}")
            total = int(board.read_sums[queue])
            for number, message in enumerate(found.messages, offset):
                if message.body != body_of(queue, number):
                    raise LostError(f"{topic}/{queue_id} at {number}: the body is {message.body[:40]!r}...")
                total = zlib.crc32(message.body, total)
            board.read_sums[queue] = total
            board.read[queue] = offset + len(found.messages)
    return confirmed


def ask(path: Path, board: Board, seed: int) -> None:
    """Ask for messages by key, and for offsets by time; what is not deleted must be found."""
    store, chance = _opened(path, board), random.Random(seed)
    while board.phase is not Phase.END and store is not None:
        queue = chance.randrange(QUEUES)
        topic, queue_id = place(queue)
        first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        if first == end:
            time.sleep(0.01)
            continue
        _find(store, board, queue, chance.randrange(first, end))
        offset = store.offset_by_time(topic, queue_id, 1)
        if offset > store.min_offset(topic, queue_id):
            raise LostError(f"{topic}/{queue_id}: the first message by time is {offset}")
        board.state[Board.ASKED] += 1
        if board.phase is Phase.PAUSE:
            # The reader and the rebuild are waited for.
            time.sleep(0.02)
    if store is not None:
        store.close()


def _find(store: reput.MessageStore, board: Board, queue: int, number: int) -> None:
    """Find a message by its key, unless it is deleted meanwhile."""
    topic, queue_id = place(queue)
    deadline = time.monotonic() + _GONE_S
    while True:
        begun = time.perf_counter_ns()
        found = store.query_message(topic, key_of(queue, number))
        board.took(Timed.ASK, time.perf_counter_ns() - begun)
        if [message.body for message in found] == [body_of(queue, number)]:
            return
        if number < store.min_offset(topic, queue_id):
            return
        if time.monotonic() > deadline:
            raise LostError(f"{topic}/{queue_id} at {number}: its key finds {found}")
        time.sleep(0.05)


def follow(path: Path, board: Board, _seed: int) -> None:
    """Follow the store, and note the messages that it has indexed."""
    import reput

    if (store := _opened(path, board)) is None:
        return
    store.close()
    with reput.follow(path, spark=False, config=reput.StoreConfig.from_properties(SETTINGS)) as follower:
        while board.phase is not Phase.END:
            follower.wait(0.2)
            board.state[Board.FOLLOWED] = follower.progress.messages


PROGRAMS = {
    "writer": lambda path, board, seed: Writer(path, board, seed).run(),
    "reader": read,
    "asker": ask,
    "follower": follow,
}


def main() -> NoReturn:
    """Run one program until the board says that it is over."""
    role, store, words, seed = sys.argv[1:]
    board = Board(Path(words))
    begin(board)
    PROGRAMS[role](Path(store), board, int(seed))
    sys.exit(0)


if __name__ == "__main__":
    main()
