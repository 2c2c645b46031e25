"""Queue offsets that are not consecutive: repeats, restarts and gaps have one outcome, however the log is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import stores
from support.out_of_order import CASES, SPLITS, upto, written
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from reput.pipeline.build.rebuild_report import RebuildReport


def oddities(report: RebuildReport) -> list[tuple[str, int, int, int, int]]:
    """Return the report's words about queues that were out of order."""
    return [(q.topic, q.repeats, q.blanks, q.restarts, q.dropped) for q in report.out_of_order_queues]


@pytest.mark.parametrize("noise", [0, 3])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", CASES)
def test_outcome(name: str, split: int, noise: int, tmp_path: Path) -> None:
    """The first record of an offset wins, the last generation wins, gaps are pre-blank; each is counted."""
    case = CASES[name]
    store, places = written(case, noise, tmp_path)
    report = stores.rebuild(store, split_mb=split / (1 << 20))
    assert stores.positions(store) == [None if n is None else places[n] for n in case.holds]
    odd = (case.repeats, case.blanks, case.restarts, case.dropped)
    assert oddities(report) == ([("topic", *odd)] if any(odd) else [])
    if noise:
        assert len(stores.positions(store, "noise")) == noise * len(places)
    topic = next(found for found in report.topics if found.topic == "topic")
    assert (topic.min_offset, topic.max_offset) == (0, len(case.holds))
    assert topic.entries == sum(n is not None for n in case.holds)


@pytest.mark.parametrize("split", SPLITS)
def test_index_keeps_every_record(split: int, tmp_path: Path) -> None:
    """The IndexFile does not care for queue offsets: records that a queue leaves out keep their items."""
    store, places = written(CASES["everything"], 0, tmp_path)
    report = stores.rebuild(store, split_mb=split / (1 << 20))
    assert report.index_items == 2 * len(places)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("first", [3, 10, 14, 25])
def test_queue_that_starts_above_zero(first: int, split: int, tmp_path: Path) -> None:
    """A queue's first file is filled with pre-blank entries up to its first message, files before are not made."""
    log = LogBuilder(4096)
    places = [log.message(queue_offset=first + n).offset for n in range(12)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, split_mb=split / (1 << 20))
    start, found = stores.entries(store)
    assert start == first // 10 * 10
    assert all(entry.is_pre_blank for entry in found[: first - start])
    assert [entry.physical_offset for entry in found[first - start :]] == places


@pytest.mark.parametrize("split", SPLITS)
def test_crooked_queue_that_starts_above_zero(split: int, tmp_path: Path) -> None:
    """Both rules together: a pre-blank before the first message, and in the gap."""
    log = LogBuilder(4096)
    places = [log.message(queue_offset=n).offset for n in (13, 14, 16)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store, split_mb=split / (1 << 20))
    start, found = stores.entries(store)
    assert start == 10
    assert [None if entry.is_pre_blank else entry.physical_offset for entry in found] == [
        *[None] * 3, *places[:2], None, places[2]
    ]  # fmt: skip


@pytest.mark.parametrize("count", [9, 10, 11, 19, 20, 21])
def test_borders_of_queue_files(count: int, tmp_path: Path) -> None:
    """A queue has as many full files as its entries need, the last one filled up with zeros."""
    log = LogBuilder(1 << 14)
    places = [log.message().offset for _ in range(count)]
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    assert stores.positions(store) == places
    assert [len(data) for *_, data in stores.queue_files(store)] == [200] * -(-count // 10)


@pytest.mark.parametrize("repeats", [99, 100])
def test_many_repeats_are_a_warning(repeats: int, tmp_path: Path) -> None:
    """A hundred repeats in a queue look like another life of its topic: a warning names it, a few do not."""
    log = LogBuilder(1 << 16)
    for offset in [*upto(150), *range(20, 20 + repeats)]:
        log.message(queue_offset=offset)
    warnings = stores.rebuild(stores.with_log(tmp_path, log)).warnings
    assert [text.split(" have")[0] for text in warnings] == (["topic/0: 100 messages"] if repeats == 100 else [])


def test_many_queues_some_crooked(tmp_path: Path) -> None:
    """Only the queues that are out of order are reordered; the others come out the same."""
    log = LogBuilder(1 << 14)
    wanted: dict[int, list[int | None]] = {}
    for number in range(200):
        queue = number % 20
        wanted.setdefault(queue, []).append(log.message(queue_id=queue, keys=f"k{number}").offset)
        if number in (77, 118):
            log.message(queue_id=queue, queue_offset=0)
            log.queue_offsets[b"topic", queue] = len(wanted[queue])
    for split in SPLITS[1:3]:
        store = stores.with_log(tmp_path / str(split), log)
        report = stores.rebuild(store, split_mb=split / (1 << 20))
        assert {queue: stores.positions(store, queue_id=queue) for queue in wanted} == wanted
        assert sorted((q.queue_id, q.repeats) for q in report.out_of_order_queues) == [(17, 1), (18, 1)]
