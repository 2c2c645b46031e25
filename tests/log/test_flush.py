"""Flushing: who waits for what, one sync for many, and a failure that reaches everybody."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from reput.errors import ClosedError, FlushError
from reput.files import fs
from reput.files.watermarks import WatermarkCell
from reput.log.append import append
from reput.log.append.append import LogAppender
from reput.log.append.flush import FlushService, is_due
from reput.log.append.positions import Flushed
from reput.log.append.settings import FlushDiskType
from reput.log.encode.message import Message, PutStatus
from support.appends import open_log, read_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = 4096
FOREVER_MS = 3_600_000
PATIENCE_S = 60


def quiet_log(folder: Path, **named: Any) -> LogAppender:
    """A log whose flushes come only when somebody asks."""
    quiet = {"flush_interval_commit_log": FOREVER_MS, "flush_commit_log_thorough_interval": FOREVER_MS}
    return open_log(folder, **{**quiet, **named})


def sync_log(folder: Path, **named: Any) -> LogAppender:
    """The same with sync flush."""
    return quiet_log(folder, flush_disk_type=FlushDiskType.SYNC_FLUSH, **named)


def one(**values: Any) -> Message:
    """A message."""
    return Message(**{"topic": "orders", "body": b"body", **values})


class Gate:
    """A sync that waits until the gate is opened, and counts."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.calls = 0
        true = fs.sync_data

        def sync(descriptor: int) -> None:
            self.calls += 1
            self.entered.set()
            assert self.opened.wait(PATIENCE_S)
            true(descriptor)

        patch.setattr(fs, "sync_data", sync)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The gate before every sync."""
    return Gate(monkeypatch)


@pytest.mark.parametrize(
    ("position", "done", "least_pages", "due"),
    [
        (0, 0, 0, False), (1, 0, 0, True), (4 * PAGE - 1, 0, 4, False), (4 * PAGE, 0, 4, True),
        (4 * PAGE, PAGE - 1, 4, True), (5 * PAGE - 1, PAGE, 4, False), (100 * PAGE, 100 * PAGE - 1, 4, True),
        (100 * PAGE, 100 * PAGE, 0, False),
    ],
)  # fmt: skip
def test_is_due(position: int, done: int, least_pages: int, due: bool) -> None:
    """Pages are counted from page to page; a file that became full is due at once; nothing new never is."""
    assert is_due(position, done, least_pages, 100 * PAGE) is due


def test_a_sync_put_is_durable_when_it_returns(tmp_path: Path) -> None:
    """With sync flush an answered put is flushed and confirmed; so is a batch."""
    with sync_log(tmp_path) as log, FlushService(log) as flush:
        result = flush.settle(log.append(one()))
        assert (result.status, log.flushed, log.confirmed) == (PutStatus.PUT_OK, result.end_offset, result.end_offset)
        many = flush.settle(log.append_many([one(), one()]))
        assert (many.status, log.flushed) == (PutStatus.PUT_OK, many.end_offset)


def test_wait_false_does_not_wait(tmp_path: Path, gate: Gate) -> None:
    """A message with WAIT=false is answered at once, before it is durable; the service flushes it later."""
    with sync_log(tmp_path) as log, FlushService(log) as flush:
        message = one(properties={"WAIT": "false"})
        result = flush.settle(log.append(message), waits=message.waits_for_flush)
        assert (result.status, log.flushed) == (PutStatus.PUT_OK, 0)
        gate.opened.set()


def test_a_disk_that_is_too_slow_is_a_status(tmp_path: Path, gate: Gate) -> None:
    """After syncFlushTimeout the put is answered FLUSH_DISK_TIMEOUT; its message is stored, and durable later."""
    with sync_log(tmp_path, sync_flush_timeout=1) as log, FlushService(log) as flush:
        result = flush.settle(log.append(one()))
        assert result.status is PutStatus.FLUSH_DISK_TIMEOUT
        assert result.status.is_stored
        assert (log.flushed, log.confirmed) == (0, 0)
        gate.opened.set()
        assert flush.wait_flushed(result.end_offset, PATIENCE_S * 1000)
    assert len(read_log(tmp_path)) == 1


def test_those_who_wait_share_a_sync(tmp_path: Path, gate: Gate) -> None:
    """Puts that come while a sync is under way share the next one."""
    with sync_log(tmp_path, sync_flush_timeout=PATIENCE_S * 1000) as log, FlushService(log) as flush:
        statuses = []

        def put() -> None:
            statuses.append(flush.settle(log.append(one())).status)

        first = threading.Thread(target=put)
        first.start()
        assert gate.entered.wait(PATIENCE_S)
        # All of them have put, and wait, before the first sync is over.
        others = [threading.Thread(target=put) for _ in range(20)]
        for thread in others:
            thread.start()
        while log.next_offset("orders", 0) < 21:
            gate.entered.wait(0.001)
        gate.opened.set()
        for thread in (first, *others):
            thread.join()
        assert statuses == [PutStatus.PUT_OK] * 21
        assert gate.calls <= 3


def test_promises_share_a_sync(tmp_path: Path, gate: Gate) -> None:
    """One thread puts on while a sync is under way; what it was promised meanwhile is kept by the next one."""
    with sync_log(tmp_path) as log, FlushService(log) as flush:
        first = flush.promise(log.append(one()))
        assert gate.entered.wait(PATIENCE_S)
        others = [flush.promise(log.append(one())) for _ in range(20)]
        assert not any(future.done() for future in (first, *others))
        assert not first.cancel()
        gate.opened.set()
        results = [future.result(PATIENCE_S) for future in (first, *others)]
        assert [(result.status, result.queue_offset) for result in results] == [
            (PutStatus.PUT_OK, n) for n in range(21)
        ]
        assert log.flushed == results[-1].end_offset
        assert gate.calls <= 3


def test_promises_beside_those_who_wait(tmp_path: Path) -> None:
    """Threads that wait and threads with promises share the syncs, and nobody is forgotten."""
    late = []
    with sync_log(tmp_path, sync_flush_timeout=PATIENCE_S * 1000) as log, FlushService(log) as flush:

        def put(count: int, promised: bool) -> None:
            for _ in range(count):
                result = log.append(one())
                result = flush.promise(result).result(PATIENCE_S) if promised else flush.settle(result)
                if result.status is not PutStatus.PUT_OK or log.flushed < result.end_offset:
                    late.append(result)

        threads = [threading.Thread(target=put, args=(5 * number, number % 2 == 0)) for number in range(1, 11)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert late == []
    assert len(read_log(tmp_path)) == 275


def test_promises_that_are_kept_at_once(tmp_path: Path, gate: Gate) -> None:
    """A put that does not wait, or stored nothing, has a future that is done, with the put's own answer."""
    gate.opened.set()
    with quiet_log(tmp_path / "async") as log, FlushService(log) as flush:
        result = log.append(one())
        assert flush.promise(result).result(0) is result
    gate.opened.clear()
    with sync_log(tmp_path / "sync") as log, FlushService(log) as flush:
        assert flush.promise(log.append(one()), waits=False).result(0).status is PutStatus.PUT_OK
        refused = log.append(one(topic=""))
        assert flush.promise(refused).result(0) is refused
        assert log.flushed == 0
        gate.opened.set()


def test_closing_keeps_promises(tmp_path: Path, gate: Gate) -> None:
    """A promise from before the service is closed is durable afterwards; a later one is refused."""
    with sync_log(tmp_path) as log:
        flush = FlushService(log)
        futures = [flush.promise(log.append(one()))]
        assert gate.entered.wait(PATIENCE_S)
        futures += [flush.promise(log.append(one())) for _ in range(5)]
        closing = threading.Thread(target=flush.close)
        closing.start()
        gate.opened.set()
        closing.join()
        assert [future.result(0).status for future in futures] == [PutStatus.PUT_OK] * 6
        with pytest.raises(ClosedError, match="before log offset"):
            flush.promise(log.append(one())).result(0)


def test_a_callback_that_fails_harms_nobody(tmp_path: Path, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """A callback may raise anything: the other futures get their answers, and the service continues."""

    def leave(_: object) -> None:
        raise SystemExit(1)

    with sync_log(tmp_path) as log, FlushService(log) as flush:
        futures = [flush.promise(log.append(one())) for _ in range(5)]
        futures[1].add_done_callback(leave)
        gate.opened.set()
        assert [future.result(PATIENCE_S).status for future in futures] == [PutStatus.PUT_OK] * 5
        assert flush.promise(log.append(one())).result(PATIENCE_S).status is PutStatus.PUT_OK
        assert flush._failure is None
    assert "SystemExit" in caplog.text


def test_a_failed_sync_fails_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Futures of what the disk refused to keep fail, those of the puts on their way then, too; none stays open."""
    log = sync_log(tmp_path)

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with FlushService(log) as flush:
        with monkeypatch.context() as patch:
            patch.setattr(fs, "sync_data", refuse)
            futures = [flush.promise(log.append(one()))]
            with contextlib.suppress(FlushError):
                futures.append(flush.promise(log.append(one())))
            for future in futures:
                with pytest.raises(FlushError, match="may be lost"):
                    future.result(PATIENCE_S)
        with pytest.raises(FlushError):
            log.append(one())
    with pytest.raises(FlushError):
        log.close()


def test_many_who_put_again_and_again(tmp_path: Path) -> None:
    """However many put, each is answered when its own message is durable, and none is forgotten."""
    syncs: list[Flushed] = []
    with sync_log(tmp_path, sync_flush_timeout=PATIENCE_S * 1000) as log, FlushService(log, syncs.append) as flush:
        late = []

        def put(count: int) -> None:
            for _ in range(count):
                result = flush.settle(log.append(one()))
                if result.status is not PutStatus.PUT_OK or log.flushed < result.end_offset:
                    late.append(result)

        # They leave one after the other, so that fewer come back than are expected.
        threads = [threading.Thread(target=put, args=(5 * number,)) for number in range(1, 11)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert late == []
        assert log.next_offset("orders", 0) == 275
        assert len(syncs) <= 275
    assert len(read_log(tmp_path)) == 275


def test_one_that_is_interrupted_keeps_nobody_waiting(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is gone before it wakes the next keeps nobody waiting: the next is woken all the same."""
    from reput.log.append import flush as module

    true, lost = module._rouse, []

    def loses_one(waiters: Any) -> None:
        if type(waiters) is tuple and not lost:
            lost.append(waiters)
            return
        true(waiters)

    monkeypatch.setattr(module, "_rouse", loses_one)
    with sync_log(tmp_path, sync_flush_timeout=PATIENCE_S * 1000) as log, FlushService(log) as flush:
        statuses: list[PutStatus] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(flush.settle(log.append(one())).status)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        while len(flush._waiters) < 7:
            gate.entered.wait(0.001)
        gate.opened.set()
        for thread in threads:
            thread.join(PATIENCE_S / 2)
        assert (statuses, len(lost)) == ([PutStatus.PUT_OK] * 8, 1)


def test_who_waits_for_what_is_not_put_yet(tmp_path: Path) -> None:
    """One who waits for more than has been put is answered by the flush that brings it."""
    with sync_log(tmp_path) as log, FlushService(log) as flush:
        size = flush.settle(log.append(one())).size
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(flush.wait_flushed(3 * size, PATIENCE_S * 1000)))
        waiter.start()
        while not flush._parked:
            threading.Event().wait(0.001)
        flush.settle(log.append(one()))
        assert answers == []
        flush.settle(log.append(one()))
        waiter.join()
        assert answers == [True]


def test_async_flush_goes_by_pages_and_thoroughly(tmp_path: Path) -> None:
    """A log that has grown by 4 pages is flushed at the next turn; the thorough interval takes what is left."""
    seen: list[Flushed] = []
    moved = threading.Event()

    def note(flushed: Flushed) -> None:
        seen.append(flushed)
        moved.set()

    with open_log(tmp_path, flush_interval_commit_log=1, flush_commit_log_thorough_interval=FOREVER_MS) as log:
        with FlushService(log, note):
            small = log.append(one())
            big = log.append(one(body=bytes(4 * PAGE)))
            assert moved.wait(PATIENCE_S)
        assert seen[0] == Flushed(big.end_offset, big.store_timestamp)
        assert small.end_offset < log.flushed
    with (
        open_log(tmp_path / "thorough", flush_interval_commit_log=1, flush_commit_log_thorough_interval=1) as log,
        FlushService(log) as flush,
    ):
        end = log.append(one()).end_offset
        while log.flushed < end:
            assert flush._failure is None
            moved.wait(0.001)


def test_an_async_put_does_not_wait(tmp_path: Path) -> None:
    """With async flush a put is answered at once."""
    with quiet_log(tmp_path) as log, FlushService(log) as flush:
        assert flush.settle(log.append(one())).status is PutStatus.PUT_OK
        assert log.flushed == 0


def test_a_write_buffer_is_committed_in_steps(tmp_path: Path) -> None:
    """With a write buffer readers see a message once the second thread has written it to the file."""
    log = quiet_log(tmp_path, transient_store_pool_enable=True, commit_interval_commit_log=1)
    with log, FlushService(log):
        for size in (1, 5 * PAGE, 3):
            end = log.append(one(body=bytes(size))).end_offset
            while log.confirmed < end:
                threading.Event().wait(0.001)
            assert (log.committed, log.flushed) == (end, 0)
    assert [len(record.body) for record in read_log(tmp_path)] == [1, 5 * PAGE, 3]


def test_a_failed_sync_reaches_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed sync reaches those that wait and the next put, even if the disk seems well again."""
    log = sync_log(tmp_path)
    with FlushService(log) as flush:
        with monkeypatch.context() as patch:

            def refuse(_: int) -> None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            patch.setattr(fs, "sync_data", refuse)
            with pytest.raises(FlushError, match="may be lost"):
                flush.settle(log.append(one()))
        assert isinstance(flush._failure, FlushError)
        with pytest.raises(FlushError):
            log.append(one())
        with pytest.raises(FlushError):
            flush.wait_flushed(1, PATIENCE_S * 1000)
    with pytest.raises(FlushError):
        log.close()


def test_what_a_full_file_took_from_the_write_buffer_is_readable(tmp_path: Path) -> None:
    """A file that has become full is written out whole, and readers may look that far at once, not a step later."""
    with open_log(tmp_path, file_size=4096, transient_store_pool_enable=True) as log:
        for _ in range(30):
            log.append(one(body=bytes(200)))
        assert log.committed == log.confirmed == log.wrote // 4096 * 4096 > 0


def test_a_flush_tells_the_time_of_what_it_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a write buffer a flush speaks for the files: its store time is of the last record that they hold."""
    clock_ms = itertools.count(1_700_000_000_000, 1000)
    monkeypatch.setattr(append, "_time_ns", lambda: next(clock_ms) * 1_000_000)
    before = 1_600_000_000_000
    log = open_log(tmp_path, file_size=4096, transient_store_pool_enable=True, last_store_timestamp=before)
    with log:
        results = [log.append(one()) for _ in range(3)]
        assert log.flush() == Flushed(0, before)
        log.commit()
        results += [log.append(one()) for _ in range(3)]
        assert log.flush() == Flushed(results[2].end_offset, results[2].store_timestamp)
        # The roll writes out what the full file holds, and no more.
        while results[-1].physical_offset < 4096:
            results.append(log.append(one()))
        assert log.flush() == Flushed(4096, results[-2].store_timestamp)
        log.commit()
        assert log.flush() == Flushed(results[-1].end_offset, results[-1].store_timestamp)


class _Mark:
    """A watermark that, when it is let go of, says what the log answers at that moment."""

    def __init__(self, answers: list[Any], ask: Callable[[], Any]) -> None:
        self.memory = array("q", [0])
        self._answers, self._ask = answers, ask

    def __getitem__(self, place: int) -> int:
        return self.memory[place]

    def __setitem__(self, place: int, value: int) -> None:
        self.memory[place] = value

    def release(self) -> None:
        """Gone: to read it is an error."""
        del self.memory
        self._answers.append(self._ask())


def test_positions_can_be_asked_for_while_the_log_closes(tmp_path: Path) -> None:
    """No position that is read while the log closes lies in memory that is gone."""
    answers: list[Any] = []

    class Marks:
        """Hands out such watermarks."""

        def cell(self, _: str) -> Any:
            """One of them."""
            mark = _Mark(answers, lambda: (log.flushed, log.confirmed))
            return WatermarkCell(mark, mark.memory.buffer_info()[0])  # type: ignore[arg-type]

    log = open_log(tmp_path, watermarks=Marks())
    end = log.append(one()).end_offset
    log.close()
    assert answers == [(end, end)] * 3


def test_what_a_killed_writer_left_is_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first flush of a log that was taken over syncs each file that holds more than is known to be durable."""
    with open_log(tmp_path, file_size=4096) as log:
        for _ in range(60):
            log.append(one(body=bytes(200)))
        end = log.wrote
    synced: list[str] = []
    true = fs.sync_path
    monkeypatch.setattr(fs, "sync_path", lambda path: (synced.append(path.name), true(path))[1])
    with open_log(tmp_path, file_size=4096, end_offset=end, flushed_offset=5000) as log:
        assert (log.flushed, log.confirmed) == (5000, end)
        assert log.flush().offset == log.flushed == end
        # And the names: who was killed may have made the last file.
        assert synced == [*(f"{start:020d}" for start in range(4096, end, 4096)), tmp_path.name]
        synced.clear()
        log.flush()
        assert not synced


def test_a_write_buffer_can_be_waited_for(tmp_path: Path) -> None:
    """A wait for a message in the write buffer commits and flushes it; one for a message not yet put times out."""
    log = quiet_log(tmp_path, transient_store_pool_enable=True, commit_interval_commit_log=FOREVER_MS)
    with log, FlushService(log) as flush:
        end = log.append(one()).end_offset
        assert flush.wait_flushed(end, PATIENCE_S * 1000)
        assert not flush.wait_flushed(end + 1, 1)


def test_waiting_ends_with_the_service(tmp_path: Path) -> None:
    """Nobody waits for a flush that will never come."""
    with sync_log(tmp_path) as log:
        flush = FlushService(log)
        flush.close()
        flush.close()
        end = log.append(one()).end_offset
        with pytest.raises(ClosedError, match="durable"):
            flush.wait_flushed(end, PATIENCE_S * 1000)
        log.flush()
        assert flush.wait_flushed(end, 0)


def test_a_listener_that_raises_is_no_secret(tmp_path: Path) -> None:
    """An error that nobody expected ends the service with a failure, not with silence."""

    def burst(_: Flushed) -> None:
        raise ZeroDivisionError

    seen: list[object] = []
    hook, threading.excepthook = threading.excepthook, lambda arguments: seen.append(arguments.exc_type)
    try:
        with sync_log(tmp_path) as log, FlushService(log, burst) as flush:
            flush.settle(log.append(one()))
            flush._threads[0].join(PATIENCE_S)
            assert isinstance(flush._failure, FlushError)
    finally:
        threading.excepthook = hook
    assert seen == [ZeroDivisionError]
