"""Queue offsets that do not run straight: repeats, restarts and gaps have one outcome, however the log is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from reput.store.report import RebuildReport

SPLITS = (1 << 27, 1000, 500, 130, 60)
"""Bytes in a split: all in one, a few records each, one each, and less than one."""


class Case(NamedTuple):
    """Queue offsets in log order, and which of these records (by number; None: pre-blank) the queue then holds."""

    offsets: list[int]
    holds: list[int | None]
    repeats: int = 0
    blanks: int = 0
    restarts: int = 0
    dropped: int = 0


def upto(count: int) -> list[int]:
    """0 to count - 1."""
    return list(range(count))


def more(first: int, count: int) -> list[int | None]:
    """`count` numbers from `first` on."""
    return list(range(first, first + count))


CASES = {
    "straight": Case(upto(12), more(0, 12)),
    "a repeat of an old offset": Case([*upto(10), 5, 10], [*more(0, 10), 11], repeats=1),
    "the last offset again": Case([*upto(10), 9, 10], [*more(0, 10), 11], repeats=1),
    "message 0 twice at once": Case([0, 0, 1], [0, 2], repeats=1),
    "message 0 twice, and nothing more": Case([0, 0], [0], repeats=1),
    "a stretch again that goes on": Case([*upto(6), 2, 3, 4, 5, 6, 7], [*more(0, 6), 10, 11], repeats=4),
    "numbering begins again and goes on behind the old": Case(
        [*upto(4), 0, 1, 2, 3, 4], more(4, 5), restarts=1, dropped=4
    ),
    "numbering begins again": Case([*upto(10), 0, 1, 2], more(10, 3), restarts=1, dropped=10),
    "numbering begins again with one message": Case([*upto(10), 0], [10], restarts=1, dropped=10),
    "numbering begins again, goes further, and once again": Case(
        [*upto(3), *upto(8), 0, 1, 2], more(11, 3), restarts=2, dropped=11
    ),
    "numbering begins again twice": Case([*upto(10), *upto(5), 0, 1], more(15, 2), restarts=2, dropped=15),
    "message 0 again, and on from before": Case([*upto(10), 0, 10], [*more(0, 10), 11], repeats=1),
    "a gap": Case([0, 1, 4, 5], [0, 1, None, None, 2, 3], blanks=2),
    "a gap over queue files": Case([0, 25], [0, *[None] * 24, 1], blanks=24),
    "a gap, later filled": Case([0, 1, 4, 2, 3, 5], [0, 1, None, None, 2, 5], repeats=2, blanks=2),
    "a gap in the old generation": Case([*upto(3), 8, 9, 0, 1], more(5, 2), restarts=1, dropped=5),
    "a gap in the new generation": Case([*upto(10), 0, 3], [10, None, None, 11], blanks=2, restarts=1, dropped=10),
    "everything": Case([0, 0, 1, 5, 5, 3, 0, 2, 2, 3], [6, None, 7, 9], repeats=4, blanks=1, restarts=1, dropped=3),
}


def written(case: Case, noise: int, folder: Path) -> tuple[Path, list[int]]:
    """A store with these offsets in one queue, `noise` messages of another between them; the records' places."""
    log = LogBuilder(4096)
    places = []
    for offset in case.offsets:
        places.append(log.message(queue_offset=offset, tags="x", keys="k").offset)
        for _ in range(noise):
            log.message("noise", tags="y")
    return stores.with_log(folder, log), places


def oddities(report: RebuildReport) -> list[tuple[str, int, int, int, int]]:
    """What the report says about queues that did not run straight."""
    return [(q.topic, q.repeats, q.blanks, q.restarts, q.dropped) for q in report.crooked_queues]


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
    """Both rules together: pre-blank in front of the first message, and in the gap."""
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
    """Only the queues that do not run straight are redone; the others come out the same."""
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
        assert sorted((q.queue_id, q.repeats) for q in report.crooked_queues) == [(17, 1), (18, 1)]
