"""Queue offsets are given once: also after a closed store has lost a queue's files, its folder, or the log's end."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.own.given_offsets import GivenOffsets, decode_given_offsets, encode_given_offsets
from reput.formats.queue.consume_queue import QueueKey
from reput.store.disk import given_offsets
from reput.store.disk.layout import StoreLayout
from support.checked import assert_sound
from support.opened import CONFIG, bodies, put
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOG_FILE = 1 << 16


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store of two topics with 35 messages each, 10 entries to a queue file, indexed."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 35)
        put(store, 35, "other")
        store.reput(spark=False)
    return path


def lose_last_file(folder: Path) -> None:
    """Remove the file of a folder that has the highest name."""
    max(folder.iterdir()).unlink()


def refusal(store: reput.MessageStore, topic: str = "t") -> str:
    """Put a message that must be refused; return the reason."""
    result = store.put_message(reput.Message(topic, b"refused"), 0)
    assert result.status is reput.PutStatus.MESSAGE_ILLEGAL
    return result.reason


def kept(path: Path) -> Mapping[QueueKey, int]:
    """Return what the store has kept."""
    found = given_offsets.read_given_offsets(StoreLayout(path, path / paths.COMMIT_LOG))
    return {} if found is None else found.queues


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_a_queue_of_a_closed_store_that_lost_files_gave_its_numbers_again(path: Path, is_folder: bool) -> None:
    """A put is refused, a read reports it, others go on; a rebuild brings all messages back."""
    queue = path / paths.CONSUME_QUEUE / "t"
    if is_folder:
        shutil.rmtree(queue)
    else:
        lose_last_file(queue / "0")
    end = 0 if is_folder else 30
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        assert len(bodies(store)) == end
        (text,) = store.damage
        assert f"queue t/0: its files and the log end at queue offset {end}, and offsets up to 34 were given" in text
        bodies(store, "other")
        assert len(store.damage) == 1
    (text,) = reput.info(path).damage
    assert text.startswith("queues end before offsets that were given: t/0. They lost files")
    with reput.MessageStore.open(path, CONFIG) as store:
        assert "run `reput rebuild`" in refusal(store)
        put(store, 1, "other")
    assert reput.rebuild(path, spark=False, config=CONFIG).warnings == []
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.damage == []
        put(store, 1)
        assert bodies(store) == [*(b"%d" % number for number in range(35)), b"0"]
        assert store.max_offset("other", 0) == 36
    assert reput.info(path).damage == []
    assert_sound(path, CONFIG)


@pytest.mark.parametrize("rebuilds", [1, 2])
@pytest.mark.parametrize("salvage", [False, True])
def test_a_log_of_a_closed_store_that_lost_its_end_gave_numbers_again(path: Path, salvage: bool, rebuilds: int) -> None:
    """A put is refused until a rebuild; the numbers of the lost messages stay used, however often it runs."""
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 100, "t", properties={"padding": "x" * 1000})
        store.reput(spark=False)
    lose_last_file(path / paths.COMMIT_LOG)
    with reput.MessageStore.open(path, CONFIG) as store:
        there = store.max_offset("t", 0)
        assert 35 < there < 135
        assert f"end at queue offset {there}, and offsets up to 134 were given" in refusal(store)
        put(store, 1, "other")
    for _ in range(rebuilds):
        report = reput.rebuild(path, spark=False, config=CONFIG, salvage=salvage)
        salvage = False
        assert [text for text in report.warnings if text.startswith(f"t/0: messages {there} to 134 are lost")]
    (path / paths.ABORT).touch()
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.put_message(reput.Message("t", b"next"), 0).queue_offset == 135
    assert_sound(path, CONFIG)


def test_kept_numbers_count_where_the_whole_log_is_read(path: Path) -> None:
    """Blank entries keep a queue's numbers; the tail, which has the queue's last message, does not hide them."""
    lose_last_file(path / paths.COMMIT_LOG)
    log = LogBuilder(LOG_FILE)
    for _ in range(5):
        log.message("t")
    log.write(path)
    reput.rebuild(path, spark=False, config=CONFIG)
    (path / paths.REPUT / own.FRONTIER_NAME).unlink()
    (path / paths.CHECKPOINT).unlink()
    (path / paths.ABORT).touch()
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.max_offset("t", 0) == 5
        assert store.damage == []
        assert store.put_message(reput.Message("t", b"next"), 0).queue_offset == 35


def test_a_deleted_topic_begins_again_at_0(path: Path) -> None:
    """Deletion forgets the numbers at once, and so does the store's file."""
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
        store.delete_topic("t")
        assert kept(path) == {QueueKey(b"other", 0): 35}
        put(store, 2)
    assert kept(path) == {QueueKey(b"other", 0): 35, QueueKey(b"t", 0): 2}


def test_queues_that_a_session_did_not_touch_stay_known(path: Path) -> None:
    """A close keeps what earlier ones have kept, and a store to which nothing is put keeps its file as it is."""
    before = (path / own.GIVEN_OFFSETS_PART).read_bytes()
    with reput.MessageStore.open(path, CONFIG):
        pass
    assert (path / own.GIVEN_OFFSETS_PART).read_bytes() == before
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1, "third")
    assert kept(path) == {QueueKey(b"other", 0): 35, QueueKey(b"t", 0): 35, QueueKey(b"third", 0): 1}


def test_a_rebuild_keeps_the_numbers_of_what_it_built(tmp_path: Path) -> None:
    """A store of RocketMQ has none of them before; a rebuild of one topic leaves those of others."""
    log = LogBuilder(LOG_FILE)
    for _ in range(3):
        log.message("t")
        log.message("other")
    path = log.write(tmp_path / "store")
    reput.rebuild(path, spark=False, config=CONFIG)
    assert kept(path) == {QueueKey(b"other", 0): 3, QueueKey(b"t", 0): 3}
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
    reput.rebuild(path, spark=False, config=CONFIG, topics=["t"])
    assert kept(path) == {QueueKey(b"other", 0): 3, QueueKey(b"t", 0): 4}


def test_numbers_do_not_count_after_others_have_written(path: Path) -> None:
    """A broker may delete a topic and begin it again, so its queues are as they are."""
    for part in (paths.COMMIT_LOG, paths.CONSUME_QUEUE):
        shutil.rmtree(path / part)
    log = LogBuilder(LOG_FILE)
    for _ in range(100):
        log.message("t" if log.end > 9000 else "new", queue_id=0)
    log.write(path)
    with reput.MessageStore.open(path, CONFIG) as store:
        end = store.max_offset("t", 0)
        assert 0 < end < 35
        put(store, 1)
        assert store.damage == []
    assert kept(path) == {QueueKey(b"t", 0): end + 1}


def test_a_topic_that_the_broker_has_deleted_begins_again(path: Path) -> None:
    """The broker's topics are the word on that."""
    shutil.rmtree(path / paths.CONSUME_QUEUE / "t")
    (path / paths.CONFIG).mkdir(exist_ok=True)
    (path / paths.CONFIG / "topics.json").write_text('{"topicConfigTable":{"other":{"topicName":"other"}}}')
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
        assert (store.max_offset("t", 0), store.damage) == (1, [])


def test_a_damaged_file_is_named(path: Path) -> None:
    """Puts are refused, reads and `check` name it; without it the store goes on."""
    file = path / own.GIVEN_OFFSETS_PART
    file.write_bytes(file.read_bytes().replace(b"35", b"36", 1))
    with reput.MessageStore.open(path, CONFIG) as store:
        assert f"{file}: not a file that this version" in refusal(store)
        assert len(bodies(store)) == 35
        assert any(text.startswith(f"{file}: ") for text in store.damage)
    assert any(text.startswith(f"{file}: ") for text in reput.info(path).damage)
    report = reput.check(path, spark=False, config=CONFIG)
    assert [(one.rule, one.file) for one in report.findings] == [("own-file-damaged", str(file))]
    with pytest.raises(DamagedStoreError, match="remove it"):
        reput.rebuild(path, spark=False, config=CONFIG)
    file.unlink()
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
    assert_sound(path, CONFIG)


def test_too_many_queues_are_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of more queues than that has no such file."""
    monkeypatch.setattr(given_offsets, "MOST_QUEUES", 2)
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1, "third")
    assert not (path / own.GIVEN_OFFSETS_PART).exists()


NAMES = st.text(min_size=1, max_size=20).filter(lambda name: paths.is_topic_folder_name(name.encode(errors="replace")))


NUMBERS = st.integers(0, 1 << 62)


@given(
    NUMBERS,
    st.none() | st.builds(own.Fingerprint, *[NUMBERS] * 4),
    st.dictionaries(st.tuples(NAMES, st.integers(0, 9)), NUMBERS),
)
def test_they_are_read_as_they_were_written(
    log_end: int, last: own.Fingerprint | None, queues: dict[tuple[str, int], int]
) -> None:
    """Any names of topics are kept."""
    value = GivenOffsets(
        log_end, last, {QueueKey(name.encode(), number): offset for (name, number), offset in queues.items()}
    )
    assert decode_given_offsets(encode_given_offsets(value), "here") == value
