"""Writes of frames and streams on a full disk: the error says what is in the log, and no row is stored twice."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

import reput
from connect.test_sink import new_store, numbers_in, writer
from reput.connect.sink import ledger as ledgers
from reput.connect.sink import sink as sinks
from reput.connect.writer import RocketmqStreamWriter, RocketmqWriter
from reput.errors import FlushError, NoSpaceError
from reput.files import fs
from reput.log.append import append_file
from reput.store.message_store import LocalStore
from support.checked import assert_sound

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALL = list(range(100))
Writer = RocketmqWriter | RocketmqStreamWriter


def bodies(numbers: list[int]) -> pa.RecordBatch:
    """Messages of 1 KiB."""
    return pa.record_batch({"body": [f"{number:05d}" * 200 for number in numbers]})


def streamed(store: Path) -> RocketmqStreamWriter:
    """A writer of a stream's batches."""
    schema = StructType([StructField("body", StringType())])
    given = {"path": str(store), "topic": "orders", "checkpointLocation": str(store.parent / "checkpoint")}
    return RocketmqStreamWriter(given, schema)


def done_by(one: Writer, numbers: list[int] = ALL) -> None:
    """Do what Spark does with a writer: the tasks write, the driver commits, and aborts where that fails."""
    batch = (7,) if isinstance(one, RocketmqStreamWriter) else ()
    messages = [one.write(iter([bodies(numbers)]))]
    try:
        one.commit(messages, *batch)
    except BaseException:
        one.abort(messages, *batch)
        raise


def full(function: str, patch: pytest.MonkeyPatch, number: int = errno.ENOSPC, at: int = 1, only: str = "") -> None:
    """Let a function of the file seam fail from its `at`th call on, of those whose path has `only` in it."""
    real, calls = getattr(fs, function), 0

    def spoiled(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += only in str(arguments[0])
        if only in str(arguments[0]) and calls >= at:
            with fs.errors_named(str(arguments[0]), function):
                raise OSError(number, os.strerror(number))
        return real(*arguments, **named)

    patch.setattr(fs, function, spoiled)


WRITERS: dict[str, Callable[[Path], Writer]] = {
    "without a writeId": writer,
    "with a writeId": lambda store: writer(store, writeId="day one"),
    "a stream": streamed,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_in_the_middle_of_an_append(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error counts what is in the log and says how to go on; done so, each row is there once."""
    store = tmp_path / "store"
    new_store(store).close()
    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "_PIECE_BYTES", 1 << 13)
        patch.setattr(append_file, "RESERVE_STEP", 4096)
        full("reserve", patch, at=9)
        with pytest.raises(NoSpaceError) as raised:
            done_by(WRITERS[name](store))
    left, text = numbers_in(store), str(raised.value)
    assert left == ALL[: len(left)]
    assert 0 < len(left) < 100
    assert f"{len(left)} of 100 messages are in the log" in text
    assert "Make room on this file system" in text
    if name == "without a writeId":
        assert "would store them twice" in text
        write_id = re.search(r"writeId', '(batch-[0-9a-f]{32})'\)", text)
        assert write_id is not None
        done_by(writer(store, writeId=write_id[1]))
        assert list((store / "reput" / "sinks" / write_id[1]).rglob("*.arrow")) == []
    else:
        assert ("same writeId" if name == "with a writeId" else "same checkpoint") in text
        # Spark may bring the rows in another order: those that were staged first count.
        done_by(WRITERS[name](store), ALL[::-1])
    assert numbers_in(store) == ALL
    assert_sound(store)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("function", "only"), [("write_whole", "ledger"), ("open_sized", "commitlog")])
def test_a_full_disk_before_the_first_message(
    name: str, function: str, only: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk before the first message is reported as such, and the same job run again stores each row once."""
    store = tmp_path / "store"
    new_store(store).close()
    with monkeypatch.context() as patch:
        full(function, patch, only=only)
        with pytest.raises(NoSpaceError, match="Nothing of this write is in the log: run it again"):
            done_by(WRITERS[name](store))
    assert numbers_in(store) == []
    if name == "without a writeId":
        assert list((store / "reput" / "sinks").iterdir()) == []
    done_by(WRITERS[name](store))
    assert numbers_in(store) == ALL


@pytest.mark.parametrize("name", WRITERS)
def test_the_last_word_does_not_fit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that cannot be written after all messages are stored is reported, and a second run stores no message."""
    store = tmp_path / "store"
    new_store(store).close()
    with monkeypatch.context() as patch:
        full("write_whole", patch, at=2, only="ledger")
        with pytest.raises(NoSpaceError, match="100 of 100 messages are in the log") as raised:
            done_by(WRITERS[name](store))
    write_id = re.search(r"batch-[0-9a-f]{32}", str(raised.value))
    done_by(writer(store, writeId=write_id[0]) if write_id else WRITERS[name](store))
    assert numbers_in(store) == ALL


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_for_the_indexes_is_a_warning(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages that are in the log are written: a job that failed now would be run again, and store them twice."""
    store = tmp_path / "store"
    new_store(store).close()
    with monkeypatch.context() as patch:
        full("open_sized", patch, only="consumequeue")
        done_by(WRITERS[name](store))
    assert "all messages of this write are in the log and readable, and not yet in the indexes" in caplog.text
    assert numbers_in(store) == ALL
    reput.follow(store, spark=False, until_caught_up=True).wait()
    assert_sound(store)


def test_a_flush_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed flush the error does not promise that nothing was kept: the run that finishes it looks."""
    store = tmp_path / "store"
    new_store(store).close()
    with monkeypatch.context() as patch:
        full("sync_data", patch, errno.EIO)
        with pytest.raises(FlushError, match="of 100 messages are in the log") as raised:
            done_by(writer(store))
    write_id = re.search(r"batch-[0-9a-f]{32}", str(raised.value))
    assert write_id is not None
    done_by(writer(store, writeId=write_id[0]))
    assert numbers_in(store) == ALL


def test_full_while_tasks_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that cannot stage leaves nothing in the log and nothing staged."""
    store = tmp_path / "store"
    new_store(store).close()
    one = writer(store)
    with monkeypatch.context() as patch:
        full("write_whole", patch, only="staged")
        with pytest.raises(NoSpaceError, match="Make room"):
            one.write(iter([bodies(ALL)]))
    one.abort([None])
    assert list((store / "reput" / "sinks").rglob("*")) == []
    assert numbers_in(store) == []


def test_the_store_cannot_be_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that cannot open the store to finish a write does not say that nothing is in the log."""
    store = tmp_path / "store"
    new_store(store).close()
    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "_PIECE_BYTES", 1 << 13)
        patch.setattr(append_file, "RESERVE_STEP", 4096)
        full("reserve", patch, at=9)
        with pytest.raises(NoSpaceError):
            done_by(writer(store, writeId="day one"))

    def refused(*_arguments: Any, **_named: Any) -> LocalStore:
        raise NoSpaceError("no room to open it")

    with monkeypatch.context() as patch:
        patch.setattr(sinks.LocalStore, "open", refused)
        with pytest.raises(NoSpaceError, match="An earlier run has appended a part of it"):
            done_by(writer(store, writeId="day one"))
    done_by(writer(store, writeId="day one"))
    assert numbers_in(store) == ALL
