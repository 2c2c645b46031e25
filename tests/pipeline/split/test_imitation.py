"""A body that imitates a record: senders can learn offsets, so splits may begin wrongly; the stitch must find it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reput.formats.log.record import Record, Verdict, encode_record, examine
from support import stores
from support.records import BODY_AT_V4, LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from support.records import Placed

MIB = 1 << 20


def names(store: Path) -> list[str]:
    """Every name below a store, but those of the IndexFiles, which are times."""
    return [name for name in stores.digest(store) if not name.startswith("index/")]


def compare_splits(log: LogBuilder, folder: Path, split: int) -> int:
    """Rebuild the log in one split and in small ones: the same bytes; returns how many splits were decoded again."""
    one = stores.with_log(folder / "one", log)
    many = stores.with_log(folder / "many", log)
    whole = stores.rebuild(one)
    assert whole.stitched_again == 0
    report = stores.rebuild(many, split_mb=split / MIB)
    assert stores.indexes(many) == stores.indexes(one)
    assert names(many) == names(one)
    assert (report.messages, report.topics) == (whole.messages, whole.topics)
    assert report.out_of_order_queues == whole.out_of_order_queues == []
    return report.stitched_again


def with_imitation(topic: str = "topic", *, before: int = 0, after: int = 0) -> tuple[LogBuilder, Placed, int]:
    """Some messages, one whose body imitates a record of `topic`, some more."""
    log = LogBuilder(1 << 14)
    for _ in range(5):
        log.message()
    placed, at = log.imitation(topic, before=b"<" * before, after=b">" * after)
    for _ in range(5):
        log.message()
    return log, placed, at


def test_it_looks_like_a_record() -> None:
    """The imitation of these tests passes every check that a boundary has to pass."""
    log, placed, at = with_imitation()
    data = next(log.files())[1]
    assert examine(data, at, len(data), at)[0] is Verdict.GOOD
    assert placed.offset < at < placed.offset + placed.size


def test_border_right_before_an_imitation(tmp_path: Path) -> None:
    """A split that begins right before an imitation is decoded again from the true boundary."""
    for before in (0, 1, 50):
        log, placed, at = with_imitation(before=before)
        assert compare_splits(log, tmp_path / str(before), at) == 1
        assert compare_splits(log, tmp_path / f"{before} head", placed.offset + 1) == 1


@pytest.mark.parametrize("split", range(60, 700, 37))
def test_any_border(split: int, tmp_path: Path) -> None:
    """Wherever the borders fall, the outcome is that of one pass in order."""
    log, _, _ = with_imitation(before=200, after=300)
    compare_splits(log, tmp_path, split)


def test_topic_that_only_an_imitation_has(tmp_path: Path) -> None:
    """No folder is left of a topic that exists in an imitation alone."""
    log = LogBuilder(1 << 14)
    log.message()
    inner = Record(topic=b"ghost", body=b"imitation")
    size = len(encode_record(inner))
    at = log.end + BODY_AT_V4
    log.message(body=encode_record(inner._replace(physical_offset=at)))
    log.message()
    assert compare_splits(log, tmp_path, at) == 1
    assert size > 91


def test_imitation_that_takes_a_true_entry_s_place(tmp_path: Path) -> None:
    """An imitation with the true record's own queue offset does not leave its entry in the queue."""
    log = LogBuilder(1 << 14)
    first = log.message()
    at = log.end + BODY_AT_V4
    inner = Record(topic=b"topic", body=b"x", queue_offset=0, physical_offset=at)
    second = log.message(body=encode_record(inner))
    third = log.message()
    assert compare_splits(log, tmp_path, at) == 1
    store = tmp_path / "many" / "store"
    assert stores.positions(store) == [first.offset, second.offset, third.offset]


def test_imitation_that_chains_into_the_next_record(tmp_path: Path) -> None:
    """An imitation that shares its record's end, so that a wrong chain meets true records, is found all the same.

    Its queue offset is its record's own, so that the wrong chain's queue offsets are consecutive, too.
    """
    log = LogBuilder(1 << 14)
    first = log.message(tags="x")
    # The inner record's topic and properties are the outer's: both end at the same byte.
    plain = Record(topic=b"topic", body=b"inner", queue_offset=1, properties=b"TAGS\x01x\x02")
    tail = 1 + len(plain.topic) + 2 + len(plain.properties)
    inner = encode_record(plain._replace(physical_offset=log.end + BODY_AT_V4))
    second = log.message(body=inner[:-tail], properties=plain.properties)
    at = second.offset + BODY_AT_V4
    later = [log.message(tags="x") for _ in range(5)]
    data = next(log.files())[1]
    verdict, size = examine(data, at, len(data), at)
    assert (verdict, at + size) == (Verdict.GOOD, second.offset + second.size)
    assert compare_splits(log, tmp_path, at) >= 1
    assert stores.positions(tmp_path / "many" / "store") == [p.offset for p in (first, second, *later)]


def test_chain_of_imitations_over_many_splits(tmp_path: Path) -> None:
    """A body full of imitations, longer than several splits, changes nothing."""
    log = LogBuilder(1 << 14)
    log.message(keys="first")
    at = log.end + BODY_AT_V4
    body = b""
    for number in range(40):
        inner = Record(
            topic=b"ghost%d" % (number % 3),
            body=b"imitation",
            queue_offset=number,
            physical_offset=at + len(body),
            properties=b"KEYS\x01nothing\x02",
        )
        body += encode_record(inner)
    log.message(body=body, keys="second")
    log.message(keys="third")
    for split in (300, 1000, 2500):
        assert compare_splits(log, tmp_path / str(split), split) >= 1


@pytest.mark.parametrize("split", [60, 300, 1000, 4000])
def test_record_larger_than_a_split(split: int, tmp_path: Path) -> None:
    """A record that covers several splits is decoded by the one it starts in, whole."""
    log = LogBuilder(1 << 15)
    log.message()
    log.message(body=bytes(range(256)) * 40, keys="large")
    log.message()
    assert compare_splits(log, tmp_path, split) == 0


@pytest.mark.parametrize("split", [60, 300, 1000])
def test_many_files(split: int, tmp_path: Path) -> None:
    """Splits end with their file, whose start is a boundary for sure."""
    log = LogBuilder(2048)
    for number in range(60):
        log.message(keys=f"k{number}", queue_id=number % 3, body=b"b" * (number * 7 % 300))
    assert compare_splits(log, tmp_path, split) == 0


def test_blank_record_with_leftovers_behind(tmp_path: Path) -> None:
    """Records of an earlier life after a file's blank record belong to other places and are no boundary."""
    log = LogBuilder(2048)
    old = log.message(body=b"old")
    while log.space_left > 600:
        log.message()
    log.roll(filling=old.data)
    log.message()
    for split in (100, 500):
        assert compare_splits(log, tmp_path / str(split), split) == 0


def test_true_leftovers_behind_a_blank_record(tmp_path: Path) -> None:
    """Even leftovers that name their own place are passed over: the chain has ended its file before them."""
    log = LogBuilder(2048)
    while log.space_left > 600:
        log.message()
    inner = Record(topic=b"ghost", body=b"stale", physical_offset=log.end + 8)
    log.roll(filling=encode_record(inner) + bytes(600))
    log.message()
    for split in (100, 500, log.placed[-2].offset + 5):
        compare_splits(log, tmp_path / str(split), split)
