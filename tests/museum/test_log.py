"""Faults of the log that stores have had: what reput says of the state that each left, and does with it."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.errors import DamagedLogError, DamagedStoreError, FlushError, ReputError
from reput.files import fs
from reput.formats import paths
from support import golden, museum, opened, stores
from support.checked import assert_sound, rules_of
from support.museum import logs
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.config import StoreConfig

SYNC = replace(opened.CONFIG, flush_disk_type="SYNC_FLUSH")


def test_10666_a_truncation_that_left_good_records(tmp_path: Path) -> None:
    """Stale records that continue a shorter new log are taken for its records, and both `check` and `rebuild` say so.

    Nothing but their time shows it: their places, numbers and CRCs are right.
    """
    store = museum.make("10666", tmp_path)
    (found,) = (one for one in reput.check(store, spark=False).findings if one.rule == "log-times")
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        bodies = opened.bodies(opened_store, "orders")
        first_stale = opened_store.get_message("orders", 0, logs.KEPT + logs.NEW).physical_offsets[0]
    assert len(bodies) == logs.OLD
    assert (found.severity, found.count) == ("note", 1)
    assert f"once, at log offset {first_stale}:" in found.detail
    report = stores.rebuild(store)
    assert (report.time_regressions, report.first_time_regression) == (1, first_stale)


def test_10666_reput_leaves_no_good_record_after_its_own_truncation(tmp_path: Path) -> None:
    """A truncation by reput zeroes the bytes that it cuts, so none of them can come back."""
    log = LogBuilder()
    placed = [log.message("orders", body=b"%d" % number) for number in range(20)]
    store = stores.with_log(tmp_path, log)
    (store / paths.ABORT).touch()
    file = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(file.read_bytes())
    data[placed[10].offset : placed[10].offset + 8] = b"\xff" * 8
    file.write_bytes(data)
    with reput.MessageStore.open(store, create=True) as opened_store:
        assert any(f"cut the log at {placed[10].offset}" in note for note in opened_store.notes)
        opened_store.put_message(reput.Message("orders", b"10"))
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert opened.bodies(opened_store, "orders") == [b"%d" % number for number in range(11)]


def test_10017_a_reused_file(tmp_path: Path) -> None:
    """Records of another place do not count, whatever their CRCs say: the log ends before them."""
    store = museum.make("10017", tmp_path)
    assert rules_of(store) == {("leftover", "log-torn-tail"): 1}
    with reput.MessageStore.open(store, create=True) as opened_store:
        count = opened_store.max_offset("orders", 0)
        assert len(opened.bodies(opened_store, "orders")) == count
        put = opened_store.put_message(reput.Message("orders", b"next"))
        assert (put.queue_offset, put.physical_offset) == (count, logs.FILE_SIZE)
    assert_sound(store)


def test_7437_a_message_without_its_properties(tmp_path: Path) -> None:
    """A torn record whose body is whole counts, as in RocketMQ; `check` says that its properties may be lost."""
    store = museum.make("7437", tmp_path)
    assert rules_of(store)["note", "log-torn-properties"] == 1
    assert stores.rebuild(store).messages == 10


def test_7437_a_crc_over_the_whole_record(tmp_path: Path) -> None:
    """With the CRC of the properties such a record is torn, and is not there."""
    last = logs.torn_properties(tmp_path, with_crc=True)
    config = replace(stores.SMALL, enabled_append_prop_crc=True, force_verify_prop_crc=True)
    report = stores.rebuild(tmp_path / "store", config)
    assert (report.messages, report.torn_tail_offset) == (9, last.offset)


@pytest.mark.parametrize("verify", [False, True], ids=["bodies", "whole records"])
def test_9121_a_crc_of_zero(tmp_path: Path, verify: bool) -> None:
    """A CRC that happens to be 0 is a CRC like any other: no message is cut."""
    store = museum.make("9121", tmp_path)
    config = replace(stores.SMALL, enabled_append_prop_crc=True, force_verify_prop_crc=verify)
    with reput.MessageStore.open(store, config, create=True) as opened_store:
        assert not [note for note in opened_store.notes if "cut" in note]
        assert len(opened.bodies(opened_store, "orders")) == 8
    assert_sound(store, config)


def test_10758_batches_with_a_crc_of_zero(tmp_path: Path) -> None:
    """Records with a body CRC of 0 that does not match are damage, and the good ones after them are not lost."""
    store = museum.make("10758", tmp_path)
    assert rules_of(store)["damage", "log-record"] == 1
    before = stores.digest(store)
    with pytest.raises(DamagedLogError, match="--salvage"):
        stores.rebuild(store)
    assert stores.digest(store) == before
    report = stores.rebuild(store, salvage=True)
    assert (report.messages, len(report.gaps)) == (7, 1)
    # Their bodies are as they were: without the CRC check all messages are there.
    again = museum.make("10758", tmp_path / "again")
    assert stores.rebuild(again, verify_crc=False).messages == 10


def test_2140_a_lost_log_file(tmp_path: Path) -> None:
    """A missing file in the middle of the log is named, and nothing is built from the rest unasked."""
    store = museum.make("2140", tmp_path)
    (found,) = (one for one in reput.check(store, spark=False).findings if one.rule == "log-file")
    assert (found.severity, f"{golden.LOG_FILE_SIZE} bytes of log are missing" in found.detail) == ("damage", True)
    with pytest.raises(DamagedStoreError, match="are missing"):
        reput.rebuild(store, spark=False)


def test_7549_one_wrong_bit(tmp_path: Path) -> None:
    """One wrong bit costs one message, which is named; no message before or after it is lost."""
    store = museum.make("7549", tmp_path)
    whole = golden.facts("basic").messages
    report = reput.check(store, spark=False)
    assert not report.sound
    assert (report.messages, rules_of(store)["damage", "log-record"]) == (whole - 1, 1)
    before = stores.digest(store)
    with pytest.raises(DamagedLogError, match="good records after it"):
        reput.rebuild(store, spark=False)
    assert stores.digest(store) == before
    assert reput.rebuild(store, spark=False, salvage=True).messages == whole - 1


def test_7549_a_reader_gets_no_wrong_body(tmp_path: Path) -> None:
    """The body with the wrong bit is not exported in silence: a scan of the log stops at it."""
    store = museum.make("7549", tmp_path)
    with pytest.raises(ReputError, match="CRC"):
        reput.scan(store).read_all()


def test_8859_a_file_in_two_paths(tmp_path: Path) -> None:
    """Two log files of one name are refused by name: one of them would be read in place of the other."""
    museum.make("8859", tmp_path)
    for call in (reput.check, reput.rebuild):
        with pytest.raises(DamagedStoreError, match=paths.offset_name(golden.LOG_FILE_SIZE)):
            call(tmp_path / "store", spark=False, config=tmp_path / "broker.conf")


@contextmanager
def that_fails(path: Path, config: StoreConfig) -> Iterator[reput.MessageStore]:
    """Open a new store whose disk refuses a sync in the block, so that it cannot be closed without an error."""
    store = reput.MessageStore.open(path, config, create=True)
    try:
        yield store
    finally:
        with pytest.raises(FlushError):
            store.close()


@pytest.mark.parametrize("works_again", [False, True])
def test_9713_a_failed_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works_again: bool) -> None:
    """A flush that failed moves nothing forward: what it was for is never called durable, though later ones work."""
    config = replace(opened.CONFIG, flush_interval_commit_log=1 << 30)
    with that_fails(tmp_path / "s", config) as store:
        opened.put(store, 3)
        flushed = store.flush()
        opened.put(store, 3)
        with monkeypatch.context() as patched:
            patched.setattr(fs, "sync_data", _refuse)
            with pytest.raises(FlushError, match=f"log offset {flushed} may be lost"):
                store.flush()
            assert store.flushed_offset == flushed
            if not works_again:
                _put_is_refused(store)
        if works_again:
            _put_is_refused(store)
        assert store.flushed_offset == flushed
        assert len(opened.bodies(store)) == 6


def _refuse(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def _put_is_refused(store: reput.MessageStore) -> None:
    with pytest.raises(FlushError, match="open the store again"):
        store.put_message(reput.Message("t", b"after"))


def test_2706_no_success_without_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put with sync flush whose flush fails is an error for its caller, not PUT_OK."""
    with that_fails(tmp_path / "s", SYNC) as store:
        opened.put(store, 1)
        monkeypatch.setattr(fs, "sync_data", _refuse)
        with pytest.raises(FlushError):
            store.put_message(reput.Message("t", b"lost"))


def test_8239_no_reader_is_ahead_of_the_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sync flush a reader sees a message once it is flushed, so no group commits what a crash can take."""
    with that_fails(tmp_path / "s", SYNC) as store:
        opened.put(store, 2)
        unsynced = opened.bodies(store)
        with monkeypatch.context() as patched:
            patched.setattr(fs, "sync_data", _refuse)
            with pytest.raises(FlushError):
                store.put_message(reput.Message("t", b"2"))
            assert opened.bodies(store) == unsynced == [b"0", b"1"]
            assert store.max_offset("t", 0) == 2


def test_8239_a_group_past_the_end(tmp_path: Path) -> None:
    """A group that has committed more than its queue has is named, with what it misses."""
    store = museum.make("8239", tmp_path)
    done = CliRunner().invoke(cli, ["progress", str(store), "-g", "billing"])
    assert "past" in done.stderr
