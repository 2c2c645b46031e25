"""Catch-up: indexes that go on from the frontier, in place, are byte for byte those of a rebuild."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedLogError
from reput.formats import paths
from reput.formats.own import files as own
from support import growing, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def grow(log: LogBuilder, rng: random.Random, count: int) -> None:
    """Messages of a few queues, now and then with tags and keys, a repeated or a missing queue offset."""
    for _ in range(count):
        topic, queue_id = rng.choice("abc"), rng.randrange(2)
        options = {"keys": f"k{rng.randrange(5)}" if rng.random() < 0.7 else "", "tags": rng.choice(["", "t", "u"])}
        log.message(topic, queue_id=queue_id, body=bytes(rng.randrange(60)), **options)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("splits", ["one", "many"])
def test_steps_equal_a_rebuild(seed: int, splits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught up in steps of any length, over file borders, with one split or many, a store is what a rebuild makes."""
    if splits == "many":
        growing.many_splits(monkeypatch, 700, above_bytes=500)
    rng = random.Random(seed)
    log = LogBuilder(4096)
    for step in range(8):
        grow(log, rng, rng.randrange(1, 25))
        store = stores.with_log(tmp_path, log)
        done = growing.catch_up(store)
        assert done.frontiers == (log.end, log.end)
        stores.assert_as_rebuilt(store, tmp_path / f"copy{step}")


@pytest.mark.parametrize("seed", range(4))
def test_ranges_decoded_ahead(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long catch-up, each range of which is decoded while the one before is placed, gives what a rebuild makes.

    Bodies that imitate records, at whose borders splits begin, leave no trace in place.
    """
    growing.many_splits(monkeypatch, 230, above_bytes=100, range_bytes=2000)
    rng = random.Random(seed)
    log = LogBuilder(4096)
    for step in range(3):
        grow(log, rng, rng.randrange(50, 120))
        log.message("a", queue_offset=rng.randrange(60), keys="k")
        for _ in range(5):
            log.imitation("d")
        store = stores.with_log(tmp_path, log)
        done = growing.catch_up(store)
        assert done.frontiers == (log.end, log.end)
        stores.assert_as_rebuilt(store, tmp_path / f"copy{step}")


@pytest.mark.parametrize("odd", ["repeat", "gap", "restart"])
@pytest.mark.parametrize("splits", ["one", "many"])
def test_crooked_queues(odd: str, splits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated, missing and restarting queue offsets right after the frontier are met by the rebuild's rules."""
    if splits == "many":
        growing.many_splits(monkeypatch, 700, above_bytes=500)
    log = LogBuilder(4096)
    for _ in range(15):
        log.message("a", keys="k")
        log.message("b", keys="k")
    store = stores.with_log(tmp_path, log)
    growing.catch_up(store)
    begin = {"repeat": 12, "gap": 18, "restart": 0}[odd]
    for number in range(8):
        log.message("a", queue_offset=begin + number, keys="k")
        log.message("b", keys="k")
    stores.with_log(tmp_path, log)
    done = growing.catch_up(store)
    assert [text.split(":")[0] for text in done.out_of_order_queues] == ["a/0"]
    stores.assert_as_rebuilt(store, tmp_path / "copy")


def test_a_new_queue_that_begins_above_zero_and_repeats(tmp_path: Path) -> None:
    """A new queue that is out of order and begins above 0 gets the pre-blank entries that a rebuild writes."""
    log = LogBuilder(4096)
    log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    growing.catch_up(store)
    for offset in (3, 4, 4, 5):
        log.message("new", queue_offset=offset, keys="k")
    stores.with_log(tmp_path, log)
    done = growing.catch_up(store)
    assert [text.split(":")[0] for text in done.out_of_order_queues] == ["new/0"]
    stores.assert_as_rebuilt(store, tmp_path / "copy")


def test_nothing_to_do(tmp_path: Path) -> None:
    """A store whose indexes are complete is left as it is."""
    log = LogBuilder(4096)
    log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    growing.catch_up(store)
    before = stores.digest(store, inodes=True)
    assert growing.catch_up(store).messages == 0
    assert stores.digest(store, inodes=True) == before


def test_up_to_the_confirmed_offset(tmp_path: Path) -> None:
    """A record after the end that was asked for gets no entry."""
    log = LogBuilder(4096)
    log.message("a", keys="k")
    middle = log.end
    log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    assert growing.catch_up(store, end=middle).frontiers == (middle, middle)
    assert len(stores.entries(store, "a", 0)[1]) == 1
    assert growing.catch_up(store).frontiers == (log.end, log.end)
    assert len(stores.entries(store, "a", 0)[1]) == 2


def test_lost_frontier(tmp_path: Path) -> None:
    """Without its frontier a store is taken up by RocketMQ's rule, and comes to the same."""
    log = LogBuilder(4096)
    rng = random.Random(1)
    grow(log, rng, 40)
    store = stores.with_log(tmp_path, log)
    growing.catch_up(store)
    (store / paths.REPUT / own.FRONTIER_NAME).unlink()
    grow(log, rng, 30)
    stores.with_log(tmp_path, log)
    growing.catch_up(store)
    stores.assert_as_rebuilt(store, tmp_path / "copy")


def test_index_file_without_length(tmp_path: Path) -> None:
    """An IndexFile that a killed task had made, and not given its length yet, is made anew."""
    log = LogBuilder(4096)
    rng = random.Random(1)
    grow(log, rng, 40)
    store = stores.with_log(tmp_path, log)
    growing.catch_up(store)
    (store / paths.INDEX / "99991231235959999").touch()
    grow(log, rng, 30)
    stores.with_log(tmp_path, log)
    growing.catch_up(store)
    stores.assert_as_rebuilt(store, tmp_path / "copy")


def test_queue_file_without_length(tmp_path: Path) -> None:
    """A queue file that a killed task had not given its length yet, with later ones after it, keeps nobody out."""
    log = LogBuilder(1 << 14)
    for _ in range(15):
        log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    growing.catch_up(store)
    folder = store / paths.CONSUME_QUEUE / "a" / "0"
    (folder / paths.offset_name(400)).touch()
    (folder / paths.offset_name(600)).write_bytes(bytes(200))
    for _ in range(25):
        log.message("a", keys="k")
    stores.with_log(tmp_path, log)
    with reput.MessageStore.open(store, stores.SMALL, create=True) as opened:
        assert opened.max_offset("a", 0) == 40
    stores.assert_as_rebuilt(store, tmp_path / "copy")


def test_damage_moves_nothing(tmp_path: Path) -> None:
    """A damaged record between frontier and end is an error that names it; the frontier stays."""
    log = LogBuilder(4096)
    log.message("a", keys="k")
    store = stores.with_log(tmp_path, log)
    growing.catch_up(store)
    frontier = (store / paths.REPUT / own.FRONTIER_NAME).read_bytes()
    at = log.end
    log.message("a", body=b"x" * 50)
    log.message("a")
    stores.with_log(tmp_path, log)
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(path.read_bytes())
    data[at + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLogError, match=f"log offset {at}"):
        growing.catch_up(store, end=log.end)
    assert (store / paths.REPUT / own.FRONTIER_NAME).read_bytes() == frontier
