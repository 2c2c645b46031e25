"""Entries of a damaged queue: a reader gives the records that they name, or passes over one alone, and says so."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import reput
from reput.cli.main import cli
from reput.errors import DamagedLogError, DamagedStoreError
from reput.formats import paths
from reput.formats.log.property_names import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY, BATCH_ENTRY_SIZE
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE
from reput.store.read.foreign import without_foreign
from reput.store.read.message import StoredMessage
from reput.store.read.queue_walk import pulls_of
from support import golden, stores
from support.opened import CONFIG, put
from support.records import BODY_AT_V4, LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

WRONG = {
    "no size": (None, 0),
    "a size past the log's end": (None, 0x7FFFFFFF),
    "a place past the log's end": (1 << 40, None),
    "nothing at all": (0, 0),
}
_BAD = 3


def test_entries_in_no_order_over_two_files_of_the_log(tmp_path: Path) -> None:
    """Entries that are in no order give the records that they name, whatever files of the log these are in."""
    log = LogBuilder(4096)
    placed = [log.message("topic", body=bytes(900)) for _ in range(8)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    file = store / paths.CONSUME_QUEUE / "topic" / "0" / paths.offset_name(0)
    data = file.read_bytes()
    order = [6, 0, 7, 1]
    file.write_bytes(b"".join(data[at * ENTRY_SIZE : (at + 1) * ENTRY_SIZE] for at in order) + data[4 * ENTRY_SIZE :])
    with reput.MessageStore.open(store, stores.SMALL, read_only=True) as opened:
        result = opened.get_message("topic", 0, 0, 4)
        assert [one.physical_offset for one in result] == [placed[number].offset for number in order]
        assert b"".join(result.pieces()) == b"".join(bytes(one.raw) for one in result)


@pytest.mark.parametrize("topic", ["topic", "other"], ids=["another queue", "another topic"])
def test_an_entry_that_leads_to_the_message_of_another_queue(topic: str, tmp_path: Path) -> None:
    """Values of a message are not given if it is of another queue than the one asked for: the error names both."""
    log = LogBuilder(4096)
    good = [log.message("topic", queue_id=1, body=b"good") for _ in range(2)]
    foreign = log.message(topic, queue_id=0, body=b"bad")
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    file = store / paths.CONSUME_QUEUE / "topic" / "1" / paths.offset_name(0)
    data = bytearray(file.read_bytes())
    ENTRY.struct.pack_into(data, ENTRY_SIZE, foreign.offset, len(foreign.data), 0)
    file.write_bytes(data)
    with reput.MessageStore.open(store, stores.SMALL, read_only=True) as opened:
        for _ in range(4):
            before, message = opened.get_message("topic", 1, 0)
            assert before.raw == good[0].data
            assert message.raw == foreign.data
            with pytest.raises(DamagedStoreError, match=f"of queue topic/1 leads to this message of queue {topic}/0"):
                _ = message.body
            with pytest.raises(DamagedStoreError, match="reput rebuild --only queue"):
                _ = message.record
            assert "not readable" in repr(message)
            assert isinstance(pickle.loads(pickle.dumps(before)), StoredMessage)
            with pytest.raises(DamagedStoreError):
                _ = pickle.loads(pickle.dumps(message)).body
        assert opened.damage == []
        checked = without_foreign(opened.get_message("topic", 1, 0), opened.view.damaged)
        assert [one.raw for one in checked] == [good[0].data]
        (text,) = opened.damage
    command = ["get", str(store), "-t", "topic", "-q", "1", "--set", "mappedFileSizeCommitLog=4096"]
    shown = CliRunner().invoke(cli, command, standalone_mode=False)
    assert shown.return_value == 1
    assert shown.stdout.count("\n") == 1
    assert text in shown.stderr
    assert "an entry before queue offset 2 leads to a message of another queue" in text


def test_a_light_queue_with_the_message_of_another_one(tmp_path: Path) -> None:
    """Messages that name a light queue are its own in any reader, and one that does not name it is foreign there."""
    log = LogBuilder(4096)
    own = [log.message("topic", queue_id=3, body=b"own", more=further("%LMQ%x", n)) for n in range(3)]
    foreign = log.message("other", body=b"secret", more=further("%LMQ%y", 0))
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    file = store / paths.CONSUME_QUEUE / "%LMQ%x" / "0" / paths.offset_name(0)
    data = bytearray(file.read_bytes())
    ENTRY.struct.pack_into(data, 2 * ENTRY_SIZE, foreign.offset, foreign.size, 0)
    file.write_bytes(data)
    with reput.MessageStore.open(store, stores.SMALL, read_only=True) as opened:
        result = opened.get_message("%LMQ%x", 0, 0)
        assert [one.body for one in result.messages[:2]] == [b"own", b"own"]
        with pytest.raises(DamagedStoreError):
            _ = result[2].body
        checked = without_foreign(result, opened.view.damaged)
        assert [one.raw for one in checked] == [one.data for one in own[:2]]
        assert checked.next_offset == result.next_offset
        assert len(opened.damage) == 1


def further(queue: str, offset: int) -> dict[str, str]:
    """The properties of a message that has an entry in a further queue."""
    return {INNER_MULTI_DISPATCH: queue, INNER_MULTI_QUEUE_OFFSET: f"{offset}"}


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [0, 0, 2, 3]], ids=["exchanged", "twice"])
def test_entries_that_damage_has_exchanged_are_reported(order: list[int], tmp_path: Path) -> None:
    """Messages in another order than they were stored, or twice, are given as the entries say, and never silently."""
    log = LogBuilder(1 << 16)
    placed = [log.message("topic", body=b"%d" % n) for n in range(4)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    file = store / paths.CONSUME_QUEUE / "topic" / "0" / paths.offset_name(0)
    data = file.read_bytes()
    file.write_bytes(b"".join(data[at * ENTRY_SIZE : (at + 1) * ENTRY_SIZE] for at in order) + data[4 * ENTRY_SIZE :])
    with reput.MessageStore.open(store, stores.SMALL, read_only=True) as opened:
        for _ in range(4):
            result = opened.get_message("topic", 0, 0, 4)
            assert [one.physical_offset for one in result] == [placed[number].offset for number in order]
        (text,) = opened.damage
        wrong = 2 if order[1] else 1
        assert f"queue topic/0: the entry of queue offset {wrong} leads to a record that does not lie after" in text


def test_a_put_to_the_files_of_another_queue_took_its_numbers(tmp_path: Path) -> None:
    """Of two queues whose folders were exchanged a put is refused; after a rebuild both go on at their own numbers."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 3, "t", 0)
        put(store, 5, "t", 1)
    folder = path / paths.CONSUME_QUEUE / "t"
    for before, after in (("0", "x"), ("1", "0"), ("x", "1")):
        (folder / before).rename(folder / after)
    with reput.MessageStore.open(path, CONFIG) as store:
        for queue_id in (0, 1):
            result = store.put_message(reput.Message("t", b"next"), queue_id)
            assert result.status is reput.PutStatus.MESSAGE_ILLEGAL
            assert f"an entry of queue t/{queue_id} leads to this message of queue t/{1 - queue_id}" in result.reason
            assert "reput rebuild --only queue" in result.reason
        put(store, 2, "other")
    reput.rebuild(path, only="queue", spark=False, config=CONFIG)
    with reput.MessageStore.open(path, CONFIG) as store:
        assert store.put_message(reput.Message("t", b"next"), 0).queue_offset == 3
        assert store.put_message(reput.Message("t", b"next"), 1).queue_offset == 5


def test_a_queue_whose_last_record_is_damaged_took_no_more_messages(tmp_path: Path) -> None:
    """The entry shows where the queue ends, whatever became of its record in the log."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        (damaged,) = put(store, 1, "t", 0)
        put(store, 5, "t", 1)
    (file,) = (path / paths.COMMIT_LOG).iterdir()
    data = bytearray(file.read_bytes())
    data[damaged + BODY_AT_V4 - 1] ^= 0x7F
    file.write_bytes(data)
    with reput.MessageStore.open(path, CONFIG) as store:
        (message,) = store.get_message("t", 0, 0)
        with pytest.raises(DamagedLogError):
            _ = message.body
        assert store.put_message(reput.Message("t", b"next"), 0).queue_offset == 1


def with_wrong_entry(path: Path, place: int | None, size: int | None) -> Path:
    """A store of ten messages of which an entry leads to no record."""
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 10)
    (file,) = (path / paths.CONSUME_QUEUE).rglob(paths.offset_name(0))
    data = bytearray(file.read_bytes())
    entry = ENTRY.struct.unpack_from(data, _BAD * ENTRY_SIZE)
    wrong = entry[0] if place is None else place, entry[1] if size is None else size, entry[2]
    ENTRY.struct.pack_into(data, _BAD * ENTRY_SIZE, *wrong)
    file.write_bytes(data)
    return path


@pytest.mark.parametrize(("place", "size"), WRONG.values(), ids=WRONG)
def test_one_damaged_entry_hid_all_messages_of_its_log_file(
    place: int | None, size: int | None, tmp_path: Path
) -> None:
    """A pull over a damaged entry gives all other messages, and `damage` names the queue, the offset and what helps."""
    path = with_wrong_entry(tmp_path / "store", place, size)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        (topic,) = store.topics()
        whole = [n for n in range(10) if n != _BAD]
        assert [message.body for message in store.messages(topic)] == [b"%d" % n for n in whole]
        assert [message.queue_offset for message in store.get_message(topic, 0, _BAD, 1)] == [_BAD + 1]
        (text,) = store.damage
        assert f"{path}: queue {topic}/0: the entry of queue offset {_BAD} leads to no record" in text
        assert "reput rebuild --only queue" in text
    shown = CliRunner().invoke(cli, ["get", str(path), "-t", topic, "--json"], standalone_mode=False)
    assert shown.return_value == 1
    assert shown.stderr.count(text) == 1
    assert shown.stdout.count("\n") == 9


@pytest.mark.golden
def test_a_damaged_batch_is_passed_over_alone(tmp_path: Path) -> None:
    """A batch that leads to no record costs no other batch."""
    store = golden.unpack("batch", tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened:
        before = [message.physical_offset for message in opened.messages("batches", [0])]
    file = min((store / paths.BATCH_CONSUME_QUEUE / "batches" / "0").iterdir())
    data = bytearray(file.read_bytes())
    entry = list(BATCH_ENTRY.struct.unpack_from(data, BATCH_ENTRY_SIZE))
    lost, entry[1] = entry[0], 0
    BATCH_ENTRY.struct.pack_into(data, BATCH_ENTRY_SIZE, *entry)
    file.write_bytes(data)
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert [message.physical_offset for message in opened.messages("batches", [0])] == [
            offset for offset in before if offset != lost
        ]
        assert any("queue batches/0: the entry of queue offset" in text for text in opened.damage)


@pytest.mark.golden
@pytest.mark.parametrize("name", [*golden.STORES, *golden.STORES_55])
def test_no_entry_of_rocketmqs_is_taken_for_damage(name: str) -> None:
    """In stores that RocketMQ wrote every entry leads to a message of its queue, one after the other."""
    with reput.MessageStore.open(golden.shared(name), read_only=True) as opened:
        before = list(opened.damage)
        for topic, queue_id, begin, end in opened.queues():
            for _, result in pulls_of(partial(opened.get_message, topic, queue_id), begin, end):
                assert without_foreign(result, opened.view.damaged) is result
                assert all(message.record for message in result)
        assert opened.damage == before


def test_a_missing_file_in_the_middle_of_a_queue_was_passed_over_as_if_nothing_were_wrong(tmp_path: Path) -> None:
    """Reads go on after it, name the queue and what helps, and the exit code is 1."""
    path = tmp_path / "store"
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        put(store, 35)
        store.reput(spark=False)
    (path / paths.CONSUME_QUEUE / "t" / "0" / paths.offset_name(10 * ENTRY_SIZE)).unlink()
    with reput.MessageStore.open(path, CONFIG, read_only=True) as store:
        assert [int(message.body) for message in store.messages("t")] == [*range(10), *range(20, 35)]
        (text,) = store.damage
        assert "queue t/0: the entry of queue offset 10 is in a file that is missing" in text
        assert "`reput rebuild --only queue` builds them from the log" in text
    shown = CliRunner().invoke(cli, ["get", str(path), "-t", "t", "-c", "100"], standalone_mode=False)
    assert (shown.return_value, shown.stdout.count("\n")) == (1, 25)
