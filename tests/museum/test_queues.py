"""Faults of ConsumeQueues that stores have had: what reput says of the state that each left, and does with it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats import paths
from support import golden, museum, opened, stores
from support.checked import assert_sound, rules_of
from support.museum import queues

if TYPE_CHECKING:
    from pathlib import Path


def test_467_a_message_left_out_of_its_queue(tmp_path: Path) -> None:
    """An entry that was left out, with the later ones a place early, is damage that names the first wrong place."""
    store = museum.make("467", tmp_path)
    assert rules_of(store) == {("damage", "queue-entry-wrong"): 17, ("damage", "queue-out-of-date"): 1}
    (wrong,) = (one for one in reput.check(store, spark=False).findings if one.rule == "queue-entry-wrong")
    assert f"first queue offset {queues.LEFT_OUT}" in wrong.detail
    stores.rebuild(store)
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert opened.bodies(opened_store, "orders") == [b"%03d" % number for number in range(30)]


def test_7355_the_last_file_of_a_queue(tmp_path: Path) -> None:
    """A queue that lost its last file is damage, and a rebuild gives back RocketMQ's own bytes of it."""
    store = museum.make("7355", tmp_path)
    lost = golden.facts("basic").entries("orders") - 2 * golden.QUEUE_FILE_ENTRIES
    assert rules_of(store) == {("damage", "queue-out-of-date"): lost}
    reput.rebuild(store, spark=False, only="queue")
    assert stores.queue_files(store) == stores.queue_files(golden.shared("basic"))
    assert_sound(store)


def test_8032_no_queue_is_left(tmp_path: Path) -> None:
    """Without any queue the messages are read from the log, and a rebuild brings all queues back."""
    store = museum.make("8032", tmp_path)
    facts = golden.facts("crash")
    assert rules_of(store)["leftover", "queue-out-of-date"] == facts.queue_entries
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        spans = {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in opened_store.queues()}
        assert spans == facts.queues
    reput.rebuild(store, spark=False, only="queue", config=stores.GOLDEN)
    assert stores.queue_files(store) == stores.queue_files(golden.shared("crash"))


def test_405_power_lost_before_the_dispatch(tmp_path: Path) -> None:
    """Messages of the log that no queue has are readable at once, and get their entries when the store is opened."""
    store = museum.make("405", tmp_path)
    wanted = [b"%03d" % number for number in range(30)]
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert opened.bodies(opened_store, "orders") == wanted
    with reput.MessageStore.open(store, create=True) as opened_store:
        assert opened_store.put_message(reput.Message("orders", b"next")).queue_offset == 30
    assert stores.positions(store, "orders")[20] is not None
    assert_sound(store)


def test_9728_an_empty_last_file(tmp_path: Path) -> None:
    """A last queue file of zeros does not keep the store from opening, and new entries go into it."""
    store = museum.make("9728", tmp_path)
    assert rules_of(store) == {}
    with reput.MessageStore.open(store, create=True) as opened_store:
        assert (opened_store.min_offset("orders", 0), opened_store.max_offset("orders", 0)) == (0, 20)
        assert opened_store.put_message(reput.Message("orders", b"next")).queue_offset == 20
    assert len(stores.positions(store, "orders")) == 21
    assert_sound(store)


def test_10211_half_an_entry(tmp_path: Path) -> None:
    """An entry of which a part was written is damage; the store is read, and a rebuild completes it."""
    store = museum.make("10211", tmp_path)
    assert rules_of(store) == {("damage", "queue-entry-wrong"): 1}
    stores.rebuild(store)
    assert None not in stores.positions(store, "orders")


def test_10417_a_queue_that_was_truncated_away(tmp_path: Path) -> None:
    """A queue without files and records begins at 0 and ends at 0, and new messages of it are consumed."""
    store = museum.make("10417", tmp_path)
    with reput.MessageStore.open(store, create=True) as opened_store:
        assert (opened_store.min_offset("fresh", 0), opened_store.max_offset("fresh", 0)) == (0, 0)
        assert opened_store.put_message(reput.Message("fresh", b"new")).queue_offset == 0
        assert opened.bodies(opened_store, "fresh") == [b"new"]
    stores.rebuild(store)


def test_8753_a_queue_whose_log_files_are_deleted(tmp_path: Path) -> None:
    """A queue begins where its first message that is left begins; one without a message begins where it ends."""
    store = museum.make("8753", tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert opened_store.min_offset("TopicTest1", 0) == opened_store.max_offset("TopicTest1", 0) == 40
        left = opened.bodies(opened_store, "TopicTest2")
        assert opened_store.min_offset("TopicTest2", 0) == 40 - len(left) > 0
        assert opened_store.get_message("TopicTest1", 0, 0).next_offset == 40
    assert reput.check(store, spark=False).sound


def test_1852_a_deleted_topic_comes_back(tmp_path: Path) -> None:
    """A rebuild says which queues are those of deleted topics; a topic that reput deletes stays deleted."""
    store = museum.make("1852", tmp_path)
    report = reput.rebuild(store, spark=False)
    assert any("perhaps deleted: audit" in note for note in report.notes)
    with reput.MessageStore.open(store, create=True) as opened_store:
        assert opened_store.delete_topic("audit") != []
    reput.rebuild(store, spark=False)
    with reput.MessageStore.open(store, create=True) as opened_store:
        assert "audit" not in opened_store.topics()
        assert opened_store.max_offset("audit", 0) == 0
    assert_sound(store)


def test_6343_ext_units_of_a_deleted_topic(tmp_path: Path) -> None:
    """Units of a topic without queues do no harm, and a deletion by reput takes the units, too."""
    store = museum.make("6343", tmp_path)
    assert set(rules_of(store)) == {("note", "queue-of-deleted-topic")}
    again = golden.unpack("ext", tmp_path)
    with reput.MessageStore.open(again, stores.GOLDEN, create=True) as opened_store:
        opened_store.delete_topic("orders")
    assert not list((again / paths.CONSUME_QUEUE_EXT / "orders").glob("*"))


def test_10756_a_message_dispatched_twice(tmp_path: Path) -> None:
    """A unit between two others that no entry leads to is left over, not damage; a rebuild leaves it out."""
    store = museum.make("10756", tmp_path)
    assert rules_of(store) == {("leftover", "ext-orphans"): 1}
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        tagged = opened_store.get_message("payments", 0, 0, filter="paid")
        assert {message.tags for message in tagged} == {"paid"}
    reput.rebuild(store, spark=False)
    assert rules_of(store) == {}


def test_10755_units_after_a_truncation(tmp_path: Path) -> None:
    """Units after the last entry are left over, and the next entries' units take their places."""
    store = museum.make("10755", tmp_path)
    found = rules_of(store)
    assert found["leftover", "ext-orphans"] > 0
    assert not [rule for severity, rule in found if severity == "damage"]
    with reput.MessageStore.open(store, stores.GOLDEN, create=True) as opened_store:
        opened_store.put_message(reput.Message("orders", b"next", tags="paid"))
        opened_store.reput(spark=False)
    reput.rebuild(store, spark=False)
    assert_sound(store)


def test_7511_two_messages_with_one_number_in_a_light_queue(tmp_path: Path) -> None:
    """Of two messages with one number in a light queue the first has it; the other one is reported, and not lost."""
    store = museum.make("7511", tmp_path)
    report = reput.rebuild(store, spark=False, config=stores.SMALL)
    (odd,) = (one for one in report.out_of_order_queues if one.topic == "%LMQ%device")
    assert odd.repeats == 1
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert opened.bodies(opened_store, "%LMQ%device") == [b"0", b"1", b"3"]
        assert opened.bodies(opened_store, "orders", 0) == [b"0", b"2"]


def test_8693_a_number_of_a_light_queue_that_nobody_has(tmp_path: Path) -> None:
    """A number that no message has is filled, so that the queue goes on after it."""
    store = museum.make("8693", tmp_path)
    report = reput.rebuild(store, spark=False, config=stores.SMALL)
    (odd,) = (one for one in report.out_of_order_queues if one.topic == "%LMQ%device")
    assert odd.blanks == 1
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert opened.bodies(opened_store, "%LMQ%device") == [b"0", b"2"]
        assert opened_store.max_offset("%LMQ%device", 0) == 3


def test_4890_messages_of_one_millisecond(tmp_path: Path) -> None:
    """The first and the last message of a millisecond are found, also if they are in two files of the queue."""
    store = museum.make("4890", tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        times = [message.store_timestamp for message in opened.pulled(opened_store, "orders")]
        spans = 0
        for time in sorted(set(times)):
            first = opened_store.offset_by_time("orders", 0, time, "lower")
            last = opened_store.offset_by_time("orders", 0, time, "upper")
            assert (first, last) == (times.index(time), len(times) - 1 - times[::-1].index(time))
            spans += first // queues.FILE_ENTRIES != last // queues.FILE_ENTRIES
        assert spans > 0


@pytest.mark.parametrize("name", ["basic", "rocksdb"])
def test_2661_8736_a_time_after_the_last_message(name: str) -> None:
    """A time after the last message gives the end of its queue, in files and in RocksDB: not -1 or the last but one."""
    with reput.MessageStore.open(golden.shared(name), read_only=True) as opened_store:
        for info in opened_store.queues():
            last = opened_store.store_time(info.topic, info.queue_id, info.max_offset - 1)
            asked = info.topic, info.queue_id, last + 1000
            assert opened_store.offset_by_time(*asked, "lower") == info.max_offset
            assert opened_store.offset_by_time(*asked, "upper") == info.max_offset - 1


def test_4070_a_time_after_the_last_batch() -> None:
    """In a queue of batches such a time gives the last batch, as in RocketMQ 5.5.1: not -1, so the queue's begin."""
    with reput.MessageStore.open(golden.shared("batch"), read_only=True) as opened_store:
        for info in opened_store.queues("batches"):
            last = opened_store.store_time(info.topic, info.queue_id, info.max_offset - 1)
            found = opened_store.offset_by_time(info.topic, info.queue_id, last + 1000)
            assert opened_store.store_time(info.topic, info.queue_id, found) == last
            (message,) = opened_store.get_message(info.topic, info.queue_id, info.max_offset - 1)
            assert found == message.queue_offset


def test_museum_states_are_fresh(tmp_path: Path) -> None:
    """A state is made anew each time, and is the same."""
    for number in ("467", "10755"):
        first = stores.digest(museum.make(number, tmp_path / "first"))
        assert stores.digest(museum.make(number, tmp_path / "second")) == first
        for name in ("first", "second"):
            shutil.rmtree(tmp_path / name)
