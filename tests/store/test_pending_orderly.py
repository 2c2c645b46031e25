"""Messages that orderly pop consumers hold, by config/consumerOrderInfo.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedStoreError
from reput.formats.pending.order_info import decode_order_info
from reput.formats.pending.pop_database import PopRecord
from reput.store.pending.verify import RecordState
from support.pending import DUE_MS, put, waiting_store

if TYPE_CHECKING:
    from pathlib import Path

POP_MS = DUE_MS - 60_000
# As RocketMQ's fastjson 2 writes it: five messages, two of them acked, one with a time of its own, one given before.
INFO = (
    '{"table":{"orders@billing":{0:{"a":"attempt","cm":10,"i":60000,"l":1,"o":[4,1,2,3,5],"oc":{6:2},'
    f'"ot":{{6:{DUE_MS + 5}}},"popTime":{POP_MS}}}}}}}}}'
)


def record(offset: int, invisible_ms: int = 60_000, attempts: int = 0) -> PopRecord:
    """A message of orders/0 that billing holds."""
    return PopRecord("billing", "orders", 0, offset, POP_MS, invisible_ms, attempts)


def test_bits_distances_and_times() -> None:
    """A bit ends a message, distances count from the first offset, and a changed time replaces that of the pop."""
    found = list(decode_order_info(INFO.encode(), "here"))
    assert found == [record(4), record(6, 60_005, 2), record(9)]


@pytest.mark.behaviour("ConsumerOrderInfoManagerTest.testLoadFromOldVersionOrderInfoData")
def test_a_pop_of_an_older_broker() -> None:
    """Without times and counts of messages a pop is read, and its messages are visible at once."""
    old = f'{{"table":{{"orders@billing":{{0:{{"cm":1,"o":[4,1,2],"popTime":{POP_MS}}}}}}}}}'
    assert list(decode_order_info(old.encode(), "here")) == [record(5, 0), record(6, 0)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"table":5}',
        '{"table":{"t@g":{0:[]}}}',
        '{"table":{"t@g":{"x":{}}}}',
        '{"table":{"t@g":{0:{"o":["a"]}}}}',
    ],
)
def test_what_is_no_order_info(text: str) -> None:
    """Another JSON, and values of other types, are damage with their place."""
    with pytest.raises(DamagedStoreError, match=r"here: damaged"):
        list(decode_order_info(text.encode(), "here"))


def test_messages_of_orderly_consumers_are_pending(tmp_path: Path) -> None:
    """Each is compared with its queue; the lag by the committed offset has them already, so they add nothing to it."""
    with waiting_store(tmp_path) as store:
        for _ in range(8):
            put(store, "orders")
        store.commit_offset("billing", "orders", 0, 4)
    root = tmp_path / "store"
    (root / "config" / "consumerOrderInfo.json").write_text(INFO)
    with reput.MessageStore.open(root, read_only=True) as opened:
        pending = opened.pending
        rows = list(pending.pop(group="billing"))
        assert pending.lags() == []
        assert pending.damage == []
    assert [(row.offset, row.state, row.visible_timestamp, row.attempts) for row in rows] == [
        (4, RecordState.VERIFIED, DUE_MS, 0),
        (6, RecordState.VERIFIED, DUE_MS + 5, 2),
        (9, RecordState.MISSING, DUE_MS, 0),
    ]
    assert {row.source for row in rows} == {"consumerOrderInfo.json"}


def test_a_damaged_file_is_read_from_its_backup(tmp_path: Path) -> None:
    """The damage is named; without a good backup the other rows still come."""
    with waiting_store(tmp_path) as store:
        put(store, "orders")
    config = tmp_path / "store" / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOrderInfo.json").write_text("no JSON")
    (config / "consumerOrderInfo.json.bak").write_text(INFO)
    with reput.MessageStore.open(tmp_path / "store", read_only=True) as opened:
        pending = opened.pending
        assert len(list(pending.pop())) == 3
        (text,) = pending.damage
    assert text.startswith(str(config / "consumerOrderInfo.json"))
