"""Questions in words that are no topic, queue or key are refused by name."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import pytest

import reput
from support import stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CALLS: dict[str, Callable[[reput.MessageStore, Any, Any], object]] = {
    "get_message": lambda store, topic, queue_id: store.get_message(topic, queue_id, 0),
    "get_message, filtered": lambda store, topic, queue_id: store.get_message(topic, queue_id, 0, filter="a"),
    "offset_by_time": lambda store, topic, queue_id: store.offset_by_time(topic, queue_id, 5),
    "min_offset": lambda store, topic, queue_id: store.min_offset(topic, queue_id),
    "max_offset": lambda store, topic, queue_id: store.max_offset(topic, queue_id),
    "store_time": lambda store, topic, queue_id: store.store_time(topic, queue_id, 0),
    "estimate": lambda store, topic, queue_id: store.estimate(topic, queue_id, 0, 9),
    "on_arrival": lambda store, topic, queue_id: store.on_arrival(topic, queue_id, 0, lambda: None),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[reput.MessageStore]:
    """A store whose one queue and key have been asked for until one call answers."""
    with reput.MessageStore.open(tmp_path / "store", create=True) as opened:
        opened.put_message(reput.Message("t", b"body", keys="k"))
        opened.reput(spark=False)
        for _ in range(3):
            assert len(opened.get_message("t", 0, 0)) == len(opened.query_message("t", "k")) == 1
        yield opened


@pytest.mark.parametrize("topic", [b"t", None, 7, ["t"], {}], ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_a_topic_that_is_no_text(store: reput.MessageStore, name: str, topic: object) -> None:
    """It is refused as by a put: with what was given, and what to give."""
    with pytest.raises(reput.ConfigError, match=r"topic .*: give a text"):
        CALLS[name](store, topic, 0)


@pytest.mark.parametrize("queue_id", ["0", None, 0.5, [0]], ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_a_queue_that_is_no_number(store: reput.MessageStore, name: str, queue_id: object) -> None:
    """A queue id that is no number is refused."""
    with pytest.raises(reput.ConfigError, match=r"queue .*: give a number"):
        CALLS[name](store, "t", queue_id)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("topic", ["", "..", "a/b", "a\0", "\ud800"], ids=ascii)
def test_a_topic_that_no_folder_can_have(store: reput.MessageStore, name: str, topic: str) -> None:
    """A text that is no topic's name is refused as well, whatever is asked."""
    with pytest.raises(reput.ConfigError, match="topic"):
        CALLS[name](store, topic, 0)


@pytest.mark.parametrize("word", [b"k", None, 7, ["k"]], ids=repr)
def test_questions_by_key(store: reput.MessageStore, word: Any) -> None:
    """Neither topic nor key of a question may be anything but text."""
    with pytest.raises(reput.ConfigError, match=r"key .*: give a text"):
        store.query_message("t", word)
    with pytest.raises(reput.ConfigError, match=r"topic .*: give a text"):
        store.query_message(word, "k")


def test_results_of_many_calls_share_no_place(tmp_path: Path) -> None:
    """However many answers are kept, and whatever their sizes, each stays what it was."""
    with reput.MessageStore.open(tmp_path / "store", create=True) as store:
        for number in range(300):
            store.put_message(reput.Message("t", bytes(number), keys=["all", f"k{number}"]))
        store.reput(spark=False)
        everything = list(store.get_message("t", 0, 0, 300))
        kept = []
        for number in range(2000):
            begin, most = number * 37 % 300, 1 + number * 11 % 60
            kept.append((begin, most, store.get_message("t", 0, begin, most), store.query_message("t", "all", most)))
        for begin, most, got, found in kept:
            wanted = everything[begin : begin + most]
            assert got.physical_offsets.tolist() == [message.physical_offset for message in wanted]
            assert got.sizes.tolist() == [len(message.raw) for message in wanted]
            assert [message.queue_offset for message in found] == list(range(300 - most, 300))
            assert (len(found), found.more) == (most, True)


def test_pieces_are_the_records_end_to_end(tmp_path: Path) -> None:
    """The pieces of an answer are its records in their order, one for each run of neighbours in a file of the log."""
    size = 8192
    config = replace(stores.SMALL, mapped_file_size_commit_log=size)
    seen = set()
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        for number in range(400):
            store.put_message(reput.Message("t", bytes(number % 90)), queue_id=number * number // 400 % 3)
        for answered_by in ("tail", "files"):
            for queue_id, offset, most in product(range(3), range(0, 130, 3), (1, 2, 32)):
                got = store.get_message("t", queue_id, offset, most)
                pieces, records = got.pieces(), [(message.physical_offset, message.raw) for message in got]
                assert b"".join(pieces) == b"".join(raw for _, raw in records)
                is_next = [
                    one + len(raw) == two and one // size == two // size for (one, raw), (two, _) in pairwise(records)
                ]
                assert len(pieces) == is_next.count(False) + bool(records)
                seen.add((answered_by, is_next.count(False) > 0, True in is_next))
            store.reput(spark=False)
    assert len(seen) == 8
