"""The programs whose disk the sweep stops: each is a function of a store's folder and of `note`.

A program says before each put how many messages it has `begun`, and after an answer how many are `durable`; likewise
with committed offsets (`committed`, `kept`) and with messages that may go (`may go`) or are gone (`gone`). The body of
a message is its number, so a store's content says whether one is lost, doubled or out of order.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reput
from reput.config import StoreConfig
from reput.connect.sink.columns import message_columns
from reput.connect.sink.ledger import BEGUN, Ledger
from reput.connect.sink.sink import commit_batch
from reput.connect.sink.staging import Stager
from reput.queue.file_kind import FileKind
from reput.store.owner import swap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reput.log.encode.message import PutManyResult, PutResult
    from reput.store.message_store import LocalStore

ASYNC = StoreConfig(
    mapped_file_size_commit_log=1 << 12,
    mapped_file_size_consume_queue=100,
    max_hash_slot_num=16,
    max_index_num=8,
    flush_interval_commit_log=1 << 40,
    flush_commit_log_thorough_interval=1 << 40,
)
"""Five entries a queue file, seven items an IndexFile, some 25 small messages a log file; no flush unasked."""
SYNC = replace(ASYNC, flush_disk_type="SYNC_FLUSH")
WITH_CRC = replace(SYNC, enabled_append_prop_crc=True, force_verify_prop_crc=True)
"""Properties have a CRC, too."""
TOPICS = ("a", "b")
GROUP = "g"
_BATCHES, _IN_BATCH = 3, 6
"""Batches of a stream, and messages in each."""
_BORN_MS = 1_700_000_000_000


class Scenario(NamedTuple):
    """A program: `prepare` makes the store before the recorder looks, `work` is what it looks at.

    `again`: what the program does with a store after a crash, given how many messages were durable; it returns how many
    there must be then. `is_as_rebuilt`: what is built from the log has the bytes that a rebuild of the log gives it.
    """

    work: Callable[[Path, Callable[[str, int], None]], None]
    prepare: Callable[[Path, Callable[[str, int], None]], None] | None = None
    config: StoreConfig = SYNC
    again: Callable[[reput.MessageStore, int], int] | None = None
    is_as_rebuilt: bool = True


class NotStoredError(Exception):
    """A put was refused, as on a full disk: the program ends."""


def message(number: int, size: int = 0) -> reput.Message:
    """Return the message with this number; its topic and its key follow from it."""
    return reput.Message(TOPICS[number % 2], b"%d " % number + bytes(size), keys=f"k{number % 3}", tags="t")


def _put(store: reput.MessageStore, note: Callable[[str, int], None], numbers: range, size: int = 0) -> None:
    """Put messages one by one into a store with sync flush."""
    for number in numbers:
        note("begun", number + 1)
        _store(store, number, size)
        note("durable", number + 1)


def _store(store: reput.MessageStore, number: int, size: int = 0) -> None:
    _stored(store.put_message(message(number, size)))


def _stored(result: PutResult | PutManyResult) -> None:
    if result.status is not reput.PutStatus.PUT_OK:
        raise NotStoredError(f"{result.status}: {result.reason}")


def _put_unflushed(store: reput.MessageStore, note: Callable[[str, int], None], numbers: range, size: int = 0) -> None:
    """Put messages into a store with async flush. What makes them durable follows, and notes it."""
    note("begun", numbers.stop)
    for number in numbers:
        _store(store, number, size)


def put(path: Path, note: Callable[[str, int], None]) -> None:
    """Make a store and put messages, each of which waits for its flush."""
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        _put(store, note, range(8))
        store.close(reput=False)


def roll(path: Path, note: Callable[[str, int], None]) -> None:
    """Put messages that take three files of the log."""
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        _put(store, note, range(9), 1000)
        store.close(reput=False)


def put_with_crc(path: Path, note: Callable[[str, int], None]) -> None:
    """Put messages whose properties have a CRC."""
    with reput.MessageStore.open(path, WITH_CRC, create=True) as store:
        _put(store, note, range(12), 200)
        store.close(reput=False)


def batch(path: Path, note: Callable[[str, int], None]) -> None:
    """Put batches, each of which waits for its flush."""
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        for begin in range(0, 36, 6):
            note("begun", begin + 6)
            _stored(store.put_messages([message(number) for number in range(begin, begin + 6)]))
            note("durable", begin + 6)
        store.close(reput=False)


def put_async(path: Path, note: Callable[[str, int], None]) -> None:
    """Put messages that do not wait; their futures do, all together."""
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        for begin in range(0, 12, 4):
            note("begun", begin + 4)
            for future in [store.put_message_async(message(number)) for number in range(begin, begin + 4)]:
                _stored(future.result())
            note("durable", begin + 4)
        store.close(reput=False)


def flush(path: Path, note: Callable[[str, int], None]) -> None:
    """Put messages that are not flushed, and flush some of them."""
    with reput.MessageStore.open(path, ASYNC, create=True) as store:
        for begin in range(0, 40, 8):
            _put_unflushed(store, note, range(begin, begin + 8))
            if begin != 16:
                store.flush()
                note("durable", begin + 8)
        store.close(reput=False)


def reputting(path: Path, note: Callable[[str, int], None]) -> None:
    """Put messages, and have them indexed, three times."""
    with reput.MessageStore.open(path, ASYNC, create=True) as store:
        for begin in range(0, 27, 9):
            _put_unflushed(store, note, range(begin, begin + 9))
            store.reput(spark=False)
            note("durable", begin + 9)
        store.close(reput=False)


def close(path: Path, note: Callable[[str, int], None]) -> None:
    """Put into a store, close it with its indexes, twice."""
    for begin in (0, 8):
        with reput.MessageStore.open(path, ASYNC, create=True) as store:
            _put_unflushed(store, note, range(begin, begin + 8))
        note("durable", begin + 8)


def progress(path: Path, note: Callable[[str, int], None]) -> None:
    """Commit offsets, and save them."""
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        for offset in range(1, 5):
            note("committed", offset)
            for queue_id in range(2):
                store.commit_offset(GROUP, "a", queue_id, offset)
            store.progress.persist()
            note("kept", offset)
        store.close(reput=False)


def progress_of_messages(path: Path, note: Callable[[str, int], None]) -> None:
    """Put messages that nothing flushes, and save how far a group has read them: the log must be durable before."""
    with reput.MessageStore.open(path, ASYNC, create=True) as store:
        note("rests on messages", 1)
        for number in range(0, 8, 2):
            _put_unflushed(store, note, range(number, number + 2))
            read = store.max_offset("a", 0)
            note("committed", read)
            store.commit_offset(GROUP, "a", 0, read)
            store.progress.persist()
            note("kept", read)
            note("durable", number + 2)
        store.close(reput=False)


def _filled(path: Path, note: Callable[[str, int], None], count: int = 20, size: int = 0) -> None:
    with reput.MessageStore.open(path, ASYNC, create=True) as store:
        _put_unflushed(store, note, range(count), size)
    note("durable", count)


def _filled_large(path: Path, note: Callable[[str, int], None]) -> None:
    _filled(path, note, 9, 1000)


def _filled_many_files(path: Path, note: Callable[[str, int], None]) -> None:
    _filled(path, note, 32, 1000)


def rebuild(path: Path, note: Callable[[str, int], None]) -> None:
    """Build all indexes anew beside the old ones, and swap them in."""
    del note
    reput.rebuild(path, spark=False, config=ASYNC)


def delete(path: Path, note: Callable[[str, int], None]) -> None:
    """Delete the first files of the log, and those of queues whose messages they had."""
    # Three messages a file of the log, and the last file stays.
    note("may go", 30)
    config = replace(ASYNC, file_reserved_time=0)
    with reput.MessageStore.open(path, config, delete_expired=True) as store:
        store.delete_expired(manual=True)


def _torn(path: Path, note: Callable[[str, int], None]) -> None:
    """Leave a log with a record that is torn, as a crash does."""
    _filled(path, note, 12)
    name = max((path / "commitlog").iterdir())
    with reput.MessageStore.open(path, SYNC) as store:
        end = store.put_message(message(12)).end_offset
        store.close(reput=False)
    for known in ("reput/watermarks", "reput/given-offsets", "checkpoint"):
        (path / known).unlink()
    data = bytearray(name.read_bytes())
    data[end - 60 : end] = bytes(60)
    name.write_bytes(data)
    (path / "abort").write_bytes(b"1")


def recovery(path: Path, note: Callable[[str, int], None]) -> None:
    """Open a store that a crash has left, put and close."""
    with reput.MessageStore.open(path, SYNC) as store:
        _put(store, note, range(12, 15))
        store.close(reput=False)


class _Killed(BaseException):
    """The program ends here, as by SIGKILL."""


def _half_swapped(path: Path, note: Callable[[str, int], None]) -> None:
    """Leave a store whose rebuild was killed after the first part of its swap."""
    _filled(path, note)
    true = swap._swap_part

    def first_part(*given: Path) -> None:
        true(*given)
        raise _Killed

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_Killed):
        patch.setattr(swap, "_swap_part", first_part)
        patch.setattr(swap, "_undo", lambda *_: None)
        reput.rebuild(path, spark=False, config=ASYNC)


def _half_deleted(path: Path, note: Callable[[str, int], None]) -> None:
    """Leave a store whose deletion of a topic was killed before the first queue went."""
    _filled(path, note)
    note("topic may go", 1)

    def kill(*_: object, **__: object) -> None:
        raise _Killed

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_Killed):
        patch.setattr(FileKind, "delete", kill)
        with reput.MessageStore.open(path, ASYNC) as store:
            store.delete_topic("b")


def _torn_in_the_middle(path: Path, note: Callable[[str, int], None]) -> None:
    """Leave three files of the log, the first of which ends with a torn record, as a crash without flushes may."""
    _filled_large(path, lambda _, __: None)
    note("begun", 9)
    first = min((path / "commitlog").iterdir())
    for known in ("reput/watermarks", "reput/given-offsets", "reput/frontier", "checkpoint"):
        (path / known).unlink()
    data = bytearray(first.read_bytes())
    # Half of the third record; the first two are whole.
    with reput.MessageStore.open(path, SYNC, read_only=True) as store:
        third = list(store.messages("a"))[1]
    data[third.physical_offset + 600 :] = bytes(len(data) - third.physical_offset - 600)
    first.write_bytes(data)
    (path / "abort").write_bytes(b"1")
    note("durable", 2)


def go_on(path: Path, note: Callable[[str, int], None]) -> None:
    """Open a store that a kill has left in the middle of its work, put and close."""
    with reput.MessageStore.open(path, SYNC) as store:
        _put(store, note, range(20, 23))
        store.close(reput=False)


def finish(path: Path, note: Callable[[str, int], None]) -> None:
    """Open a store that a kill has left in the middle of its work, and close it with its indexes."""
    del note
    with reput.MessageStore.open(path, ASYNC):
        pass


def go_on_after_a_cut(path: Path, note: Callable[[str, int], None]) -> None:
    """Open a store whose log is cut in its first file, put and close."""
    with reput.MessageStore.open(path, SYNC) as store:
        # Numbers from 2 on are given again.
        note("begun", 9)
        _put(store, note, range(2, 5))
        store.close(reput=False)


def follow(path: Path, note: Callable[[str, int], None]) -> None:
    """Put messages, and have a follower index them."""
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        _put(store, note, range(12))
        store.close(reput=False)
    with reput.follow(path, spark=False, config=SYNC, until_caught_up=True) as following:
        following.wait()


def to_rocksdb(path: Path, note: Callable[[str, int], None]) -> None:
    """Build the queues as a database, and swap it in."""
    del note
    reput.convert(path, to="rocksdb", spark=False, config=ASYNC)


def _filled_database(path: Path, note: Callable[[str, int], None]) -> None:
    _filled(path, note)
    reput.convert(path, to="rocksdb", spark=False, config=ASYNC)


def to_file(path: Path, note: Callable[[str, int], None]) -> None:
    """Build the queues as files out of a database, and swap them in."""
    del note
    reput.convert(path, to="file", spark=False, config=ASYNC)


def export(path: Path, note: Callable[[str, int], None]) -> None:
    """Export the messages, and once more after others came."""
    reput.export(path, path.parent / "lake", spark=False, config=ASYNC)
    note("exported", 20)
    with reput.MessageStore.open(path, ASYNC) as store:
        _put_unflushed(store, note, range(20, 24))
    note("durable", 24)
    reput.export(path, path.parent / "lake", spark=False, config=ASYNC)
    note("exported", 24)


def export_again(store: reput.MessageStore, durable: int) -> int:
    """Export what came since: the Parquet files have each message once, and no other file is among them."""
    lake = store.layout.root.parent / "lake"
    reput.export(store.layout.root, lake, spark=False, config=ASYNC)
    numbers = sorted(int(body.split()[0]) for body in pq.read_table(lake, columns=["body"])["body"].to_pylist())
    assert numbers == list(range(len(numbers))), f"the export has messages {numbers}"
    assert len(numbers) >= durable, f"the export has {len(numbers)} messages, and {durable} are durable"
    return len(numbers)


def sink(path: Path, note: Callable[[str, int], None]) -> None:
    """Append the batches of a stream, as Spark's driver does."""
    with reput.MessageStore.open(path, SYNC, create=True) as store:
        for number in range(_BATCHES):
            note("begun", (number + 1) * _IN_BATCH)
            _commit(store, number)
            note("durable", (number + 1) * _IN_BATCH)
        store.close(reput=False)


def sink_again(store: reput.MessageStore, durable: int) -> int:
    """Append the batch again that Spark does not know to be done."""
    number = min(durable // _IN_BATCH, _BATCHES - 1)
    _commit(store, number)
    return (number + 1) * _IN_BATCH


def _commit(store: LocalStore, number: int) -> None:
    folder = store.layout.own("sinks") / "stream"
    messages = [message(one) for one in range(number * _IN_BATCH, (number + 1) * _IN_BATCH)]
    columns = {
        "topic": [one.topic for one in messages],
        "body": [one.body for one in messages],
        "keys": [one.keys for one in messages],
    }
    stager = Stager(folder / "staged", store.layout, store.config)
    stager.add(message_columns(pa.record_batch(columns), None, _BORN_MS))
    stager.flush()
    commit_batch(store, folder, Ledger("query", number, BEGUN, stager.files))


def delete_topic(path: Path, note: Callable[[str, int], None]) -> None:
    """Delete the queues of a topic."""
    note("topic may go", 1)
    with reput.MessageStore.open(path, ASYNC) as store:
        store.delete_topic("b")
        note("topic gone", 1)


SCENARIOS = {
    "put": Scenario(put),
    "put with crc": Scenario(put_with_crc, config=WITH_CRC),
    "batch": Scenario(batch),
    "put async": Scenario(put_async),
    "roll": Scenario(roll),
    "flush": Scenario(flush, config=ASYNC),
    "reput": Scenario(reputting, config=ASYNC),
    "follow": Scenario(follow),
    "close": Scenario(close, config=ASYNC),
    "progress": Scenario(progress),
    "progress of messages": Scenario(progress_of_messages, config=ASYNC),
    "rebuild": Scenario(rebuild, _filled, ASYNC),
    # Entries of deleted messages stay in their file until all of it may go; a rebuild makes none.
    "delete": Scenario(delete, _filled_many_files, ASYNC, is_as_rebuilt=False),
    # A rebuild of the log alone does not know that a topic was deleted.
    "delete topic": Scenario(delete_topic, _filled, ASYNC, is_as_rebuilt=False),
    "recovery": Scenario(recovery, _torn),
    "recovery of a swap": Scenario(go_on, _half_swapped),
    "recovery of a deletion": Scenario(finish, _half_deleted, ASYNC, is_as_rebuilt=False),
    "recovery of three files": Scenario(go_on_after_a_cut, _torn_in_the_middle),
    "export": Scenario(export, _filled, ASYNC, again=export_again),
    "sink": Scenario(sink, again=sink_again),
    # A rebuild of the log alone builds files, not a database.
    "to rocksdb": Scenario(to_rocksdb, _filled, ASYNC, is_as_rebuilt=False),
    "to file": Scenario(to_file, _filled_database, ASYNC, is_as_rebuilt=False),
}
