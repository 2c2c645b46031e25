"""Work that waits, written by RocketMQ's own classes, is shown as RocketMQ means it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.formats.pending.pop_database import FOLDER
from reput.formats.topics.system_topics import DATABASE_HALF_TOPIC
from reput.store.pending.verify import RecordState
from support.pending import DUE_MS, put, put_timer, waiting_store

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from support.pending import PutTimer

pytestmark = pytest.mark.peer

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
HOUR_MS = 3_600_000


def written(peer: ModuleType, store: Path, asked: list[dict[str, Any]]) -> list[str]:
    """Have RocketMQ write work that waits into a store; return the bodies that it makes."""
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in asked)
    return [answer["body"] for answer in peer.run("waiting", store, stdin=lines)]


def place_of(put_one: PutTimer) -> dict[str, int]:
    """Return the place of a message as RocketMQ is asked about it."""
    return {"offset": put_one.physical_offset, "size": put_one.size}


def test_wheel_of_rocketmq(peer: ModuleType, tmp_path: Path) -> None:
    """Messages of a second in the order of the log, one that is rolled as it is due after the window, one recalled."""
    with waiting_store(tmp_path) as store:
        dues = (DUE_MS + 2000, DUE_MS + 1000, DUE_MS + 2000, DUE_MS + 3 * HOUR_MS)
        timers = [put_timer(store, due, key=f"u{number}") for number, due in enumerate(dues)]
        mark = put_timer(store, DUE_MS + 2000, key="m", TIMER_DEL_UNIQKEY="orders+u2")
    root = tmp_path / "store"
    asked = [
        {"kind": "wheel", "topic": "orders", "written": DUE_MS, "due": one.due_ms, **place_of(one)} for one in timers
    ]
    asked.append({**asked[2], "deletes": "orders+u2", **place_of(mark)})
    written(peer, root, asked)
    with reput.MessageStore.open(root, read_only=True) as opened:
        pending = opened.pending
        rows = list(pending.timers())

    assert pending.damage == []
    assert [(row.unique_key, row.state, row.is_rolled) for row in rows] == [
        ("u1", RecordState.VERIFIED, False),
        ("u0", RecordState.VERIFIED, False),
        ("u2", RecordState.RECALLED, False),
        ("u3", RecordState.VERIFIED, True),
    ]
    assert (rows[3].wheel_timestamp, rows[3].deliver_timestamp) == (DUE_MS + HOUR_MS, DUE_MS + 3 * HOUR_MS)


def test_a_timer_log_of_several_files(peer: ModuleType, tmp_path: Path) -> None:
    """Units never cross a file's end: RocketMQ fills the rest with a blank unit."""
    with waiting_store(tmp_path) as store:
        timers = [put_timer(store, DUE_MS + number % 7 * 1000, key=f"u{number}") for number in range(150)]
    root = tmp_path / "store"
    asked = [
        {"kind": "wheel", "topic": "orders", "written": DUE_MS, "due": one.due_ms, **place_of(one)} for one in timers
    ]
    written(peer, root, asked)
    with reput.MessageStore.open(root, read_only=True) as opened:
        pending = opened.pending
        found = [row.physical_offset for row in pending.timers()]

    assert len(list((root / "timerlog").iterdir())) > 1
    assert found == [one.physical_offset for one in sorted(timers, key=lambda one: one.due_ms)]
    assert pending.damage == []


def test_databases_of_rocketmq(peer: ModuleType, tmp_path: Path) -> None:
    """Timers, half messages and pop records as RocketMQ's classes write them, and remove them."""
    with waiting_store(tmp_path) as store:
        timers = [put_timer(store, DUE_MS + number * 1000, key=f"u{number}") for number in range(3)]
        named = {"REAL_TOPIC": "orders", "REAL_QID": "1", "PGROUP": "pg"}
        halves = [put(store, DATABASE_HALF_TOPIC, UNIQ_KEY=key, __transactionId__=key, **named) for key in ("h0", "h1")]
        for _ in range(4):
            put(store, "orders")
    root = tmp_path / "store"
    timer = {"kind": "timer"}
    half = {"kind": "half", "topic": "orders", "checks": 3}
    held = {"kind": "pop", "topic": "orders", "group": "billing", "queue": 0, "popTime": DUE_MS, "invisible": 60_000}
    asked = [
        *({**timer, "due": one.due_ms, "key": f"u{number}", **place_of(one)} for number, one in enumerate(timers)),
        {**timer, "due": timers[1].due_ms, "key": "u1", "deleted": True, **place_of(timers[1])},
        {"kind": "timeline", "due": DUE_MS - 5000, "queueOffset": 3},
        *({**half, "key": f"h{number}", **place_of(one)} for number, one in enumerate(halves)),
        {**half, "key": "h0", "ended": True, **place_of(halves[0])},
        *({**held, "offset": offset, "attempts": offset} for offset in range(4)),
        {**held, "offset": 2, "acked": True},
    ]
    written(peer, root, asked)
    with reput.MessageStore.open(root, read_only=True) as opened:
        pending = opened.pending
        timers_found = [(row.unique_key, row.source, row.state) for row in pending.timers()]
        halves_found = [(row.unique_key, row.check_times, row.state) for row in pending.transactions()]
        held_found = [(row.group, row.offset, row.attempts, row.source, row.state) for row in pending.pop()]

    good = RecordState.VERIFIED
    assert timers_found == [("u0", "rocksdbstore", good), ("u2", "rocksdbstore", good)]
    assert halves_found == [("h1", 3, good)]
    assert held_found == [("billing", offset, offset, FOLDER, good) for offset in (0, 1, 3)]
    assert pending.damage == []


def test_checkpoints_and_acks_of_rocketmq(peer: ModuleType, tmp_path: Path) -> None:
    """The bodies that RocketMQ makes of a checkpoint, an ack and several acks leave what is in flight."""
    about = {"topic": "orders", "group": "billing", "queue": 0, "start": 1, "popTime": DUE_MS, "invisible": 30_000}
    bodies = written(
        peer,
        tmp_path,
        [
            {"kind": "ck", "offsets": [1, 2, 4, 7, 8], **about},
            {"kind": "ack", "offsets": [4], **about},
            {"kind": "bAck", "offsets": [1, 8], **about},
        ],
    )
    with waiting_store(tmp_path) as store:
        for _ in range(9):
            put(store, "orders")
        for tag, body in zip(("ck", "ack", "bAck"), bodies, strict=True):
            put(store, REVIVE, body.encode(), tags=tag)
    with reput.MessageStore.open(tmp_path / "store", read_only=True) as opened:
        found = [(row.offset, row.visible_timestamp, row.state) for row in opened.pending.pop()]

    assert found == [(2, DUE_MS + 30_000, RecordState.VERIFIED), (7, DUE_MS + 30_000, RecordState.VERIFIED)]
