"""Our store's answers about the stores of a whole broker, line by line beside what the broker answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.formats.log.record import TRANSACTION_ROLLBACK
from reput.store.disk.layout import find_store
from reput.store.open.opening import open_view
from reput.store.read.reading import Reading
from reput.store.read.tag_filter import TagFilter
from support import golden
from support.checked import assert_sound
from support.opened import BROKER_LIMITS

if TYPE_CHECKING:
    from pathlib import Path

    from reput.store.read.view import StoreView

pytestmark = pytest.mark.golden

EVER = (1 << 63) - 1
QUESTIONS = ("log", "queue", "get", "key")


def answer(view: StoreView, question: dict[str, Any]) -> dict[str, Any]:
    """Our answer to a golden line, in its form."""
    if "log" in question:
        return {"log": [view.log.min_offset, view.follower.offset]}
    if "queue" in question:
        topic, queue_id = question["queue"]
        return {**question, "min": view.min_offset(topic, queue_id), "max": view.max_offset(topic, queue_id)}
    if "get" in question:
        topic, queue_id, offset, most, tags = question["get"]
        got = Reading(view).get_message(topic, queue_id, offset, most, TagFilter(tags))
        places = got.physical_offsets.tolist()
        return {"get": question["get"], "status": str(got.status), "next": got.next_offset, "phys": places}
    topic, key, most = question["key"]
    found = Reading(view).query_message(topic, key, most, 0, EVER, exact=False)
    return {"key": question["key"], "phys": found.physical_offsets}


def differences(name: str, view: StoreView) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The broker's answers and ours, where they differ."""
    asked = [line for line in golden.answers(name) if any(one in line for one in QUESTIONS)]
    assert {one for line in asked for one in QUESTIONS if one in line} == set(QUESTIONS)
    answers = [(line, answer(view, line)) for line in asked]
    return [(line, ours) for line, ours in answers if ours != line and not goes_on(name, line, ours)]


def goes_on(name: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Return true if the broker wrote to the log after it answered, as it does for pending timers and half messages."""
    return name.startswith("pending") and "log" in theirs and theirs["log"][1] < ours["log"][1]


@pytest.mark.parametrize("name", golden.STORES_55)
def test_answers(name: str, tmp_path: Path) -> None:
    """Queues, pulls and keys are as the broker said, wherever the store keeps its queues; nothing is configured."""
    config = reput.StoreConfig()
    view = open_view(find_store(golden.unpack(name, tmp_path), config), config, BROKER_LIMITS).view
    different = differences(name, view)
    view.close()
    assert not different


def never_indexed(name: str, store: Path) -> int:
    """The number of records at the end that an index in RocksDB does not have, so that they are read once more."""
    if name != "index-rocksdb":
        return 0
    rolled_back = [record.sys_flag & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK for record in golden.records(store)]
    return (*reversed(rolled_back), False).index(False)


@pytest.mark.parametrize("name", golden.STORES_55)
def test_answers_of_a_writer(name: str, tmp_path: Path) -> None:
    """Opened to write, caught up, closed and opened again, a store answers the same each time."""
    store = golden.unpack(name, tmp_path)
    with reput.MessageStore.open(store, limits=BROKER_LIMITS) as opened:
        assert not differences(name, opened.view)
        opened.reput(spark=False)
        assert not differences(name, opened.view)
    with reput.MessageStore.open(store, limits=BROKER_LIMITS) as opened:
        assert opened.view.follower.records <= never_indexed(name, store)
        assert not differences(name, opened.view)
    assert_sound(store)
