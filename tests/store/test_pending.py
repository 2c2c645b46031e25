"""Pending work of a store: timers, transactions without an end, and messages that pop consumers hold."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats import paths
from reput.formats.pending import timer_log, timer_wheel
from reput.formats.topics.system_topics import HALF_TOPIC
from reput.store.pending.verify import RecordState
from support import golden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.store.pending.work import PendingWork

PENDING = ("pending", "pending-rocksdb")


@contextmanager
def pending_in(store: Path) -> Iterator[PendingWork]:
    """Open a store and give what waits in it."""
    with reput.MessageStore.open(store, read_only=True) as opened:
        yield opened.pending


def counts_of(name: str) -> dict[str, int]:
    """Return how many timers and halves were put into a golden store."""
    return next(answer["pending"] for answer in golden.answers(name) if "pending" in answer)


@pytest.mark.behaviour("TimerMetricsTest.testTimingCount")
@pytest.mark.golden
@pytest.mark.parametrize("name", PENDING)
def test_all_timers_are_found_and_verified(name: str) -> None:
    """The timers are as many as were put, for each topic as many as RocketMQ counts, each verified."""
    store = golden.shared(name)
    metrics = json.loads((store / paths.CONFIG / "timermetrics").read_text())["timingCount"]
    with pending_in(store) as pending:
        timers = list(pending.timers())

        assert pending.damage == []
    assert len(timers) == counts_of(name)["timers"]
    assert Counter(timer.topic for timer in timers) == {topic: one["count"] for topic, one in metrics.items()}
    assert {timer.state for timer in timers} == {RecordState.VERIFIED}
    assert len({timer.physical_offset for timer in timers}) == len(timers)


@pytest.mark.golden
@pytest.mark.parametrize("name", PENDING)
def test_all_halves_are_found_and_verified(name: str) -> None:
    """The open transactions are as many as the halves that were put, each once, though checks put them again."""
    with pending_in(golden.shared(name)) as pending:
        halves = list(pending.transactions())

        assert pending.damage == []
    assert len(halves) == counts_of(name)["halves"]
    assert {half.state for half in halves} == {RecordState.VERIFIED}
    assert len({half.unique_key for half in halves}) == len(halves)
    assert {half.producer_group for half in halves} == {"pg"}


@pytest.mark.golden
def test_a_store_that_lost_its_wheel_had_no_timers(tmp_path: Path) -> None:
    """The units of the timer log make a lost wheel anew, as when a broker starts."""
    store = golden.unpack("pending", tmp_path)
    with pending_in(store) as pending:
        before = [timer.physical_offset for timer in pending.timers()]
    (store / timer_wheel.FILE_NAME).unlink()
    with pending_in(store) as pending:
        assert [timer.physical_offset for timer in pending.timers()] == before
        assert pending.damage == []


@pytest.mark.golden
def test_a_store_that_lost_its_timer_log_had_no_timers(tmp_path: Path) -> None:
    """Slots that refer to a lost timer log are damage, named by its folder."""
    store = golden.unpack("pending", tmp_path)
    shutil.rmtree(store / timer_log.FOLDER)
    with pending_in(store) as pending:
        assert list(pending.timers()) == []
        (damage,) = pending.damage
    assert f"{store / timer_log.FOLDER}: missing, and " in damage


@pytest.mark.golden
def test_the_wheel_is_read_by_time() -> None:
    """Timers come in the order in which the wheel gives them out, and `until` is the beginning of that order."""
    with pending_in(golden.shared("pending")) as pending:
        due = [timer.deliver_timestamp for timer in pending.timers()]
        half_way = due[len(due) // 2]

        assert due == sorted(due)
        assert [timer.deliver_timestamp for timer in pending.timers(until_ms=half_way)] == [
            time for time in due if time <= half_way
        ]
        assert all(timer.topic == HALF_TOPIC for timer in pending.timers(HALF_TOPIC))
