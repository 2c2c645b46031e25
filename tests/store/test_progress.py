"""Consumer progress: the broker's rules in memory, and a file that no crash and no damage can lose."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.errors import ConfigError, DamagedStoreError, NoSpaceError, ReputError
from reput.files import fs
from reput.formats.config.consumer_offset import ConsumerOffsets, decode, encode, key_of
from reput.formats.config.data_version import DataVersion
from reput.store.metadata.json_homes import OffsetsFile
from reput.store.progress.progress import UNKNOWN, VERSION_STEP, ConsumerProgress
from support.killed import Killed
from support.waiting import Clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START_MS = 1_700_000_000_000
FILE, BACKUP = "consumerOffset.json", "consumerOffset.json.bak"
BEST, OLDER = {"t@g": {0: 20}}, {"t@g": {0: 10}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The config folder of a store that has none yet."""
    return tmp_path / "config"


@pytest.fixture
def clock() -> Clock:
    """A clock to move."""
    return Clock()


def home(folder: Path) -> OffsetsFile:
    """The file of a config folder, as the home of its offsets."""
    return OffsetsFile(folder / FILE, clock_ms=lambda: START_MS)


@pytest.fixture
def progress(folder: Path, clock: Clock) -> ConsumerProgress:
    """Progress of a new store."""
    return ConsumerProgress.load(home(folder), clock_ms=clock)


def table_in(path: Path) -> Any:
    """The table that a file holds."""
    return decode(path.read_bytes(), str(path)).offset_table


def write(folder: Path, name: str, table: dict[str, dict[int, int]]) -> None:
    """A file of the config folder, as a broker writes it."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(encode(ConsumerOffsets(table, None, DataVersion(3, 0, START_MS))))


# --- in memory -----------------------------------------------------------------------------------


def test_commit_and_query(progress: ConsumerProgress) -> None:
    """The last commit of a queue answers, also when it goes backwards; what nobody committed is -1."""
    assert progress.query("g", "t", 0) == UNKNOWN
    assert progress.commit("g", "t", 0, 10)
    assert progress.commit("g", "t", 1, 5)
    assert progress.commit("g", "t", 0, 7)
    assert [progress.query("g", "t", queue) for queue in range(3)] == [7, 5, -1]
    assert progress.query("h", "t", 0) == progress.query("g", "u", 0) == -1
    assert (progress.query_all("g", "t"), progress.query_all("h", "t")) == ({0: 7, 1: 5}, {})


def test_answers_are_copies(progress: ConsumerProgress) -> None:
    """A caller's change of an answer does not reach the table."""
    progress.commit("g", "t", 0, 1)
    progress.query_all("g", "t")[0] = 99
    assert progress.query("g", "t", 0) == 1


def test_reset_answers_until_it_is_taken(progress: ConsumerProgress) -> None:
    """A reset answers first and keeps late commits out; once taken it is gone, and the group goes on from there."""
    progress.commit("g", "t", 0, 10)
    progress.reset("g", "t", 0, 3)

    assert has_reset(progress, "g", "t", 0)
    assert not progress.commit("g", "t", 0, 11)
    assert progress.commit("g", "t", 1, 11)
    assert progress.query("g", "t", 0) == 3
    assert progress.query_all("g", "t") == {0: 3, 1: 11}
    assert progress.take_reset("g", "t", 1) is None
    assert [progress.take_reset("g", "t", 0) for _ in range(2)] == [3, None]
    assert not has_reset(progress, "g", "t", 0)
    assert progress.query("g", "t", 0) == 3
    assert progress.commit("g", "t", 0, 4)
    assert progress.query("g", "t", 0) == 4


def test_reset_of_a_queue_that_nobody_read(progress: ConsumerProgress) -> None:
    """A reset also counts if nothing was committed, and its offset is persisted."""
    progress.reset("g", "t", 0, 5)
    progress.persist()
    assert progress.snapshot().offset_table == {"t@g": {0: 5}}


def test_clone(progress: ConsumerProgress) -> None:
    """A clone replaces the target's offsets by a copy that goes its own way; of nothing it is nothing."""
    progress.commit("g", "t", 0, 10)
    progress.commit("h", "t", 1, 1)

    assert progress.clone("g", "h", "t") == 1
    assert progress.clone("nobody", "h", "t") == 0
    progress.commit("g", "t", 0, 11)

    assert progress.query_all("h", "t") == {0: 10}


@pytest.fixture
def crowded(folder: Path, clock: Clock) -> ConsumerProgress:
    """Progress with all kinds of keys, and a reset that waits for each."""
    write(folder, FILE, {"plain": {0: 1}, "t@g@client": {0: 2}, "t@g": {0: 3}, "t@h": {0: 4}, "tt@g": {0: 5}})
    progress = ConsumerProgress.load(home(folder), clock_ms=clock)
    for group, topic in (("g", "t"), ("h", "t"), ("g", "tt")):
        progress.reset(group, topic, 0, 9)
    return progress


def has_reset(progress: ConsumerProgress, group: str, topic: str, queue_id: int) -> bool:
    """Return true if a reset of this queue waits to be taken."""
    return queue_id in progress._resets.get(key_of(topic, group), ())


def kept(progress: ConsumerProgress) -> set[str]:
    """The keys of the table; those with a reset that waits are marked."""
    keys = progress.snapshot().offset_table
    return {f"{key}!" if has_reset(progress, *key.split("@")[1::-1], 0) else key for key in keys if key.count("@") == 1}


def test_names(crowded: ConsumerProgress) -> None:
    """Groups of a topic and topics of a group: keys of one or three parts belong to none."""
    assert (crowded.groups_of("t"), crowded.topics_of("g")) == (["g", "h"], ["t", "tt"])
    assert (crowded.groups_of("plain"), crowded.topics_of("client")) == ([], [])


@pytest.mark.behaviour(
    "ConsumerOffsetManagerTest.cleanOffsetByTopic_Exist", "ConsumerOffsetManagerTest.cleanOffsetByTopic_NotExist"
)
def test_clean_topic(crowded: ConsumerProgress) -> None:
    """A cleaned topic is forgotten for every group, resets included, and no other topic is."""
    assert (crowded.clean_topic("t"), crowded.clean_topic("t"), crowded.clean_topic("plain")) == (2, 0, 0)
    assert kept(crowded) == {"tt@g!"}
    assert not has_reset(crowded, "g", "t", 0)


@pytest.mark.behaviour("ConsumerOffsetManagerTest.removeOffsetByGroupTest")
def test_clean_group(crowded: ConsumerProgress) -> None:
    """A cleaned group is forgotten in every topic, resets included, and no other group is."""
    assert (crowded.clean_group("g"), crowded.clean_group("g")) == (2, 0)
    assert kept(crowded) == {"t@h!"}
    assert crowded.query("g", "t", 0) == -1


def test_remove(crowded: ConsumerProgress) -> None:
    """One group in one topic is forgotten, and nothing else."""
    assert (crowded.remove("g", "t"), crowded.remove("g", "t")) == (True, False)
    assert kept(crowded) == {"t@h!", "tt@g!"}


@pytest.mark.behaviour("ConsumerOffsetManagerTest.testOffsetPersistInMemory")
def test_odd_keys_stay(crowded: ConsumerProgress, folder: Path) -> None:
    """Keys that belong to no topic and no group are written again as they were."""
    crowded.clean_topic("t")
    crowded.clean_group("g")
    crowded.persist()
    assert table_in(folder / FILE) == {"plain": {0: 1}, "t@g@client": {0: 2}}


@pytest.mark.parametrize("name", ["", "a@b", "a/b", "a\0", "..", "x" * 256, "\ud800"])
def test_names_that_cannot_be(name: str, progress: ConsumerProgress) -> None:
    """A name that would make another key, or cannot be a folder, is refused by its kind, and nothing changes."""
    for what, call in (
        ("group", lambda: progress.commit(name, "t", 0, 1)), ("topic", lambda: progress.commit("g", name, 0, 1)),
        ("group", lambda: progress.reset(name, "t", 0, 1)), ("topic", lambda: progress.clone("g", "h", name)),
        ("group", lambda: progress.clone("g", name, "t")),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"^{what} "):
            call()
    assert progress.query(name, name, 0) == -1
    assert not progress._dirty


@pytest.mark.parametrize("call", ["commit", "reset"])
@pytest.mark.parametrize(
    ("queue_id", "offset", "text"),
    [
        (-1, 0, "queue id -1"), (1 << 31, 0, "queue id 2147483648"),
        (0, -1, "queue offset -1"), (0, 1 << 63, "queue offset 9223372036854775808"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(queue_id: int, offset: int, text: str, call: str, progress: ConsumerProgress) -> None:
    """Numbers that no queue has are refused with their value, and nothing changes."""
    with pytest.raises(ConfigError, match=text):
        getattr(progress, call)("g", "t", queue_id, offset)
    assert not progress._dirty


def test_threads(progress: ConsumerProgress, folder: Path) -> None:
    """Commits of many threads, with persists between them, all arrive."""

    def work(number: int) -> None:
        for offset in range(300):
            progress.commit(f"g{number % 3}", "t", number, offset)
            if offset % 100 == number:
                progress.persist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    progress.persist()

    assert sum(len(queues) for queues in table_in(folder / FILE).values()) == 8
    assert {offset for queues in table_in(folder / FILE).values() for offset in queues.values()} == {299}
    assert progress.snapshot().data_version == DataVersion(8 * 300 // VERSION_STEP, 0, START_MS)


# --- the file ------------------------------------------------------------------------------------


def test_data_version(progress: ConsumerProgress, folder: Path, clock: Clock) -> None:
    """The data version grows by one every 500 commits, has the time of that, and goes on after a restart."""
    for offset in range(VERSION_STEP - 1):
        progress.commit("g", "t", 0, offset)
    assert progress.snapshot().data_version == DataVersion(0, 0, START_MS)
    clock.now_ms += 7
    progress.commit("g", "t", 0, 0)
    assert progress.snapshot().data_version == DataVersion(1, 0, START_MS + 7)
    progress.persist()

    again = ConsumerProgress.load(home(folder), clock_ms=clock)
    for offset in range(VERSION_STEP):
        again.commit("g", "t", 0, offset)
    version = again.snapshot().data_version
    assert version is not None
    assert version.counter == 2


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="@/\0"), min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..")
)


@pytest.mark.behaviour("ConsumerOffsetManagerTest.testOffsetPersistInMemory", "ConfigManagerTest.testPersist")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(names, names, st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 63) - 1)), max_size=8))
def test_persist_and_load(tmp_path: Path, commits: list[tuple[str, str, int, int]]) -> None:
    """A committed offset is there after a restart, written by the same rules as a broker's file."""
    folder = tmp_path / "config"
    (folder / FILE).unlink(missing_ok=True)
    (folder / BACKUP).unlink(missing_ok=True)
    progress = ConsumerProgress(home(folder))
    for commit in commits:
        progress.commit(*commit)

    assert progress.persist() == bool(commits)

    assert not progress._dirty
    again = ConsumerProgress.load(home(folder))
    assert again.notes == []
    assert again.snapshot().offset_table == progress.snapshot().offset_table
    assert again.count == progress.count == len({commit[:3] for commit in commits})
    for group, topic, queue_id, _ in commits:
        assert again.query(group, topic, queue_id) == progress.query(group, topic, queue_id)


def test_file_of_an_old_broker(folder: Path, clock: Clock) -> None:
    """A 4.x file is loaded, and becomes its own .bak byte for byte when we write."""
    folder.mkdir()
    old = b'{\n\t"offsetTable":{\n\t\t"t@g":{0:250,1:251\n\t\t}\n\t}\n}'
    (folder / FILE).write_bytes(old)
    progress = ConsumerProgress.load(home(folder), clock_ms=clock)

    assert (progress.query_all("g", "t"), progress.notes, progress._dirty) == ({0: 250, 1: 251}, [], False)
    progress.commit("g", "t", 0, 260)
    progress.persist()

    assert (folder / BACKUP).read_bytes() == old
    assert decode((folder / FILE).read_bytes(), FILE) == ConsumerOffsets(
        {"t@g": {0: 260, 1: 251}}, {"g": ["t"]}, DataVersion(0, 0, START_MS)
    )


def test_backup_is_one_step_behind(progress: ConsumerProgress, folder: Path) -> None:
    """The .bak holds what the file held before; the first file of a store has none."""
    for offset in range(3):
        progress.commit("g", "t", 0, offset)
        assert progress.persist()
        assert table_in(folder / FILE) == {"t@g": {0: offset}}
        assert (folder / BACKUP).exists() == (offset > 0)
    assert table_in(folder / BACKUP) == {"t@g": {0: 1}}
    assert sorted(path.name for path in folder.iterdir()) == [FILE, BACKUP]


def test_nothing_new_is_not_written(progress: ConsumerProgress, folder: Path) -> None:
    """A table that did not change is not written again: a commit of the same offset is no change."""
    assert not progress.persist()
    assert not folder.exists()
    progress.commit("g", "t", 0, 1)
    assert progress.persist()
    progress.commit("g", "t", 0, 1)
    progress.clean_topic("other")
    assert not progress._dirty
    assert not progress.persist()


@pytest.mark.parametrize(
    "change",
    [
        lambda progress: progress.commit("g", "t", 0, 2), lambda progress: progress.reset("g", "t", 0, 1),
        lambda progress: progress.clone("g", "h", "t"), lambda progress: progress.clean_topic("t"),
        lambda progress: progress.clean_group("g"), lambda progress: progress.remove("g", "t"),
    ],
)  # fmt: skip
def test_every_change_is_persisted(
    change: Callable[[ConsumerProgress], object], progress: ConsumerProgress, folder: Path
) -> None:
    """Every change of the table makes it due, and is in the file afterwards."""
    progress.commit("g", "t", 0, 1)
    progress.persist()
    change(progress)
    assert progress._dirty
    assert progress.persist()
    assert table_in(folder / FILE) == progress.snapshot().offset_table


def test_persist_if_due(progress: ConsumerProgress, clock: Clock) -> None:
    """A change waits for the interval's end and no longer; a clock that is set back does not put it off."""
    progress.commit("g", "t", 0, 1)
    assert not progress.persist_if_due(START_MS + 4999)
    assert progress.persist_if_due(START_MS + 5000)
    assert not progress.persist_if_due(START_MS + 20_000)
    progress.commit("g", "t", 0, 2)
    assert not progress.persist_if_due(START_MS + 9999)
    assert progress.persist_if_due(START_MS - 1)


# --- damage and crashes --------------------------------------------------------------------------

DAMAGED = [b"\0" * 4096, b'{"offsetTable":{"t@g":{0:2', b"[]", b"\xff\xfe"]


def test_new_store(folder: Path) -> None:
    """Without a file the table is empty, there is nothing to say, and loading makes nothing."""
    progress = ConsumerProgress.load(home(folder))
    assert (progress.snapshot().offset_table, progress.notes, progress._dirty) == ({}, [], False)
    assert not folder.exists()


@pytest.mark.behaviour("ConfigManagerTest.testLoad", "ConfigManagerTest.testLoadBak")
@pytest.mark.parametrize("damaged", DAMAGED)
def test_damaged_file_falls_back(damaged: bytes, folder: Path, clock: Clock) -> None:
    """A damaged file's .bak answers, and a note says so; loading changes nothing, and the next persist keeps both."""
    write(folder, BACKUP, OLDER)
    (folder / FILE).write_bytes(damaged)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    progress = ConsumerProgress.load(home(folder), clock_ms=clock)

    assert progress.snapshot().offset_table == OLDER
    assert len(progress.notes) == 1
    assert str(folder / FILE) in progress.notes[0]
    assert "damaged at byte" in progress.notes[0]
    assert f"was read from {folder / BACKUP}" in progress.notes[0]
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert progress.persist()
    assert table_in(folder / FILE) == table_in(folder / BACKUP) == OLDER
    assert (folder / f"{FILE}.damaged-{START_MS}").read_bytes() == damaged
    assert ConsumerProgress.load(home(folder)).notes == []


def test_second_damage_keeps_the_first(folder: Path, clock: Clock) -> None:
    """A damaged file never takes the place of one that was put aside before."""
    for number in range(2):
        write(folder, BACKUP, OLDER)
        (folder / FILE).write_bytes(b"damage %d" % number)
        ConsumerProgress.load(home(folder), clock_ms=clock).persist()
    assert [(folder / f"{FILE}.damaged-{START_MS + number}").read_bytes() for number in range(2)] == [
        b"damage 0", b"damage 1",
    ]  # fmt: skip


def test_damaged_file_that_someone_removed(folder: Path) -> None:
    """A damaged file that is gone when we write needs no keeping, and does not stop the write."""
    write(folder, BACKUP, OLDER)
    (folder / FILE).write_bytes(DAMAGED[0])
    progress = ConsumerProgress.load(home(folder))
    (folder / FILE).unlink()
    assert progress.persist()
    assert sorted(path.name for path in folder.iterdir()) == [FILE, BACKUP]


@pytest.mark.behaviour("ConfigManagerTest.testLoadBak")
@pytest.mark.parametrize("left", [None, b""])
def test_missing_or_empty_file_falls_back(left: bytes | None, folder: Path) -> None:
    """A broker that was killed between its two steps leaves the .bak alone, or an empty file beside it."""
    write(folder, BACKUP, OLDER)
    if left is not None:
        (folder / FILE).write_bytes(left)

    progress = ConsumerProgress.load(home(folder))

    assert progress.snapshot().offset_table == OLDER
    assert ("is missing" if left is None else "is empty") in progress.notes[0]
    assert progress.persist()
    assert sorted(path.name for path in folder.iterdir()) == [FILE, BACKUP]


def test_empty_file_alone(folder: Path) -> None:
    """An empty file without .bak is a broker's first write that did not happen; a note says what that means."""
    folder.mkdir()
    (folder / FILE).write_bytes(b"")
    progress = ConsumerProgress.load(home(folder))
    assert progress.snapshot().offset_table == {}
    assert "begins again" in progress.notes[0]


@pytest.mark.parametrize("backup", [None, b"", *DAMAGED])
def test_both_damaged(backup: bytes | None, folder: Path) -> None:
    """Progress of which neither file can be read is an error that names both and the remedy, and not an empty table."""
    folder.mkdir()
    (folder / FILE).write_bytes(DAMAGED[0])
    if backup is not None:
        (folder / BACKUP).write_bytes(backup)
    with pytest.raises(DamagedStoreError) as caught:
        ConsumerProgress.load(home(folder))
    for text in (f"{folder / FILE}: damaged", f"{folder / BACKUP}: ", "good copy"):
        assert text in str(caught.value)


def test_damaged_backup_alone(folder: Path) -> None:
    """A missing file with a damaged .bak is not a new store."""
    folder.mkdir()
    (folder / BACKUP).write_bytes(DAMAGED[1])
    with pytest.raises(DamagedStoreError, match="is missing"):
        ConsumerProgress.load(home(folder))


def test_damaged_backup_does_not_matter(folder: Path) -> None:
    """Beside a sound file the .bak is not looked at, and the next persist makes it sound."""
    write(folder, FILE, BEST)
    (folder / BACKUP).write_bytes(DAMAGED[0])
    progress = ConsumerProgress.load(home(folder))
    assert progress.notes == []
    progress.commit("g", "t", 0, 30)
    progress.persist()
    assert table_in(folder / BACKUP) == BEST


def spoil(monkeypatch: pytest.MonkeyPatch, function: str, at: int, fate: BaseException, torn: bool) -> list[int]:
    """Let the `at`th call of a function of the file seam meet its fate; returns the count of calls."""
    true = getattr(fs, function)
    calls = [0]

    def spoiled(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] != at:
            return true(*arguments)
        if torn:
            descriptor, data, offset = arguments
            true(descriptor, memoryview(data)[: len(data) // 2], offset)
        if isinstance(fate, OSError) and function not in ("pwrite", "sync"):
            with fs.errors_named("somewhere", function):
                raise fate
        raise fate

    monkeypatch.setattr(fs, function, spoiled)
    return calls


STEPS = [
    ("pwrite", False), ("pwrite", True), ("sync", False), ("rename", False), ("sync_path", False), ("owner_of", False),
]  # fmt: skip


def changed(folder: Path, damaged: bool) -> ConsumerProgress:
    """Progress with a commit of 30 before a fresh file that says 20, or is damaged and has a .bak that does."""
    for path in folder.iterdir() if folder.exists() else ():
        path.unlink()
    write(folder, FILE, BEST)
    write(folder, BACKUP, BEST if damaged else OLDER)
    if damaged:
        (folder / FILE).write_bytes(DAMAGED[0])
    progress = ConsumerProgress.load(home(folder))
    progress.commit("g", "t", 0, 30)
    return progress


def times(folder: Path, function: str, damaged: bool, monkeypatch: pytest.MonkeyPatch) -> range:
    """The calls of a function that one persist makes, numbered from 1."""
    progress = changed(folder, damaged)
    with monkeypatch.context() as patch:
        calls = spoil(patch, function, 0, Killed(), torn=False)
        progress.persist()
    assert calls[0] > 0
    return range(1, calls[0] + 1)


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize(("function", "torn"), STEPS)
def test_killed_at_every_step(
    function: str, torn: bool, damaged: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A persist that is killed at any step leaves the old table or the new one, and is made good by the next."""
    for at in times(folder, function, damaged, monkeypatch):
        progress = changed(folder, damaged)
        with monkeypatch.context() as patch:
            spoil(patch, function, at, Killed(), torn)
            with pytest.raises(Killed):
                progress.persist()

        after = ConsumerProgress.load(home(folder))

        assert after.query("g", "t", 0) in (20, 30)
        after.commit("g", "t", 0, 40)
        after.persist()
        assert ConsumerProgress.load(home(folder)).query("g", "t", 0) == 40
        if damaged:
            assert [path.read_bytes() for path in folder.glob("*.damaged-*")] == [DAMAGED[0]]
        else:
            assert after.notes == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(("function", "torn"), STEPS)
def test_refused_at_every_step(
    function: str, torn: bool, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A persist that the system refuses is an error of ours; the file keeps a table, and the next one writes it all."""
    for at in times(folder, function, False, monkeypatch):
        progress = changed(folder, damaged=False)
        with monkeypatch.context() as patch:
            spoil(patch, function, at, OSError(number, os.strerror(number)), torn)
            with pytest.raises(NoSpaceError if number == errno.ENOSPC else ReputError):
                progress.persist()

        assert progress._dirty
        assert ConsumerProgress.load(home(folder)).query("g", "t", 0) in (20, 30)
        assert progress.persist()
        assert table_in(folder / FILE) == {"t@g": {0: 30}}
        assert not list(folder.glob("*.tmp"))


def test_failed_persist_is_tried_again(
    progress: ConsumerProgress, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure the next attempt is due an interval later, and makes good."""
    progress.commit("g", "t", 0, 1)
    with monkeypatch.context() as patch:
        spoil(patch, "pwrite", 1, OSError(errno.ENOSPC, "full"), torn=False)
        with pytest.raises(NoSpaceError, match=FILE):
            progress.persist_if_due(START_MS + 5000)
    assert not progress.persist_if_due(START_MS + 9999)
    assert progress.persist_if_due(START_MS + 10_000)
    assert table_in(folder / FILE) == {"t@g": {0: 1}}
