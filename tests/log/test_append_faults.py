"""Refusals of the system while the log is written: a status or a typed error, and a log that stays whole."""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from reput.errors import AccessError, FlushError, ReputError
from reput.files import fs
from reput.formats.log.client_batch import InnerMessage, encode_messages
from reput.formats.log.record import Host, encode_blank
from reput.log.append import append_file
from reput.log.encode.batch import raise_numbers
from reput.log.encode.client_batch import SentBatch
from reput.log.encode.message import Message, PutStatus
from reput.log.encode.topics import TopicTable
from support.appends import open_log, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reput.log.append.append import LogAppender


OK, FULL = PutStatus.PUT_OK, PutStatus.DISK_FULL


class Faults:
    """Functions of the file seam that fail while `failing` holds their names."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failing: dict[str, int] = {}
        self.calls: list[str] = []
        for name in ("reserve", "sync_data", "sync_path", "pwrite", "open_sized"):
            patch.setattr(fs, name, self._spoiled(name, getattr(fs, name)))

    def _spoiled(self, name: str, true: Callable[..., Any]) -> Callable[..., Any]:
        def spoiled(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            number = self.failing.get(name)
            if number is not None:
                with fs.errors_named("somewhere", name):
                    raise OSError(number, os.strerror(number))
            return true(*arguments, **named)

        return spoiled


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """The seam, whose functions can be made to fail; blocks are reserved in small steps."""
    monkeypatch.setattr(append_file, "RESERVE_STEP", 4096)
    return Faults(monkeypatch)


def one(size: int = 500) -> Message:
    """A message with a body of this size."""
    return Message("orders", bytes(size))


@pytest.mark.parametrize("function", ["reserve", "open_sized"])
@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("puts", range(12))
def test_a_full_disk_is_a_status(function: str, puts: int, buffered: bool, tmp_path: Path, faults: Faults) -> None:
    """Wherever the disk is full, a put and a batch say so and leave no trace; with room again the log goes on."""
    with open_log(tmp_path, file_size=4096, transient_store_pool_enable=buffered) as log:
        for _ in range(puts):
            assert log.append(one()).status is OK
        faults.failing[function] = errno.ENOSPC
        before, refused = (log.wrote, log.next_offset("orders", 0)), 0
        for _ in range(8):
            result = log.append(one())
            if result.status is OK:
                before = log.wrote, log.next_offset("orders", 0)
                continue
            refused += 1
            assert (result.status, "Make room" in result.reason) == (FULL, True)
            assert log.append_many([one(), one()]).status is FULL
            assert (log.wrote, log.next_offset("orders", 0)) == before
        assert refused > 0
        log.flush()
        faults.failing.clear()
        assert log.append(one()).status is OK
        assert log.append_many([one(), one()]).status is OK
        count = log.next_offset("orders", 0)
    assert [record.queue_offset for record in read_log(tmp_path)] == list(range(count))


def test_what_is_left_of_the_disk_is_used(tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without space for a whole step ahead still gives the blocks of the record's own pages."""
    true = fs.reserve

    def nearly_full(descriptor: int, offset: int, length: int) -> None:
        if length > 4096:
            raise OSError(errno.ENOSPC, "full")
        true(descriptor, offset, length)

    monkeypatch.setattr(fs, "reserve", nearly_full)
    with open_log(tmp_path) as log:
        assert [log.append(one()).status for _ in range(3)] == [OK] * 3
        assert log.append(one(8000)).status is FULL
        assert log.append(one()).status is OK


def test_no_rights_is_an_error_and_no_status(tmp_path: Path, faults: Faults) -> None:
    """An error that is no lack of space is raised, and the log can continue when it is mended."""
    with open_log(tmp_path) as log:
        faults.failing["open_sized"] = errno.EACCES
        with pytest.raises(AccessError):
            log.append(one())
        faults.failing.clear()
        assert log.append(one()).queue_offset == 0


@pytest.mark.parametrize("function", ["sync_data", "sync_path"])
def test_a_failed_flush_is_never_forgotten(function: str, tmp_path: Path, faults: Faults) -> None:
    """After a sync that failed nothing more is taken: each call says so, also when syncs work again."""
    log = open_log(tmp_path)
    log.append(one())
    faults.failing[function] = errno.EIO
    with pytest.raises(FlushError, match="log offset 0 may be lost"):
        log.flush()
    faults.failing.clear()
    for call in (lambda: log.append(one()), lambda: log.append_many([one()]), log.flush, log.commit, log.close):
        with pytest.raises(FlushError, match="open the store again"):
            call()
    assert log.flushed == 0
    log.close()


def test_a_failed_commit_is_never_forgotten(tmp_path: Path, faults: Faults) -> None:
    """A write buffer that cannot be written to its file ends the writing; readers never saw what was in it."""
    log = open_log(tmp_path, transient_store_pool_enable=True)
    log.append(one())
    faults.failing["pwrite"] = errno.EIO
    with pytest.raises(FlushError):
        log.commit()
    assert log.confirmed == 0
    with pytest.raises(FlushError):
        log.append(one())
    with pytest.raises(FlushError):
        log.close()


def test_a_flush_syncs_full_files_new_names_and_no_more(tmp_path: Path, faults: Faults) -> None:
    """Each file is synced, the folder when files are new, and nothing at all when nothing was put."""
    with open_log(tmp_path, file_size=1000) as log:
        for _ in range(3):
            log.append(one())
        faults.calls.clear()
        log.flush()
        assert faults.calls == ["sync_data"] * 3 + ["sync_path"]
        log.flush()
        assert len(faults.calls) == 4
        log.append(one(1))
        faults.calls.clear()
        log.flush()
        assert faults.calls == ["sync_data"]


def test_views_outlive_their_file(tmp_path: Path) -> None:
    """A map that a reader still looks at is let go of without an error, and the reader's bytes stay."""
    with open_log(tmp_path, file_size=1000) as log:
        log.append(one())
        view = memoryview(log._files.current.memory)[:500]  # type: ignore[union-attr]
        before = bytes(view)
        log.append(one())
        log.append(one())
        log.flush()
        assert bytes(view) == before
    assert bytes(view) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_batch_that_is_half_written_leaves_nothing(
    number: int, tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch whose writing breaks off becomes zeros again, no number is used, and the log continues.

    The batches are tuples: a kernel places ordinary lists in memory, and writes nothing.
    """
    with open_log(tmp_path) as log:
        log.append(one())
        before, true, calls = (log.wrote, log.next_offset("orders", 0)), fs.pwrite, []

        def breaks_off(descriptor: int, data: bytes | memoryview, offset: int) -> None:
            calls.append(offset)
            if len(calls) == 1:
                true(descriptor, memoryview(data)[: len(data) // 2], offset)
                raise OSError(number, os.strerror(number))
            true(descriptor, data, offset)

        monkeypatch.setattr(fs, "pwrite", breaks_off)
        if number == errno.ENOSPC:
            assert log.append_many((one(), one())).status is FULL
        else:
            with pytest.raises(ReputError, match="cannot write"):
                log.append_many((one(), one()))
        assert calls == [before[0], before[0]]
        assert (log.wrote, log.next_offset("orders", 0)) == before
        assert len(read_log(tmp_path)) == 1
        assert log.append_many((one(), one())).queue_offsets.tolist() == [1, 2]
    assert [record.queue_offset for record in read_log(tmp_path)] == [0, 1, 2]


def test_a_batch_that_cannot_be_taken_back_ends_the_writing(tmp_path: Path, faults: Faults) -> None:
    """A batch that can neither be written nor zeroed ends the writing: nothing more is taken."""
    log = open_log(tmp_path)
    log.append(one())
    faults.failing["pwrite"] = errno.EIO
    with pytest.raises(FlushError, match="may be lost"):
        log.append_many((one(), one()))
    faults.failing.clear()
    for call in (lambda: log.append(one()), log.flush, log.close):
        with pytest.raises(FlushError, match="open the store again"):
            call()


def test_a_disk_that_is_full_under_the_map(tmp_path: Path, faults: Faults) -> None:
    """A put whose reserved blocks turn out to be missing is refused before the map is touched."""
    with open_log(tmp_path) as log:
        faults.failing["pwrite"] = errno.ENOSPC
        assert log.append(one()).status is FULL
        faults.failing.clear()
        assert log.append(one()).queue_offset == 0


@pytest.mark.parametrize("broken", [KeyboardInterrupt, MemoryError])
def test_a_batch_that_is_interrupted_leaves_nothing(
    broken: type[BaseException], tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two pieces, or after the last, all can come: the batch is zeros again, and no number is used."""
    messages = pa.table({"topic": ["orders"] * 4000, "body": [bytes(300)] * 4000})
    with open_log(tmp_path, file_size=1 << 22) as log:
        log.append(one())
        before, true, calls = (log.wrote, log.next_offset("orders", 0)), fs.pwrite, []

        def breaks_off(descriptor: int, data: bytes | memoryview, offset: int) -> None:
            calls.append(offset)
            true(descriptor, data, offset)
            if len(calls) == 2:
                raise broken

        monkeypatch.setattr(fs, "pwrite", breaks_off)
        with pytest.raises(broken):
            log.append_columns(messages)
        monkeypatch.undo()
        assert (log.wrote, log.next_offset("orders", 0)) == before
        assert len(read_log(tmp_path)) == 1
        assert log.append(one()).queue_offset == 1
    assert [record.queue_offset for record in read_log(tmp_path)] == [0, 1]


def test_an_interrupted_batch_that_cannot_be_taken_back_ends_the_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt goes on its way, and the log takes nothing more."""
    log = open_log(tmp_path)

    def breaks_off(descriptor: int, data: bytes | memoryview, offset: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fs, "pwrite", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        log.append_many([one(), one()])
    monkeypatch.undo()
    for call in (lambda: log.append(one()), log.close):
        with pytest.raises(FlushError, match="a batch broke off"):
            call()


def test_an_interrupted_flush_leaves_all_to_the_next(
    tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of an earlier writer, a full file and the folder's names are synced by the flush that comes through."""
    with open_log(tmp_path, file_size=4096) as log:
        log.append(one())
        end = log.wrote
    with open_log(tmp_path, file_size=4096, end_offset=end, flushed_offset=0) as log:
        for _ in range(12):
            log.append(one())
        true, calls = fs.sync_data, []

        def breaks_off(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == 2:
                raise KeyboardInterrupt
            true(descriptor)

        monkeypatch.setattr(fs, "sync_data", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            log.flush()
        assert log.flushed == 0
        faults.calls.clear()
        assert log.flush().offset == log.flushed == log.wrote
        # The earlier writer's file and the folder; the two that became full, and the current one.
        assert (faults.calls.count("sync_path"), faults.calls.count("sync_data")) == (2, 3)


def test_a_buffered_put_that_is_interrupted_behind_the_roll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer is still written to its place if an interrupt comes when the next file is current already."""
    with open_log(tmp_path, file_size=4096, transient_store_pool_enable=True) as log:
        while log.wrote < 3500:
            log.append(one())

        def breaks_off(file: append_file.AppendFile) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(append_file.AppendFile, "drop_memory", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            log.append(one())
        monkeypatch.undo()
        before = log.next_offset("orders", 0)
        assert log.commit() == log.confirmed == log.wrote
        assert log.append(one()).queue_offset == before
    assert [record.queue_offset for record in read_log(tmp_path)] == list(range(before + 1))


def test_what_was_committed_leaves_the_write_buffer(tmp_path: Path) -> None:
    """The system has the memory of whole pages back as soon as the file holds what was in them."""
    with open_log(tmp_path, file_size=32 << 10, transient_store_pool_enable=True) as log:
        while log.wrote < 10_000:
            log.append(one())
        log.commit()
        assert log._end.memory is not None
        assert not any(log._end.memory[:8192])
        assert any(log._end.memory[8192 : log.wrote])
    assert sum(record.size for record in read_log(tmp_path)) == log.wrote


@pytest.mark.parametrize("way", ["commit", "roll"])
def test_a_commit_that_is_interrupted_behind_its_pages(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that have left the write buffer are not written once more, and what follows them is written whole."""
    with open_log(tmp_path, file_size=32 << 10, transient_store_pool_enable=True) as log:
        while log.wrote < (10_000 if way == "commit" else (32 << 10) - 700):
            log.append(one())
        true = fs.forget_pages

        def breaks_off(*arguments: Any) -> None:
            true(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(fs, "forget_pages", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            log.commit() if way == "commit" else log.append(one(1000))
        monkeypatch.undo()
        assert log.append(one(20)).physical_offset < 32 << 10
        for _ in range(8):
            log.append(one())
        count = log.next_offset("orders", 0)
    assert [record.queue_offset for record in read_log(tmp_path)] == list(range(count))


def test_numbers_are_raised_together_or_not_at_all() -> None:
    """An interrupt between two queues of a batch leaves each with the number it had."""
    topics = TopicTable({(b"a", 0): 7}, 0, True)
    known = topics.topic("a")
    before = list(known.next_offsets())

    def numbers() -> Iterator[int]:
        yield 9
        yield 3
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        raise_numbers([(known, 0), (known, 1), (known, 2)], numbers())
    assert list(known.next_offsets()) == before == [(0, 7)]
    raise_numbers([(known, 0), (known, 1)], [9, 3])
    assert list(known.next_offsets()) == [(0, 9), (1, 3)]


def test_puts_that_are_interrupted_anywhere(tmp_path: Path) -> None:
    """However often Ctrl-C comes, the lock is free, nothing lies after the end, and numbers have no gap."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    batch = pa.table({"topic": ["a", "b"] * 20, "body": [bytes(300)] * 40})
    previous = signal.signal(signal.SIGALRM, interrupt)
    caught = 0
    try:
        with open_log(tmp_path, file_size=1 << 20) as log:
            # The first batch imports its module, which an interrupt leaves half imported.
            log.append_columns(batch)
            for turn in range(3000):
                try:
                    signal.setitimer(signal.ITIMER_REAL, (10 + turn % 97) * 1e-6)
                    for number in range(200):
                        if number % 40 or turn % 10:
                            log.append(Message("ab"[number % 2], bytes(300)))
                        else:
                            log.append_columns(batch)
                except KeyboardInterrupt:
                    caught += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                assert log._lock.acquire(timeout=5)
                log._lock.release()
                position = log.wrote - log._end.start
                if log._end.memory is not None and log._end.room_end > 0:
                    later = log._end.memory[position : position + 32_000]
                    # The blank record of a file whose end was interrupted: it is put again, or written over.
                    blank = encode_blank(log._files.current.size - position)  # type: ignore[union-attr]
                    assert not any(later.removeprefix(blank))
            numbers = {name: log.next_offset(name, 0) for name in "ab"}
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert caught
    records = read_log(tmp_path)
    for name, following in numbers.items():
        mine = [record.queue_offset for record in records if record.topic == name.encode()]
        assert mine == list(range(following))


CLIENT_BATCH = encode_messages([InnerMessage(0, bytes(300), b"")] * 2)
PUTS: dict[str, Callable[[LogAppender], object]] = {
    "any": lambda log: log.append(Message("a", bytes(300), reconsume_times=1)),
    "list": lambda log: log.append_many([Message("a", bytes(300), reconsume_times=1), Message("b", bytes(300))]),
    "columns": lambda log: log.append_columns(pa.table({"topic": ["a", "b"], "body": [bytes(300)] * 2})),
    "client": lambda log: log.append_client_batch(SentBatch("a", 0, CLIENT_BATCH, 0, 0, Host(bytes(4), 5))),
}


# An interrupt that meets a generator while the interpreter closes it is reported, not raised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("put", PUTS)
def test_a_put_interrupted_between_its_numbers_and_the_log_end_left_a_gap(put: str, tmp_path: Path) -> None:
    """Ctrl-C at the begin of any Python function that a put calls leaves the numbers of the queues without a gap."""
    with open_log(tmp_path) as log:
        PUTS[put](log)
        interrupted = 0
        for last in range(1, 120):
            calls = 0

            def interrupt(_frame: object, event: str, _argument: object, last: int = last) -> None:
                nonlocal calls
                calls += event == "call"
                if calls == last:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

            # A put after one that was interrupted takes other calls: so each place is met in several of the puts.
            for _ in range(3):
                calls = 0
                sys.setprofile(interrupt)
                try:
                    PUTS[put](log)
                except KeyboardInterrupt:
                    interrupted += 1
                finally:
                    sys.setprofile(None)
                PUTS[put](log)
        assert interrupted > 3
        numbers = {name: log.next_offset(name, 0) for name in "ab"}
    for name, following in numbers.items():
        mine = [record.queue_offset for record in read_log(tmp_path) if record.topic == name.encode()]
        assert mine == list(range(following))


@pytest.mark.parametrize("broken", [KeyboardInterrupt, MemoryError])
def test_a_put_that_is_interrupted_behind_its_record(
    broken: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is written when the interrupt comes, and that no put answers for, is zeros again."""
    with open_log(tmp_path) as log:
        log.append(one())

        def breaks_off(*_: Any) -> None:
            raise broken

        monkeypatch.setattr("reput.log.append.append.raise_numbers", breaks_off)
        with pytest.raises(broken):
            log.append(Message("orders", b"x", reconsume_times=1))
        monkeypatch.undo()
        assert len(read_log(tmp_path)) == 1
        assert log.append(one()).queue_offset == 1
