"""Messages that pop consumers hold, and half messages, in stores made here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.formats import paths
from reput.formats.pending import pop_database
from reput.formats.pending.pop_database import PopRecord, pop_key
from reput.formats.pending.transaction_database import LAST_OFFSET_KEY, HalfEntry
from reput.formats.pending.transactions import encode_ended_offsets
from reput.formats.topics.system_topics import (
    DATABASE_HALF_TOPIC,
    DATABASE_OP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    REVIVE_GROUP,
    TRANSACTION_GROUP,
)
from reput.store.pending.pop_row import PopLag
from reput.store.pending.verify import RecordState
from support.checked import assert_sound
from support.encoders import encode_half_entry, encode_pop_record
from support.pending import DUE_MS, PutTimer, put, put_timer, unit_of, waiting_store, write_database, write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from reput.store.pending.half_row import PendingTransaction
    from reput.store.pending.pop_row import PendingPop

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
POP_MS = DUE_MS - 60_000


def checkpoint(offset: int, *distances: int, group: str = "billing", **more: Any) -> bytes:
    """Return the body of a checkpoint of messages of orders/0."""
    values = {"bm": 0, "bn": "b", "c": group, "d": list(distances), "it": 60_000, "n": len(distances)}
    return json.dumps({**values, "pt": POP_MS, "q": 0, "so": offset, "t": "orders", **more}).encode()


def ack(offset: int, *offsets: int, group: str = "billing") -> tuple[str, bytes]:
    """Return tag and body of acks for a checkpoint that begins at `offset`."""
    values = {"bn": "b", "c": group, "pt": POP_MS, "q": 0, "so": offset, "t": "orders"}
    if len(offsets) == 1:
        return "ack", json.dumps({"ao": offsets[0], **values}).encode()
    return "bAck", json.dumps({"ao": 0, "aol": list(offsets), **values}).encode()


def pop_of(root: Path) -> tuple[list[PendingPop], list[PopLag], list[str]]:
    """Return the rows of a store, the lags, and its damage."""
    with reput.MessageStore.open(root, read_only=True) as store:
        pending = store.pending
        return list(pending.pop()), pending.lags(), pending.damage


def halves_of(root: Path) -> tuple[list[PendingTransaction], list[str]]:
    """Return the open transactions of a store, and its damage."""
    with reput.MessageStore.open(root, read_only=True) as store:
        pending = store.pending
        return list(pending.transactions()), pending.damage


def test_checkpoints_less_acks_are_in_flight(tmp_path: Path) -> None:
    """Acks of either form end messages, in the revive topic or on the way to it; the lag adds what is in flight."""
    with waiting_store(tmp_path) as store:
        for _ in range(10):
            put(store, "orders")
        for tag, body in [
            ("ck", checkpoint(0, 0, 1, 2)),
            ack(0, 1),
            ("ck", checkpoint(3, 0, 1, 2)),
            ("ck", checkpoint(3, 0, group="shipping")),
            ack(3, 3, 5),
        ]:
            put(store, REVIVE, body, tags=tag)
        named = {"REAL_TOPIC": REVIVE, "REAL_QID": "0", "TIMER_OUT_MS": str(DUE_MS)}
        timers = [
            put(store, "rmq_sys_wheel_timer", body, tags=tag, **named)
            for tag, body in [("ck", checkpoint(6, 0, rp="2")), ack(0, 2), ("x", b"other tag")]
        ]
        store.commit_offset("billing", "orders", 0, 7)
    root = tmp_path / "store"
    write_wheel(root, [unit_of(timer) for timer in timers])
    rows, lags, damage = pop_of(root)

    assert [(row.group, row.offset, row.source, row.attempts) for row in rows] == [
        ("billing", 0, "revive topic", 0),
        ("billing", 4, "revive topic", 0),
        ("shipping", 3, "revive topic", 0),
        ("billing", 6, "timer", 2),
    ]
    assert {(row.state, row.visible_timestamp) for row in rows} == {(RecordState.VERIFIED, DUE_MS)}
    assert lags == [
        PopLag("billing", "orders", 0, 7, 10, 3, 3, 6),
        PopLag("shipping", "orders", 0, None, 10, None, 1, None),
    ]
    assert damage == []
    assert_sound(root)


def test_true_lag_counted_messages_twice_and_some_that_do_not_exist(tmp_path: Path) -> None:
    """A message in flight above the committed offset is in the lag already; one that the queue lacks is in none."""
    with waiting_store(tmp_path) as store:
        for _ in range(10):
            put(store, "orders")
        put(store, REVIVE, checkpoint(2, 0, 2, 6, 90), tags="ck")
        store.commit_offset("billing", "orders", 0, 4)
        put(store, REVIVE, checkpoint(50, 0, group="ahead"), tags="ck")
        store.commit_offset("ahead", "orders", 0, 60)
    rows, lags, _ = pop_of(tmp_path / "store")

    assert [(row.offset, row.state) for row in rows] == [
        (2, RecordState.VERIFIED),
        (4, RecordState.VERIFIED),
        (8, RecordState.VERIFIED),
        (92, RecordState.MISSING),
        (50, RecordState.MISSING),
    ]
    assert lags == [
        PopLag("ahead", "orders", 0, 60, 10, 0, 1, 0),
        PopLag("billing", "orders", 0, 4, 10, 6, 4, 7),
    ]


def test_checkpoints_that_were_done_do_not_count(tmp_path: Path) -> None:
    """The offset of the broker's own group is that of the last checkpoint that it has put back."""
    with waiting_store(tmp_path) as store:
        put(store, "orders")
        put(store, "orders")
        for offset in (0, 1):
            put(store, REVIVE, checkpoint(offset, 0), tags="ck")
        store.commit_offset(REVIVE_GROUP, REVIVE, 0, 0)

    assert [row.offset for row in pop_of(tmp_path / "store")[0]] == [1]


def test_messages_that_a_queue_lacks_and_garbage_are_named(tmp_path: Path) -> None:
    """An offset after the queue's end is missing; a body that is no JSON is damage with its place."""
    with waiting_store(tmp_path) as store:
        put(store, "orders")
        put(store, REVIVE, checkpoint(7, 0), tags="ck")
        put(store, REVIVE, checkpoint(0, 0, t="../orders"), tags="ck")
        garbage = put(store, REVIVE, b"{", tags="ack")
    rows, lags, damage = pop_of(tmp_path / "store")

    assert [(row.offset, row.state) for row in rows] == [(7, RecordState.MISSING), (0, RecordState.DAMAGED)]
    assert "the queue has 0 to 1" in str(rows[0].reason)
    assert [lag.in_flight for lag in lags] == [1, 1]
    assert f"log offset {garbage.physical_offset}: the body is no ack" in damage[0]


@pytest.mark.behaviour("PopConsumerRocksdbStoreTest.rocksdbStoreWriteDeleteTest")
def test_a_database_has_a_key_for_each_message_in_flight(tmp_path: Path) -> None:
    """Rows come by the time at which messages become visible; a value of another key is damage."""
    with waiting_store(tmp_path) as store:
        for _ in range(3):
            put(store, "orders")
    records = [PopRecord("审计", "orders", 0, number, POP_MS, 60_000 - number, number) for number in range(3)]
    entries = {pop_key(record): encode_pop_record(record) for record in records}
    entries[pop_key(records[0])] = encode_pop_record(records[1])
    write_database(tmp_path / "store" / pop_database.FOLDER, {pop_database.FAMILY: entries})
    rows, lags, damage = pop_of(tmp_path / "store")

    assert [(row.group, row.offset, row.attempts, row.source) for row in rows] == [
        ("审计", 2, 2, "kvStore"),
        ("审计", 1, 1, "kvStore"),
    ]
    assert [lag.in_flight for lag in lags] == [2]
    assert "that of another message" in damage[0]


def put_half(store: reput.MessageStore, key: str, topic: str = HALF_TOPIC, **more: str) -> PutTimer:
    """Put a half message as a broker does."""
    named = {"REAL_TOPIC": "orders", "REAL_QID": "1", "UNIQ_KEY": key, "__transactionId__": key, "PGROUP": "pg"}
    return put(store, topic, **named, **more)


def test_halves_with_an_end_are_not_open(tmp_path: Path) -> None:
    """Op messages hold the offsets of the halves that ended; the group's offset says where to begin."""
    with waiting_store(tmp_path) as store:
        for number in range(6):
            put_half(store, f"u{number}")
        put(store, OP_TOPIC, encode_ended_offsets([1, 3]), tags="d")
        put(store, OP_TOPIC, b"4", tags="d")
        put(store, OP_TOPIC, b"5", tags="other")
        store.commit_offset(TRANSACTION_GROUP, HALF_TOPIC, 0, 1)
    halves, damage = halves_of(tmp_path / "store")

    assert [(half.unique_key, half.half_offset, half.topic, half.producer_group) for half in halves] == [
        ("u2", 2, "orders", "pg"),
        ("u5", 5, "orders", "pg"),
    ]
    assert damage == []


def test_a_half_that_was_put_again_counts_once(tmp_path: Path) -> None:
    """A broker that was killed after a check had not written its offset: the later copy counts."""
    with waiting_store(tmp_path) as store:
        for key, more in [("a", {}), ("b", {}), ("a", {"TRANSACTION_CHECK_TIMES": "1"})]:
            put_half(store, key, **more)
    halves, _ = halves_of(tmp_path / "store")

    assert [(half.unique_key, half.half_offset, half.check_times) for half in halves] == [("b", 1, 0), ("a", 2, 1)]


def test_a_half_that_waits_for_its_first_check_counts_once(tmp_path: Path) -> None:
    """A copy that names the queue offset of its first place replaces it, and ends with it."""
    first = "TRAN_PREPARED_QUEUE_OFFSET"
    with waiting_store(tmp_path) as store:
        for key, more in [("a", {}), ("b", {}), ("a", {first: "0"}), ("b", {first: "1"}), ("c", {first: "none"})]:
            put_half(store, key, **more)
        put(store, OP_TOPIC, b"0,", tags="d")
    halves, _ = halves_of(tmp_path / "store")

    assert [(half.unique_key, half.half_offset) for half in halves] == [("b", 3), ("c", 4)]


def test_a_half_with_a_time_waits_as_a_timer(tmp_path: Path) -> None:
    """The timer has put the half topic in place of the real one, which is unknown then."""
    with waiting_store(tmp_path) as store:
        put_timer(store, DUE_MS, HALF_TOPIC, PGROUP="pg")
        put_timer(store, DUE_MS, "orders")
    (half,) = halves_of(tmp_path / "store")[0]

    assert (half.topic, half.producer_group, half.source, half.state) == (None, "pg", "timer", RecordState.VERIFIED)


@pytest.mark.parametrize("written", [4, 1])
def test_a_database_and_what_it_has_not_taken_in(tmp_path: Path, written: int) -> None:
    """Halves and ends after lastOffsetPy count, as a broker takes them in when it starts."""
    with waiting_store(tmp_path) as store:
        halves = [put_half(store, f"u{number}", DATABASE_HALF_TOPIC) for number in range(4)]
        for end in (0, 2):
            put(store, DATABASE_OP_TOPIC, b"\0", tags="d", TRANS_OFFSET=str(halves[end].physical_offset))
    entries = dict(
        encode_half_entry(HalfEntry(half.physical_offset, b"orders", b"u%d" % number, number, half.size))
        for number, half in enumerate(halves[:written])
    )
    entries[LAST_OFFSET_KEY] = halves[written - 1].physical_offset.to_bytes(8, "big")
    write_database(tmp_path / "store" / paths.INDEX_DATABASE, {"trans": entries})
    found, damage = halves_of(tmp_path / "store")

    assert [half.unique_key for half in found] == ["u1", "u3"]
    assert {half.state for half in found} == {RecordState.VERIFIED}
    assert [half.check_times for half in found] == ([1, 3] if written == 4 else [0, 0])
    assert damage == []


def test_a_database_of_another_log_says_so(tmp_path: Path) -> None:
    """A key whose record is of another transaction is another one; a key that is no half message is damage."""
    with waiting_store(tmp_path) as store:
        half = put_half(store, "u", DATABASE_HALF_TOPIC)
    key, value = encode_half_entry(HalfEntry(half.physical_offset, b"orders", b"v", 0, half.size))
    write_database(tmp_path / "store" / paths.INDEX_DATABASE, {"trans": {key: value, b"odd": b"odd"}})
    found, damage = halves_of(tmp_path / "store")

    assert (found[0].unique_key, found[0].state) == ("v", RecordState.ANOTHER)
    assert "not a half message" in damage[0]
