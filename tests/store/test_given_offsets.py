"""Queue offsets are given once: also after a closed store has lost a queue's files, its folder, or the log's end."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.errors import AccessError, DamagedStoreError
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.own.given_offsets import GivenOffsets, decode_given_offsets, encode_given_offsets
from reput.formats.queue.consume_queue import QueueKey
from reput.store.disk import given_offsets
from reput.store.disk.layout import StoreLayout
from reput.store.read import kept_ends
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


def entry_offset(path: Path, number: int) -> int:
    """Return the log offset in an entry of the first queue file of t/0."""
    with (path / paths.CONSUME_QUEUE / "t/0" / paths.offset_name(0)).open("rb") as file:
        file.seek(number * 20)
        return int.from_bytes(file.read(8), "big")


def first_of(path: Path) -> own.Fingerprint:
    """Return the log's first record as the store has kept it."""
    found = given_offsets.read_given_offsets(StoreLayout(path, path / paths.COMMIT_LOG))
    assert found is not None
    assert found.first is not None
    return found.first


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
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    data, end = log.read_bytes(), entry_offset(path, 5)
    log.write_bytes(data[:end] + bytes(len(data) - end))
    reput.rebuild(path, spark=False, config=CONFIG)
    (path / paths.REPUT / own.FRONTIER_NAME).unlink()
    (path / paths.CHECKPOINT).unlink()
    (path / paths.ABORT).touch()
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.max_offset("t", 0) == 5
        assert store.damage == []
        assert store.put_message(reput.Message("t", b"next"), 0).queue_offset == 35


def killed_after(path: Path, topic: str, count: int) -> None:
    """Put messages in a process that is killed before it closes the store."""

    def work() -> None:
        store = reput.MessageStore.open(path, CONFIG)
        put(store, count, topic)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_what_a_killed_program_put_is_kept_by_the_next_one(path: Path) -> None:
    """The next session puts to other queues alone; then files are lost, and the numbers stay given."""
    killed_after(path, "t", 10)
    killed_after(path, "new", 5)
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1, "other")
    lose_last_file(path / paths.CONSUME_QUEUE / "t" / "0")
    shutil.rmtree(path / paths.CONSUME_QUEUE / "new")
    with reput.MessageStore.open(path, CONFIG) as store:
        assert "offsets up to 44 were given" in refusal(store)
        assert "offsets up to 4 were given" in refusal(store, "new")
    reput.rebuild(path, spark=False, config=CONFIG)
    with reput.MessageStore.open(path, CONFIG) as store:
        assert [store.max_offset(topic, 0) for topic in ("t", "new", "other")] == [45, 5, 36]
    assert_sound(path, CONFIG)


def test_numbers_stay_given_when_others_take_the_place_of_the_lost_end(path: Path) -> None:
    """A program that is killed after it has put to another queue does not make them those of another log."""
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 100, "t", properties={"padding": "x" * 1000})
        store.reput(spark=False)
    lose_last_file(path / paths.COMMIT_LOG)
    killed_after(path, "new", 900)
    with reput.MessageStore.open(path, CONFIG) as store:
        assert "offsets up to 134 were given" in refusal(store)


def test_a_reader_of_a_log_that_lost_its_end_reports_its_queues(path: Path) -> None:
    """Entries that lead past the log's end keep no numbers; the log's loss is reported first, at once."""
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 100, "t", properties={"padding": "x" * 1000})
        store.reput(spark=False)
    lose_last_file(path / paths.COMMIT_LOG)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        assert len(bodies(store)) < 135
        assert ["queue t/0" in text for text in store.damage] == [False, True]


def test_lost_files_show_although_a_database_has_their_entries(tmp_path: Path) -> None:
    """With queues in files and in RocksDB a put needs both."""
    path = tmp_path / "store"
    both = replace(CONFIG, rocksdb_cq_double_write_enable=True)
    with reput.MessageStore.open(path, both, create=True) as store:
        put(store, 35)
        store.reput(spark=False)
    lose_last_file(path / paths.CONSUME_QUEUE / "t" / "0")
    with reput.MessageStore.open(path, both) as store:
        assert "offsets up to 34 were given" in refusal(store)


def test_a_reader_takes_no_deletion_of_a_writer_for_a_loss(path: Path) -> None:
    """It asked for another queue before, so it had read what was given."""
    with (
        reput.MessageStore.open(path, CONFIG) as writer,
        reput.MessageStore.open(path, CONFIG, read_only=True) as reader,
    ):
        assert reader.max_offset("other", 0) == 35
        writer.delete_topic("t")
        assert (reader.max_offset("t", 0), reader.damage) == (0, [])
        put(writer, 3)
        assert (reader.max_offset("t", 0), reader.damage) == (3, [])


def test_a_reader_takes_no_close_of_a_writer_for_a_loss(path: Path) -> None:
    """The file is newer than what the reader has read of the log."""
    writer = reput.MessageStore.open(path, CONFIG)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        put(writer, 30)
        writer.close(reput=False)
        assert (reader.max_offset("t", 0), reader.damage) == (65, [])


def test_a_reader_takes_no_expiry_for_a_missing_file(tmp_path: Path) -> None:
    """A writer deletes files of the log and of queues; the reader looks a fifth of a second later."""
    path = tmp_path / "store"
    config = replace(CONFIG, file_reserved_time=0)
    with reput.MessageStore.open(path, config, create=True, delete_expired=True) as writer:
        put(writer, 300, properties={"padding": "x" * 1000})
        writer.reput(spark=False)
        with reput.MessageStore.open(path, config, read_only=True) as reader:
            assert reader.get_message("t", 0, 20).messages
            assert writer.delete_expired(manual=True)
            reader.get_message("t", 0, 5)
            assert reader.damage == []


def test_a_read_needs_no_given_offsets(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read costs a sentence, and no message."""

    def refuse(*_: object) -> None:
        raise AccessError("given-offsets: may not be read")

    monkeypatch.setattr(kept_ends, "read_given_offsets", refuse)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        assert (len(bodies(store)), store.damage) == (35, ["given-offsets: may not be read"])


def test_hostile_numbers_make_no_blanks(path: Path) -> None:
    """More lost messages than the log can have had are left out, and named."""
    layout = StoreLayout(path, path / paths.COMMIT_LOG)
    given = given_offsets.read_given_offsets(layout)
    assert given is not None
    given_offsets.write_given_offsets(layout, given._replace(queues=dict.fromkeys(given.queues, 900_000)))
    (text,) = reput.rebuild(path, spark=False, config=CONFIG).warnings
    assert "more than a log of this size can have had" in text
    assert_sound(path, CONFIG)


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
    assert kept(path)[QueueKey(b"t", 0)] == end + 1
    assert QueueKey(b"other", 0) not in kept(path)


def test_numbers_do_not_count_in_another_log_that_is_shorter(path: Path) -> None:
    """Its queues begin at 0, and nobody takes it for the store's log without its end."""
    for part in (paths.COMMIT_LOG, paths.CONSUME_QUEUE):
        shutil.rmtree(path / part)
    log = LogBuilder(LOG_FILE)
    for _ in range(3):
        log.message("t", queue_id=0)
    log.write(path)
    assert reput.info(path).damage == []
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
        assert (store.max_offset("t", 0), store.max_offset("other", 0), store.damage) == (4, 0, [])
    assert kept(path) == {QueueKey(b"t", 0): 4}


def test_a_damaged_first_record_makes_no_other_log(path: Path) -> None:
    """The numbers of a lost file stay given."""
    log = path / paths.COMMIT_LOG / paths.offset_name(0)
    with log.open("r+b") as file:
        file.seek(first_of(path).size - 20)
        file.write(b"?")
    lose_last_file(path / paths.CONSUME_QUEUE / "t/0")
    with reput.MessageStore.open(path, CONFIG) as store:
        assert "end at queue offset 30" in refusal(store)


def test_messages_stored_before_1970_are_kept_like_others(tmp_path: Path) -> None:
    """A clock may be wrong, and a log of others may say anything."""
    path = tmp_path / "store"
    log = LogBuilder(LOG_FILE)
    log.message("t", queue_id=0, store_timestamp=-5000)
    log.write(path)
    reput.rebuild(path, spark=False, config=CONFIG)
    assert first_of(path).store_timestamp == -5000
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)


def test_a_topic_that_the_broker_has_deleted_begins_again(path: Path) -> None:
    """The broker's topics are the word on that."""
    shutil.rmtree(path / paths.CONSUME_QUEUE / "t")
    (path / paths.CONFIG).mkdir(exist_ok=True)
    (path / paths.CONFIG / "topics.json").write_text('{"topicConfigTable":{"other":{"topicName":"other"}}}')
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1)
        assert (store.max_offset("t", 0), store.damage) == (1, [])


def test_a_close_forgets_what_the_broker_has_deleted(path: Path) -> None:
    """The broker may make the topic again later."""
    test_a_topic_that_the_broker_has_deleted_begins_again(path)
    shutil.rmtree(path / paths.CONSUME_QUEUE / "t")
    with reput.MessageStore.open(path, CONFIG) as store:
        put(store, 1, "other")
    assert [*kept(path)] == [QueueKey(b"other", 0)]


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
RECORDS = st.none() | st.builds(own.Fingerprint, NUMBERS, NUMBERS, NUMBERS, st.integers(-(1 << 63), 1 << 62))


@given(
    NUMBERS,
    RECORDS,
    RECORDS,
    st.dictionaries(st.tuples(NAMES, st.integers(0, 9)), NUMBERS),
)
def test_they_are_read_as_they_were_written(
    log_end: int,
    first: own.Fingerprint | None,
    last: own.Fingerprint | None,
    queues: dict[tuple[str, int], int],
) -> None:
    """Any names of topics are kept."""
    numbers = {QueueKey(name.encode(), number): offset for (name, number), offset in queues.items()}
    value = GivenOffsets(log_end, first, last, numbers)
    assert decode_given_offsets(encode_given_offsets(value), "here") == value


def test_a_reader_that_was_there_before_the_writer_takes_nothing_for_a_loss(path: Path) -> None:
    """It has read a shorter log than the one that the file is about."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        with reput.MessageStore.open(path, CONFIG) as writer:
            put(writer, 5, "new")
            put(writer, 5, "t")
        assert reader.max_offset("new", 0) in (0, 5)
        assert reader.max_offset("t", 0) in (35, 40)
        assert reader.damage == []
