"""An open store deletes log files that have expired only if somebody asks for it, and reports each one."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import reput
from reput.cli.main import cli
from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError, NoSpaceError
from reput.files import disk_space, fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.store.write import expiry
from support import golden, stores
from support.broker import broker_at_work
from support.checked import assert_sound
from support.opened import CONFIG, bodies, put
from support.waiting import wait_until

TEN_DAYS_S = 10 * 86400
SOON = {"clean_resource_interval": 1}
"""Housekeeping looks after its first tick, a tenth of a second."""
ROOM, FULL = 50, 91


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The disk's fill level in percent; a test may set it."""
    percent = [ROOM]
    monkeypatch.setattr(disk_space, "disk_use", lambda _path: disk_space.DiskUse(percent[0], 100 - percent[0]))
    return percent


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of a store of RocketMQ's whose files were written ten days ago."""
    return aged(golden.unpack("basic", tmp_path))


def aged(store: Path) -> Path:
    """Set all files of a store back by ten days."""
    then = time.time() - TEN_DAYS_S
    for path in store.rglob("*"):
        os.utime(path, (then, then))
    return store


def log_files(store: Path) -> list[str]:
    """The names of a store's log files."""
    return sorted(path.name for path in (store / paths.COMMIT_LOG).iterdir())


def all_files(store: Path) -> set[str]:
    """Every file that RocketMQ's folders of a store hold."""
    parts = (paths.COMMIT_LOG, paths.CONSUME_QUEUE, paths.INDEX, paths.CONFIG)
    return {str(path) for part in parts for path in (store / part).rglob("*") if path.is_file()}


def small(**values: object) -> StoreConfig:
    """Settings of small files, with others on top."""
    return replace(CONFIG, **{"mapped_file_size_commit_log": 1 << 12, **SOON, **values})  # type: ignore[arg-type]


def filled(path: Path, config: StoreConfig) -> Path:
    """A closed store of several log files, all ten days old."""
    with reput.MessageStore.open(path, config, create=True) as store:
        put(store, 300)
    return aged(path)


def wait_for_house(store: reput.MessageStore, done: Callable[[], bool] | None = None) -> None:
    """Wait until housekeeping has looked twice, or until it is done."""
    assert store._writing is not None
    looks = [0]
    run = store._writing.expiry.run

    def counted(*arguments: int, **named: bool) -> list[str]:
        gone = run(*arguments, **named)
        looks[0] += 1
        return gone

    store._writing.expiry.run = counted  # type: ignore[method-assign]
    wait_until(lambda: looks[0] >= 2 and (done is None or done()), most_s=20)
    assert store.background_error is None


def call(store: Path, *arguments: str) -> Result:
    """`reput put` of one message."""
    return CliRunner().invoke(cli, ["put", str(store), "-t", "orders", *arguments], input="one\n")


# --- nothing goes without being asked for -----------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("percent", [ROOM, FULL])
@pytest.mark.parametrize("age", ["ten days", "now"])
def test_opening_deletes_nothing_unasked(
    age: str, percent: int, tmp_path: Path, disk: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Opened, put to and kept open, a store of RocketMQ's keeps all files, however old they are or full the disk is.

    A bug once: `put`, and opening without a put, deleted files ten days old, and at 91 % files a minute old.
    """
    path = golden.unpack("basic", tmp_path)
    if age == "ten days":
        aged(path)
    disk[0] = percent
    before = all_files(path)
    with reput.MessageStore.open(path, StoreConfig(**SOON), create=True) as store:  # type: ignore[arg-type]
        store.put_message(reput.Message("orders", b"one"))
        wait_for_house(store)
        assert before <= all_files(path)
        assert not [note for note in store.notes if "deleted" in note]
    assert before <= all_files(path)
    assert not caplog.records
    assert_sound(path)


@pytest.mark.golden
@pytest.mark.parametrize("arguments", [(), ("--no-delete-expired",), ("--set", "flushDiskType=SYNC_FLUSH")])
def test_put_deletes_nothing_unasked(arguments: tuple[str, ...], old: Path, disk: list[int]) -> None:
    """`reput put` keeps files that have expired, and says nothing of deletion; nor do settings of other things ask."""
    before = all_files(old)
    done = call(old, *arguments, "--set", "cleanResourceInterval=1")
    assert done.exit_code == 0, done.stderr
    assert before <= all_files(old)
    assert "delete" not in done.stderr


@pytest.mark.golden
@pytest.mark.parametrize(
    "verb", [("delete", "-t", "orders", "-q", "0"), ("progress", "-g", "g", "-t", "orders", "-q", "0", "--commit", "1")]
)
def test_only_put_deletes(verb: tuple[str, ...], old: Path, tmp_path: Path, disk: list[int]) -> None:
    """Other verbs that open a store to write keep all log files, a broker.conf or not."""
    conf = tmp_path / "broker.conf"
    conf.write_text(golden.CONFIG + "cleanResourceInterval=1\n")
    before = log_files(old)
    name, *options = verb
    done = CliRunner().invoke(cli, [name, str(old), *options, "--config", str(conf)])
    assert done.exit_code == 0, done.stderr
    assert log_files(old) == before


# --- each way to ask ------------------------------------------------------------------------------


@pytest.mark.golden
def test_a_broker_conf_asks(old: Path, tmp_path: Path, disk: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """With a broker.conf RocketMQ's policy counts, its defaults included; each file is in notes and in the log."""
    conf = tmp_path / "broker.conf"
    conf.write_text(golden.CONFIG + "cleanResourceInterval=1\n")
    before, disk[0] = log_files(old), 76
    with reput.MessageStore.open(old, conf, create=True) as store:
        wait_for_house(store, lambda: len(log_files(old)) == 1)
        gone = before[:-1]
        reported = [note for note in store.notes if note.startswith("deleted ")]
        assert reported[: len(gone)] == [
            f"deleted {old / paths.COMMIT_LOG / name}: the disk is 76 % full, over 75 % (diskMaxUsedSpaceRatio)"
            for name in gone
        ]
        assert any("indexes of deleted log files" in note for note in reported)
        assert [record.message for record in caplog.records] == reported
        assert {(record.name, record.levelno) for record in caplog.records} == {("reput.store", logging.WARNING)}
    assert_sound(old)


@pytest.mark.parametrize(
    ("given", "percent", "goes"),
    [
        ({"delete_expired": True}, 76, True),
        ({"file_reserved_time": 24}, 76, True),
        ({"file_reserved_time": 24, "delete_expired": False}, FULL, False),
        ({"delete_when": "00;01;02;03;04;05;06;07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23"}, ROOM, True),
        ({"disk_max_used_space_ratio": 40}, ROOM, True),
        ({"clean_file_forcibly_enable": False}, FULL, False),
        ({"disk_space_warning_level_ratio": 80}, FULL, False),
        ({"delete_file_batch_max": 3}, FULL, False),
        ({"file_reserved_time": 1000}, FULL, False),
        ({"file_reserved_time": 1000, "clean_file_forcibly_enable": True}, FULL, True),
        ({"file_reserved_time": 1000, "disk_space_clean_forcibly_ratio": 80}, FULL, True),
    ],
)
def test_settings_that_ask(given: dict[str, object], percent: int, goes: bool, tmp_path: Path, disk: list[int]) -> None:
    """A setting that says when files go asks for it; files that have not expired go only where a setting names that."""
    path = filled(tmp_path / "s", small())
    before = log_files(path)
    disk[0] = percent
    with reput.MessageStore.open(path, small(**given), create=True) as store:
        wait_for_house(store, (lambda: len(log_files(path)) < len(before)) if goes else None)
        assert any("deleted" in note for note in store.notes) == goes
    assert (log_files(path) == before) != goes
    assert_sound(path, small())


@pytest.mark.parametrize("made_with", ["settings", "broker.conf", "call"])
def test_a_store_remembers_the_policy_it_was_made_with(made_with: str, tmp_path: Path, disk: list[int]) -> None:
    """Made with settings of deletion a store deletes when it is opened without; a call that says otherwise wins."""
    path, conf = tmp_path / "s", tmp_path / "broker.conf"
    if made_with == "call":
        reput.MessageStore.open(path, small(), delete_expired=True, create=True).close()
    elif made_with == "settings":
        reput.MessageStore.open(path, small(file_reserved_time=24, delete_when="04;16"), create=True).close()
    else:
        conf.write_text("mappedFileSizeCommitLog=4096\nfileReservedTime=24\ndeleteWhen=04;16\n")
        reput.MessageStore.open(path, conf, create=True).close()
    kept = (path / paths.REPUT / own.EXPIRY_NAME).read_text()
    assert ("fileReservedTime=24\n" in kept, "deleteWhen=04;16\n" in kept) == ((made_with != "call"),) * 2
    with reput.MessageStore.open(path, small(), delete_expired=False, create=True) as store:
        put(store, 300)
        assert not store.config.delete_expired
    aged(path)
    before, disk[0] = log_files(path), 76
    with reput.MessageStore.open(path, small(), delete_expired=False, create=True) as store:
        wait_for_house(store)
        assert log_files(path) == before
    with reput.MessageStore.open(path, small(), create=True) as store:
        assert store.config.file_reserved_time == (None if made_with == "call" else 24)
        assert store.config.clean_file_forcibly_enable is (made_with == "broker.conf")
        wait_for_house(store, lambda: len(log_files(path)) < len(before))
    (path / paths.REPUT / own.EXPIRY_NAME).unlink()
    with reput.MessageStore.open(path, small(), create=True) as store:
        assert not store.config.delete_expired


def test_a_store_made_without_a_policy_keeps_none(tmp_path: Path) -> None:
    """Nothing is remembered where nothing was asked for, nor where an existing store is opened with settings."""
    reput.MessageStore.open(tmp_path / "s", small(), create=True).close()
    reput.MessageStore.open(tmp_path / "s", small(file_reserved_time=24), create=True).close()
    assert not (tmp_path / "s" / paths.REPUT / own.EXPIRY_NAME).exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("fileReservedTime=soon", ConfigError),
        ("deleteWhen=99\nfileReservedTime=1", ConfigError),
        ("#" * 5000, DamagedStoreError),
    ],
)
def test_hostile_settings_of_a_store(text: str, error: type[Exception], tmp_path: Path) -> None:
    """A file of settings that reput cannot have written is refused by name; other settings in it count for nothing."""
    path = tmp_path / "s"
    reput.MessageStore.open(path, small(), create=True).close()
    conf = path / paths.REPUT / own.EXPIRY_NAME
    conf.write_text(text)
    with pytest.raises(error, match=r"expiry\.conf|deleteWhen=99"):
        reput.MessageStore.open(path, small(), create=True)
    conf.write_text("mappedFileSizeCommitLog=77\nstorePathCommitLog=/nowhere\nfileReservedTime=5\n")
    with reput.MessageStore.open(path, StoreConfig(), create=True) as store:
        assert store.config.file_reserved_time == 5
        assert (store.config.mapped_file_size_commit_log, store.config.store_path_commit_log) == (None, None)


def test_the_call_asks(tmp_path: Path, disk: list[int]) -> None:
    """`delete_expired` deletes what has expired though deletion is off; a full disk takes nothing younger along."""
    path = filled(tmp_path / "s", small())
    with reput.MessageStore.open(path, small(clean_resource_interval=1 << 30), create=True) as store:
        put(store, 300)
        store.reput(spark=False)
        before = log_files(path)
        fresh = [name for name in before if (path / paths.COMMIT_LOG / name).stat().st_mtime > time.time() - 3600]
        disk[0] = FULL
        gone = store.delete_expired()
        assert gone == before[: len(gone)]
        while gone := store.delete_expired(manual=True):
            pass
        assert log_files(path) == fresh
        assert len(fresh) > 1
    assert_sound(path, small())


@pytest.mark.golden
def test_the_flag_of_put_asks(old: Path, disk: list[int]) -> None:
    """`reput put --delete-expired` deletes expired files at once, names each on stderr, and keeps the last."""
    before = log_files(old)
    # In the hour of deleteWhen, 4 by default, the hour would be the reason.
    another_hour = (time.localtime().tm_hour + 12) % 24
    done = call(old, "--delete-expired", "--set", f"deleteWhen={another_hour:02d}")
    assert done.exit_code == 0, done.stderr
    left = log_files(old)
    assert 0 < len(left) < len(before)
    for name in set(before) - set(left):
        assert f"note: deleted {old / paths.COMMIT_LOG / name}: a call or an option asks for it" in done.stderr
    assert_sound(old)
    assert not logging.getLogger("reput.store").handlers


def test_notes_of_deletions_are_bounded(
    tmp_path: Path, disk: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest deletions stay in the notes, and so do all notes of other things; the log has all."""
    monkeypatch.setattr(expiry, "_MOST_NOTES", 3)
    path = filled(tmp_path / "s", small())
    with reput.MessageStore.open(path, small(clean_resource_interval=1 << 30), create=True) as store:
        store.notes.append("another thing")
        gone = store.delete_expired(manual=True)
        assert len(gone) > 3
        assert "another thing" in store.notes
        reported = [note for note in store.notes if note.startswith("deleted")]
        assert len(reported) == 3
        assert [record.message for record in caplog.records][-3:] == reported
        assert len(caplog.records) > len(gone)


def test_files_that_went_before_an_error_are_reported(
    tmp_path: Path, disk: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were deleted before the system refused one are reported."""
    path = filled(tmp_path / "s", small())
    remove, calls = fs.remove_file, []

    def refuse_second(name: Path) -> None:
        calls.append(name)
        if len(calls) == 2:
            with fs.errors_named(name, "remove"):
                raise PermissionError(1, "Operation not permitted")
        remove(name)

    with reput.MessageStore.open(path, small(clean_resource_interval=1 << 30), create=True) as store:
        first = log_files(path)[0]
        with monkeypatch.context() as patch:
            patch.setattr(fs, "remove_file", refuse_second)
            with pytest.raises(reput.ReputError, match="cannot remove"):
                store.delete_expired(manual=True)
        assert any(first in note for note in store.notes)


# --- a disk that is too full ----------------------------------------------------------------------


def test_a_put_to_a_full_disk_says_why_and_what_to_do(tmp_path: Path, disk: list[int]) -> None:
    """The reason has how full the disk is, the limit, that nothing was deleted and why, and the way out."""
    with reput.MessageStore.open(tmp_path / "s", small(), create=True) as store:
        put(store, 3)
        disk[0] = FULL
        wait_for_house(store)
        refused = store.put_message(reput.Message("t", b""))
        assert refused.reason == (
            f"{store.layout.commit_log}: the disk is 91 % full, over 90 % (diskSpaceWarningLevelRatio); puts are "
            "refused until it is not. Make room on it. The log has one file, which is never deleted"
        )
        disk[0] = ROOM
        wait_for_house(store)
        while len(list(store.layout.commit_log.iterdir())) < 2:
            put(store, 3)
        before = len(bodies(store))
        disk[0] = FULL
        wait_for_house(store)
        refused = store.put_message(reput.Message("t", b""))
        assert refused.status is reput.PutStatus.DISK_FULL
        assert refused.reason == (
            f"{store.layout.commit_log}: the disk is 91 % full, over 90 % (diskSpaceWarningLevelRatio); puts are "
            "refused until it is not. Make room on it. Nothing was deleted, since deletion of expired log files is "
            "off. Turn it on (`reput put --delete-expired`, MessageStore.open(..., delete_expired=True)), and log "
            "files older than 72 hours (fileReservedTime) go"
        )
        disk[0] = ROOM
        wait_for_house(store)
        put(store, 3)
        assert len(bodies(store)) == before + 3
    with reput.MessageStore.open(tmp_path / "s", small(file_reserved_time=24), create=True) as store:
        disk[0] = FULL
        wait_for_house(store)
        refused = store.put_message(reput.Message("t", b""))
        assert "Deletion of expired log files is on: the last file stays" in refused.reason
        assert "24 hours" in refused.reason


def test_room_that_deletion_makes_counts_at_once(tmp_path: Path, disk: list[int]) -> None:
    """Space that a deletion makes counts at once: no put is refused."""
    path = filled(tmp_path / "s", small())
    config = small(delete_expired=True)
    with reput.MessageStore.open(path, replace(config, clean_resource_interval=1 << 30), create=True) as store:
        disk[0] = FULL
        percents = iter([FULL, ROOM])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                disk_space, "disk_use", lambda _path: disk_space.DiskUse(percent := next(percents), 100 - percent)
            )
            assert store.delete_expired(manual=True)
        put(store, 1)


@pytest.mark.golden
def test_put_on_the_command_line_says_that_the_disk_is_full(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without blocks ends the command with how full it is, that nothing was deleted, and how to go on."""
    monkeypatch.setattr(disk_space, "disk_use", lambda _path: disk_space.DiskUse(100, 0))

    def no_blocks(*_arguments: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fs, "reserve", no_blocks)
    before = stores.digest(old / paths.COMMIT_LOG)
    done = call(old)
    assert isinstance(done.exception, NoSpaceError)
    for part in ("DISK_FULL", "The disk is 100 % full", "Nothing was deleted", "--delete-expired"):
        assert part in str(done.exception)
    assert stores.digest(old / paths.COMMIT_LOG) == before


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known to the log"])
@pytest.mark.parametrize("is_broker", [False, True], ids=["reput", "broker"])
def test_a_reader_leaves_out_what_its_writer_deletes(is_broker: bool, is_known: bool, tmp_path: Path) -> None:
    """A reader's queue begins with the messages that are left, also if RocketMQ's broker deletes the others."""
    path = tmp_path / "s"
    with reput.MessageStore.open(path, CONFIG, create=True) as writer, contextlib.ExitStack() as stack:
        put(writer, 2000)
        writer.reput(spark=False)
        if is_broker:
            writer.close()
            stack.enter_context(broker_at_work(path))
        reader = stack.enter_context(reput.MessageStore.open(path, CONFIG, read_only=True))
        assert reader.get_message("t", 0, 0).messages
        *gone, last = log_files(path)
        delete(path, gone, None if is_broker else writer)
        if is_known:
            reader.view.log.refresh()  # as a look for new files does
        wait_until(lambda: reader.min_offset("t", 0) > 0, "the reader sees the deletion")
        begin = reader.min_offset("t", 0)
        assert reader.get_message("t", 0, begin, 1)[0].physical_offset >= int(last)
        assert reader.get_message("t", 0, 0, 1).status is reput.GetStatus.OFFSET_TOO_SMALL
    assert_sound(path, CONFIG)


def by_pulls(reader: reput.MessageStore) -> list[int]:
    """The places that pulls give, from offset 0 on."""
    found, offset = [], 0
    while offset < reader.max_offset("t", 0):
        result = reader.get_message("t", 0, offset)
        found += result.physical_offsets.tolist()
        offset = result.next_offset
    return found


def by_times(reader: reput.MessageStore) -> list[int]:
    """The places of all messages, from the first one on that a search by time finds."""
    first, *_ = reader.offsets_by_time("t", 0, [1])
    assert first <= reader.offset_by_time("t", 0, 1)
    return [
        message.physical_offset
        for offset in range(first, reader.max_offset("t", 0))
        for message in reader.get_message("t", 0, offset, 1)
    ]


QUESTIONS: dict[str, Callable[[reput.MessageStore], list[int]]] = {
    "pulls": by_pulls,
    "times": by_times,
    "key": lambda reader: reader.query_message("t", "k", 10_000).physical_offsets,
    "keys": lambda reader: reader.query_messages("t", ["k"], 10_000)[0].physical_offsets,
    "few keys": lambda reader: reader.query_messages("t", ["k"], 100)[0].physical_offsets,
    "messages": lambda reader: [message.physical_offset for message in reader.messages("t")],
}


@pytest.mark.parametrize("is_broker", [False, True], ids=["reput", "broker"])
@pytest.mark.parametrize("was_asked", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_beside_a_deletion_misses_nothing(
    name: str, was_asked: bool, is_broker: bool, tmp_path: Path
) -> None:
    """A reader that still knows the deleted files answers with all that is left; what it has mapped may be there."""
    path, question = tmp_path / "s", QUESTIONS[name]
    with reput.MessageStore.open(path, CONFIG, create=True) as writer, contextlib.ExitStack() as stack:
        places = put(writer, 2000, keys="k")
        writer.reput(spark=False)
        if is_broker:
            writer.close()
            stack.enter_context(broker_at_work(path))
        reader = stack.enter_context(reput.MessageStore.open(path, CONFIG, read_only=True))
        reader.expect_many()
        if was_asked:
            question(reader)
        *gone, last = log_files(path)
        delete(path, gone, None if is_broker else writer)
        left = [place for place in places if place >= int(last)]
        most = 100 if name == "few keys" else len(left)
        found = question(reader)
        assert set(left[-most:]) <= set(found) <= set(places)


@pytest.mark.parametrize("is_reopened", [False, True], ids=["one view", "two views"])
def test_a_deleted_log_file_is_not_mapped_any_more(is_reopened: bool, tmp_path: Path) -> None:
    """A deleted file gives its room on the disk back: neither its writer nor a reader keeps it mapped."""
    path = tmp_path / "s"
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(reput.MessageStore.open(path, CONFIG, create=True))
        put(writer, 2000, keys="k")
        writer.reput(spark=False)
        reader = stack.enter_context(reput.MessageStore.open(path, CONFIG, read_only=True))
        reader.expect_many()
        for question in QUESTIONS.values():
            question(reader)
        if is_reopened:
            view = reader.view
            writer.close()
            wait_until(lambda: reader.max_offset("t", 0) and reader.view is not view, "the reader sees the end")
            view = reader.view
            writer = stack.enter_context(reput.MessageStore.open(path, CONFIG))
            wait_until(lambda: reader.max_offset("t", 0) and reader.view is not view, "the reader sees the new writer")
        for question in QUESTIONS.values():
            question(reader)
        assert bodies(writer) == bodies(reader)
        gone = log_files(path)[:-1]
        assert mapped(path, gone)
        gc.disable()
        stack.callback(gc.enable)
        delete(path, gone, writer)
        wait_until(lambda: reader.min_offset("t", 0) > 0, "the reader sees the deletion")
        assert mapped(path, gone) == []


def delete(store: Path, names: Sequence[str], writer: reput.MessageStore | None) -> None:
    """Delete log files, as a writer does when they have expired, or as a broker does."""
    for name in names:
        file = store / paths.COMMIT_LOG / name
        if writer is None:
            file.unlink()
        else:
            os.utime(file, (0, 0))
    if writer is not None:
        assert writer.delete_expired(manual=True) == list(names)


def mapped(store: Path, names: Sequence[str]) -> list[str]:
    """The log files of these names that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [name for name in names if any(f"{store}/{paths.COMMIT_LOG}/{name}" in line for line in lines)]
