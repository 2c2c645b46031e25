"""A sender: its puts are those of `put_message`, byte for byte, with the same answers and errors."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.formats.log.property_names import WAIT
from support.checked import assert_sound
from support.forked import answer_of_child
from support.opened import CONFIG, bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

OK = reput.PutStatus.PUT_OK
VALUES: list[dict[str, Any]] = [
    {"body": b"plain"},
    {"body": b""},
    {"body": b"tags", "tags": "paid"},
    {"body": b"empty tags", "tags": ""},
    {"body": b"key", "keys": "k-1"},
    {"body": b"keys", "keys": ("k-1", "k-2"), "tags": "paid"},
    {"body": b"a list", "keys": ["k-1"]},
    {"body": b"all", "tags": "schön", "keys": "订单", "unique_key": "u-1", "flag": -7, "born_timestamp": 12},
    {"body": b"properties", "properties": {"region": "eu"}, "keys": "k"},
    {"body": b"no properties", "properties": {}},
    {"body": bytearray(b"array")},
    {"body": "text"},
    {"body": None},
    {"body": bytes(CONFIG.max_message_size + 1 if CONFIG.max_message_size else (4 << 20) + 1)},
    {"body": b"bad", "tags": "a\x01b"},
    {"body": b"bad", "tags": "half \udc80"},
    {"body": b"bad", "keys": "a b"},
    {"body": b"bad", "keys": ""},
    {"body": b"bad", "keys": 5},
    {"body": b"bad", "unique_key": ""},
    {"body": b"bad", "flag": 1 << 31},
    {"body": b"bad", "flag": "1"},
    {"body": b"bad", "born_timestamp": 1 << 63},
    {"body": b"long", "tags": "t" * 32760},
    {"body": b"too long", "keys": "k" * 32768},
    {"body": b"twice", "tags": "a", "properties": {"TAGS": "b"}},
]
NEVER_REFUSED = 10


@pytest.fixture
def store(tmp_path: Path) -> Iterator[reput.MessageStore]:
    """A new store of small files; sound when the test is over."""
    opened = reput.MessageStore.open(tmp_path / "store", CONFIG, create=True)
    yield opened
    opened.close()
    assert_sound(tmp_path / "store", CONFIG)


def log_of(path: Path) -> bytes:
    """The bytes of the log's files."""
    return b"".join(file.read_bytes() for file in sorted((path / "commitlog").iterdir()))


@pytest.mark.parametrize("topic", ["orders", "订" * 60])
def test_a_sender_stores_what_a_put_stores(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any values get the same answers, and leave the same log: those that are refused, too."""
    monkeypatch.setattr("reput.log.append.append._time_ns", lambda: 1_700_000_000_000_000_000)
    answers: list[list[reput.PutResult]] = []
    for name in ("sent", "put"):
        with reput.MessageStore.open(tmp_path / name, CONFIG, create=True) as store:
            sender, found = store.sender(topic, 3), []
            for values in VALUES * 3:
                given = {key: value for key, value in values.items() if key != "body"}
                if name == "sent":
                    found.append(sender.put(values["body"], **given))
                else:
                    found.append(store.put_message(reput.Message(topic, values["body"], **given), 3))
            assert [result.status for result in found[:NEVER_REFUSED]] == [OK] * NEVER_REFUSED
            answers.append(found)
        assert_sound(tmp_path / name, CONFIG)
    assert answers[0] == answers[1]
    assert log_of(tmp_path / "sent") == log_of(tmp_path / "put")
    assert {result.status for result in answers[0]} > {OK, reput.PutStatus.MESSAGE_ILLEGAL}


@pytest.mark.parametrize(
    ("topic", "queue_id"), [("", 0), ("a/b", 0), ("t" * 256, 0), ("t", -1), ("t", 1 << 31), ("t", "0"), (5, 0)]
)
def test_what_no_message_can_be_put_to_has_no_sender(store: reput.MessageStore, topic: str, queue_id: int) -> None:
    """The sender is refused with the reason that a put gets."""
    refused = store.put_message(reput.Message(topic, b"x"), queue_id)
    with pytest.raises(reput.PutError) as raised:
        store.sender(topic, queue_id)
    assert (raised.value.status, raised.value.reason) == (refused.status, refused.reason)


def test_senders_and_puts_take_turns(store: reput.MessageStore) -> None:
    """Puts of senders and of the store continue the same numbers, and each message is readable at once."""
    one, other = store.sender("t", 1), store.sender("t", 1)
    for number in range(0, 300, 3):
        for step, put in enumerate((one.put, other.put, lambda body: store.put_message(reput.Message("t", body), 1))):
            result = put(b"%d" % (number + step))
            assert result.queue_offset == number + step
            assert store.get_message("t", 1, result.queue_offset)[0].body == b"%d" % result.queue_offset
    assert repr(one) == "<reput sender to t/1>"
    assert bodies(store, "t", 1) == [b"%d" % number for number in range(300)]


def test_a_deleted_topic_begins_again(store: reput.MessageStore) -> None:
    """A sender that was made before its topic was deleted puts from offset 0 on."""
    sender = store.sender("t", 0)
    assert [sender.put(b"old").queue_offset for _ in range(3)] == [0, 1, 2]
    store.delete_topic("t")
    assert [sender.put(b"new").queue_offset for _ in range(3)] == [0, 1, 2]
    assert bodies(store, "t", 0) == [b"new"] * 3


def test_a_closed_or_read_only_store_refuses(tmp_path: Path) -> None:
    """A sender raises what a put raises, and none is made."""
    store = reput.MessageStore.open(tmp_path / "s", CONFIG, create=True)
    sender = store.sender("t", 0)
    sender.put(b"stored")
    store.close()
    for call in (lambda: sender.put(b"late"), lambda: store.sender("t", 0)):
        with pytest.raises(reput.ClosedError):
            call()
    with (
        reput.MessageStore.open(tmp_path / "s", CONFIG, read_only=True) as reader,
        pytest.raises(reput.AccessError),
    ):
        reader.sender("t", 0)
    assert_sound(tmp_path / "s", CONFIG)


def test_a_forked_child_cannot_send(store: reput.MessageStore) -> None:
    """The sender of the parent raises in the child, and the parent's log stays as it was."""
    sender = store.sender("t", 0)
    sender.put(b"before")

    def send() -> str:
        with pytest.raises(reput.ForkedStoreError) as raised:
            sender.put(b"by a child")
        return str(raised.value)

    assert str(store.layout.root) in answer_of_child(send)
    sender.put(b"after")
    assert bodies(store, "t", 0) == [b"before", b"after"]


def test_a_full_tail_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender waits for the tail and fails as a put does, and goes on when there is room."""
    monkeypatch.setattr("reput.store.putting.TAIL_WAIT_S", 0.05)
    with reput.MessageStore.open(tmp_path / "s", replace(CONFIG, tail_max_entries=10), create=True) as store:
        sender = store.sender("t", 0)
        for _ in range(10):
            sender.put(b"x")
        store.get_message("t", 0, 0)
        with pytest.raises(reput.TailFullError):
            sender.put(b"x")
        store.reput(spark=False)
        assert sender.put(b"x").queue_offset == 10
    assert_sound(tmp_path / "s", CONFIG)


def test_a_sender_waits_for_the_disk(tmp_path: Path) -> None:
    """With sync flush a message is durable when its put returns, but for one with WAIT=false."""
    with reput.MessageStore.open(tmp_path / "s", replace(CONFIG, flush_disk_type="SYNC_FLUSH"), create=True) as store:
        sender = store.sender("t", 0)
        for _ in range(3):
            result = sender.put(b"x")
            assert store.flushed_offset >= result.end_offset
        assert sender.put(b"x", properties={WAIT: "false"}).status is OK
    assert_sound(tmp_path / "s", CONFIG)


def test_an_arrival_is_noticed(store: reput.MessageStore) -> None:
    """A message that a sender puts wakes who waits for its queue."""
    sender, arrived = store.sender("订单", 2), threading.Event()
    sender.put(b"first")
    store.on_arrival("订单", 2, 1, arrived.set)
    sender.put(b"second")
    assert arrived.is_set()


def test_threads_send_at_once(store: reput.MessageStore) -> None:
    """Puts of many senders from many threads get each place and each number once."""
    senders = [store.sender("t", number % 2) for number in range(4)]
    found: list[list[reput.PutResult]] = [[] for _ in senders]

    def send(number: int) -> None:
        found[number] += [senders[number].put(b"%d" % count) for count in range(500)]

    threads = [threading.Thread(target=send, args=(number,)) for number in range(len(senders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for queue_id in range(2):
        offsets = sorted(result.queue_offset for result in found[queue_id] + found[queue_id + 2])
        assert offsets == list(range(1000))
    places = sorted((result.physical_offset, result.end_offset) for results in found for result in results)
    assert len({begin for begin, _ in places}) == 2000
    assert all(end <= begin for (_, end), (begin, _) in pairwise(places))
