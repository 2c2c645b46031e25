"""A bad record at the log's end: what a broker had closed is never cut, and no good record after it is destroyed."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import AccessError, DamagedLogError, ReputError
from reput.files import fs
from reput.formats import paths
from reput.store.disk.checkpoint import read_checkpoint
from reput.store.disk.layout import StoreLayout
from support import golden, stores
from support.opened import CONFIG, bodies, put
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def log_of(store: Path) -> dict[str, bytes]:
    """Return the bytes of the log's files."""
    return {path.name: path.read_bytes() for path in (store / paths.COMMIT_LOG).iterdir()}


def places(store: Path) -> list[int]:
    """Return the log offsets of all messages that a reader finds."""
    with reput.MessageStore.open(store, read_only=True) as opened:
        return sorted(
            one.physical_offset for queue in opened.queues() for one in opened.messages(queue.topic, queue.queue_id)
        )


def new_records(store: Path) -> list[golden.Span]:
    """Return the records that are newer than the checkpoint: nothing calls them durable."""
    durable_ms = read_checkpoint(StoreLayout(store, store / paths.COMMIT_LOG)).physic_msg_timestamp
    found = golden.records(store)
    first = next(number for number, one in enumerate(found) if one.store_ms > durable_ms)
    with_bodies = (number for number, one in enumerate(found) if number > first + 5 and one.body)
    return found[next(with_bodies) :]


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "json", "batch"])
def test_the_last_record_of_a_store_that_a_broker_closed_was_cut(name: str, tmp_path: Path) -> None:
    """A queue has its entry, so it was whole: the store is not opened to write, and not followed. RocketMQ cuts it."""
    store = golden.unpack(name, tmp_path)
    last = golden.records(store)[-1]
    assert last.body
    golden.flip(store, last.body[0])
    before = stores.digest(store)
    with pytest.raises(DamagedLogError, match=f"log offset {last.offset}.*of this closed store has an entry"):
        reput.MessageStore.open(store)
    assert {name: data for name, data in stores.digest(store).items() if not name.startswith("reput")} == before
    report = reput.rebuild(store, spark=False)
    assert any("a crash does not leave such an end" in text for text in report.warnings)
    with pytest.raises(DamagedLogError, match="nothing is cut"):
        reput.MessageStore.open(store)
    reput.rebuild(store, spark=False, salvage=True)
    with reput.MessageStore.open(store) as opened:
        assert opened.view.confirmed() == last.offset


@pytest.mark.golden
def test_good_records_after_a_bad_one_of_a_killed_broker_were_destroyed(tmp_path: Path) -> None:
    """The log is cut as RocketMQ cuts it, and its last files are kept: they are a store, whose queues can be built."""
    store = golden.unpack("crash", tmp_path)
    bad_one, *records = new_records(store)
    bad = bad_one.offset
    visible = [place for place in places(store) if place != bad]
    golden.flip(store, bad_one.body[0])
    log = log_of(store)
    with reput.MessageStore.open(store) as opened:
        assert opened.view.confirmed() == bad
        (note,) = (text for text in opened.notes if "good records follow the bad one" in text)
        assert any("removed log files after the end" in text for text in opened.notes)
        assert opened.put_message(reput.Message("new", b"more")).status is reput.PutStatus.PUT_OK
    kept = store / paths.REPUT / f"cut-{bad}"
    assert f"log offset {bad}, the first one at {records[0].offset}: {kept} keeps" in note
    assert log_of(kept) == log
    assert ("log-kept", str(kept)) in [(one.rule, one.file) for one in reput.check(store, spark=False).findings]
    reput.rebuild(kept, spark=False, salvage=True)
    assert len(visible) > 2000
    assert places(kept) == visible


@pytest.mark.golden
@pytest.mark.parametrize("is_one_disk", [True, False], ids=["linked", "copied"])
def test_a_second_cut_keeps_its_files_beside_those_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_one_disk: bool
) -> None:
    """Also if a kill came after the copy: the next open makes another one."""
    store = golden.unpack("crash", tmp_path)
    (bad, _, body, *_), *_ = new_records(store)
    golden.flip(store, body[0])
    log = log_of(store)
    (store / paths.REPUT / f"cut-{bad}").mkdir(parents=True)

    def no_link(source: Path, target: Path) -> None:
        raise ReputError(f"{source}: cannot link to {target}: Invalid cross-device link")

    if not is_one_disk:
        monkeypatch.setattr(fs, "link", no_link)
    reput.MessageStore.open(store).close()
    assert log_of(store / paths.REPUT / f"cut-{bad}-2") == log
    assert len(log_of(store)) == 1


@pytest.mark.golden
def test_without_room_for_the_copy_nothing_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full while the files are kept ends the open, and the log stays as it is."""
    store = golden.unpack("crash", tmp_path)
    golden.flip(store, new_records(store)[0].body[0])
    log = log_of(store)

    def no_room(source: Path, target: Path, owner: fs.Owner) -> None:
        raise AccessError(f"{target}: no space left")

    with monkeypatch.context() as patched:
        patched.setattr(fs, "copy_file", no_room)
        with pytest.raises(AccessError):
            reput.MessageStore.open(store)
    assert log_of(store) == log
    reput.MessageStore.open(store).close()
    assert [path.name for path in (store / paths.REPUT).glob("staging-*")] == []


@pytest.mark.parametrize("text", ["", "4711 reput"], ids=["broker 5", "broker 4 after reput"])
def test_kept_files_of_a_log_whose_first_record_is_bad_were_zeroed(text: str, tmp_path: Path) -> None:
    """The cut changes the first file of a log in its place, so it is copied. Broker 4 leaves the text in `abort`."""
    log = LogBuilder(1 << 14)
    while log.end < 3 << 14:
        log.message("t", body=b"body" * 20)
    store = stores.with_log(tmp_path, log)
    (store / paths.ABORT).write_text(text)
    first = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(first.read_bytes())
    data[data.index(b"body")] ^= 1
    first.write_bytes(data)
    before = log_of(store)
    with reput.MessageStore.open(store) as opened:
        assert opened.view.confirmed() == 0
        put(opened, 3)
    assert log_of(store / paths.REPUT / "cut-0") == before


def test_after_a_crash_of_reput_no_files_are_kept(tmp_path: Path) -> None:
    """Bytes that were not synced may be there in part, and none of them was promised."""
    path = tmp_path / "store"
    config = replace(CONFIG, flush_disk_type="ASYNC_FLUSH")

    def work() -> None:
        store = reput.MessageStore.open(path, config, create=True)
        put(store, 20)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(log.read_bytes())
    at = data.index(b"10", 100)
    data[at] ^= 1
    log.write_bytes(data)
    with reput.MessageStore.open(path, config) as opened:
        assert len(bodies(opened)) < 20
    assert list((path / paths.REPUT).glob("cut-*")) == []
