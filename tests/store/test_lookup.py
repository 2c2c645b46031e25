"""Answers by one kernel call: they are those of the general way, and follow every change."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.config import StoreConfig
from reput.kernels import SWITCH
from reput.log.read import maps
from reput.pipeline.build.index import write
from reput.queue.by_time import Boundary
from reput.store.read import many
from reput.store.read.queue_answers import PullLimits

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 12, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=8
)
QUEUES = [("t", 0), ("t", 1), ("other", 0), ("nowhere", 0)]


def filled(path: Path, count: int, *, indexed: bool) -> reput.MessageStore:
    """A store of small files with messages in three queues."""
    store = reput.MessageStore.open(path, CONFIG, create=True)
    put_more(store, count)
    if indexed:
        store.reput(spark=False)
    return store


def put_more(store: reput.MessageStore, count: int) -> None:
    """Messages whose keys come again."""
    for number in range(count):
        topic, queue_id = QUEUES[number % 3]
        message = reput.Message(topic, bytes(number), keys=["k", f"k{number % 7}"], unique_key=f"u{number}", tags="a")
        assert store.put_message(message, queue_id).status is reput.PutStatus.PUT_OK


def answers(store: reput.MessageStore) -> list[Any]:
    """The answers to pulls from everywhere, and to questions by time and key."""
    reported: list[Any] = []
    for topic, queue_id in QUEUES:
        end = store.max_offset(topic, queue_id)
        for offset in (-1, 0, 1, 7, end - 1, end, end + 1, 1 << 70):
            for most, most_bytes in ((1, 1 << 20), (3, 200), (32, 1 << 20), (32, 600), (5000, 1 << 80)):
                got = store.get_message(topic, queue_id, offset, most, None, most_bytes)
                reported.append((got.status, got.next_offset, got.min_offset, got.max_offset, got.total_bytes))
                reported.append((got.physical_offsets.tolist(), [message.body for message in got]))
        times = [store.store_time(topic, queue_id, offset) for offset in (0, 5, end - 1)]
        for time in (-(1 << 70), 0, *times, times[-1] + 1, 1 << 70):
            reported += [store.offset_by_time(topic, queue_id, time, boundary) for boundary in Boundary]
        for key in ("k", "k3", "u4", "u5", "none", "ключ"):
            for most in (0, 1, 2, 64):
                result = store.query_message(topic, key, most)
                reported.append((result.physical_offsets, result.more, [message.keys for message in result]))
    return reported


@pytest.mark.parametrize("limits", [None, PullLimits(4, 500)])
@pytest.mark.parametrize("indexed", [False, True])
def test_asked_again_the_answer_is_the_same(tmp_path: Path, indexed: bool, limits: PullLimits | None) -> None:
    """Files, tail or both, with or without limits: the first answer, given in the general way, is given each time."""
    path = tmp_path / "store"
    filled(path, 90, indexed=indexed).close(reput=False)
    with reput.MessageStore.open(path, CONFIG, limits=limits, create=True) as store:
        for _ in range(2):
            first = answers(store)
            for _ in range(3):
                assert answers(store) == first
            put_more(store, 5)


TIMES = st.integers(-3, 40) | st.sampled_from([-(1 << 70), -(1 << 63), (1 << 63) - 1, 1 << 70])
ASKED_KEYS = st.sampled_from(["k", "k3", "u4", "u5", "none", "", "ключ", "Aa"])


@pytest.mark.parametrize("kind", ["tail", "files", "both", "rocksdb", "index in rocksdb"])
def test_many_questions_have_the_answers_of_single_ones(tmp_path: Path, kind: str) -> None:
    """On every kind of queue and index, in the tail and in batches: each question is answered as if it were alone."""
    config = {
        "rocksdb": replace(CONFIG, store_type="defaultRocksDB"),
        "index in rocksdb": replace(CONFIG, index_rocksdb_enable=True, index_file_read_enable=False),
    }.get(kind, CONFIG)
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        put_more(store, 90)
        if kind != "tail":
            store.reput(spark=False)
        if kind == "both":
            put_more(store, 6)
        start = store.store_time("t", 0, 0)

        @given(
            st.lists(st.tuples(st.sampled_from([0, 1, 7]), TIMES), max_size=30),
            st.sampled_from(Boundary),
            st.lists(ASKED_KEYS, max_size=30),
            st.integers(0, 70),
            st.sampled_from(["t", "other", "nowhere"]),
        )
        @settings(max_examples=25, deadline=None)
        def law(asked: list[tuple[int, int]], boundary: Boundary, keys: list[str], most: int, topic: str) -> None:
            ids, times = [one for one, _ in asked], [start + time for _, time in asked]
            found = store.offsets_by_time(topic, ids, times, boundary)
            assert found.dtype == np.int64
            expected = [store.offset_by_time(topic, *one, boundary) for one in zip(ids, times, strict=True)]
            assert found.tolist() == expected
            for _ in range(2):
                many = store.query_messages(topic, keys, most)
                single = [store.query_message(topic, key, most) for key in keys]
                assert many.counts.tolist() == [len(one) for one in single]
                assert many.physical_offsets.tolist() == [at for one in single for at in one.physical_offsets]
                assert [(one.physical_offsets, one.more) for one in many] == [
                    (one.physical_offsets, one.more) for one in single
                ]

        law()


def test_one_queue_or_one_time_is_for_all_questions(tmp_path: Path) -> None:
    """A single queue id goes with all times, a single time with all queues, and arrays do as lists do."""
    with filled(tmp_path / "store", 90, indexed=True) as store:
        start = store.store_time("t", 0, 0)
        times = [start - 1, start, start + 1, start + 1000]
        of_queue = [store.offset_by_time("t", 0, time) for time in times]
        assert store.offsets_by_time("t", 0, times).tolist() == of_queue
        assert store.offsets_by_time("t", np.int32(0), np.array(times)).tolist() == of_queue
        assert store.offsets_by_time("t", range(2), start + 1000).tolist() == [30, 30]
        assert store.offsets_by_time("t", 1, start + 1000, "upper").tolist() == [29]
        assert store.offsets_by_time("t", [], start).tolist() == []
        assert list(store.query_messages("t", [])) == []
        bounded = store.query_messages("t", ["u0", "u4"], 5, start, before=1)
        assert [len(one) for one in bounded] == [1, 0] == bounded.counts.tolist()


def test_many_questions_take_more_than_a_call(tmp_path: Path) -> None:
    """More questions than a kernel call takes, and answers that do not fit the first buffer, are all there."""
    with filled(tmp_path / "store", 90, indexed=True) as store:
        keys = ["k", "u1", "none"] * (many.AT_ONCE // 2)
        found = store.query_messages("t", keys)
        single = {key: store.query_message("t", key).physical_offsets for key in set(keys)}
        assert len(found) == len(keys)
        assert [one.physical_offsets for one in found[-30:]] == [single[key] for key in keys[-30:]]
        assert found.physical_offsets.tolist() == [offset for key in keys for offset in single[key]]
        assert found[-1].physical_offsets == single[keys[-1]]
        with pytest.raises(IndexError):
            found[len(keys)]
        end = store.store_time("t", 1, 29) + 1
        assert store.offsets_by_time("t", [0, 1] * many.AT_ONCE, end).tolist() == [30] * 2 * many.AT_ONCE


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda store: store.offsets_by_time("t", [0, 1], [1]), "2 queue_ids and 1 timestamps_ms"),
        (lambda store: store.offsets_by_time("t", 0, [1.5]), "timestamp_ms 1.5: give a whole number"),
        (lambda store: store.offsets_by_time("t", 0, "12"), "timestamp_ms '12': give a whole number"),
        (lambda store: store.offsets_by_time("t", [0, "1"], 1), "queue '1': give a number"),
        (lambda store: store.offsets_by_time("t", [0, -1], 1), "queue -1: queue ids go from 0"),
        (lambda store: store.offsets_by_time("t", np.zeros((1, 1), dtype=int), 1), "queue_ids: 2 dimensions"),
        (lambda store: store.offsets_by_time("a/b", [], 1), "topic 'a/b': not a valid name"),
        (lambda store: store.offsets_by_time("t", 0, 1, "middle"), "boundary 'middle': choose one of"),
        (lambda store: store.query_messages("t", "k"), "keys 'k': give a list of texts"),
        (lambda store: store.query_messages("t", ["k", 5]), "key 5: give a text"),
        (lambda store: store.query_messages("t", ["k", "\ud800"]), "half of a character"),
        (lambda store: store.query_messages("a/b", ["k"]), "topic 'a/b': not a valid name"),
        (lambda store: store.query_messages("t", ["k"], "many"), "max_messages 'many': give a whole number"),
    ],
)
def test_bad_questions_are_refused_by_name(tmp_path: Path, asked: Any, message: str) -> None:
    """A question among many that the single call refuses is refused in the same words."""
    with filled(tmp_path / "store", 9, indexed=True) as store, pytest.raises(reput.ConfigError, match=message):
        asked(store)


def test_a_put_a_reput_and_a_deletion_are_seen_at_once(tmp_path: Path) -> None:
    """An answer knows of new messages, moved frontiers and expired files, whatever was prepared before."""
    with filled(tmp_path / "store", 90, indexed=True) as store:
        for _ in range(3):
            for _ in range(3):
                answers(store)
            end = store.max_offset("t", 0)
            put_more(store, 3)
            assert len(store.get_message("t", 0, end)) == 1
            assert store.get_message("t", 0, end - 1).max_offset == end + 1
            assert store.offset_by_time("t", 0, 1 << 60) == end + 1
            count = len(store.query_message("t", "k"))
            store.reput(spark=False)
            assert len(store.query_message("t", "k")) == count
            assert len(store.get_message("t", 0, end)) == 1


def test_a_reader_beside_a_writer_sees_each_put(tmp_path: Path) -> None:
    """A read-only store looks at the writer's watermarks in every call, the prepared ones too."""
    path = tmp_path / "store"
    with filled(path, 30, indexed=True) as store, reput.MessageStore.open(path, read_only=True) as reader:
        for number in range(30, 40):
            for _ in range(3):
                assert reader.max_offset("t", 0) == store.max_offset("t", 0)
                assert reader.get_message("t", 0, 5).max_offset == store.max_offset("t", 0)
                assert len(reader.query_message("t", "k")) == len(store.query_message("t", "k"))
            put_more(store, 3)
            if number % 3 == 0:
                store.reput(spark=False)


def test_results_outlive_the_store(tmp_path: Path) -> None:
    """A result stays readable when the store is closed."""
    store = filled(tmp_path / "store", 30, indexed=True)
    for _ in range(4):
        pulled, queried = store.get_message("t", 0, 3, 4), store.query_message("t", "u0")
    store.close()
    assert [message.queue_offset for message in pulled] == [3, 4, 5, 6]
    assert [message.unique_key for message in queried] == ["u0"]
    for ask in (store.get_message, store.offsets_by_time):
        with pytest.raises(reput.ClosedError):
            ask("t", 0, 3)
    with pytest.raises(reput.ClosedError):
        store.query_messages("t", ["u0"])


def test_a_file_that_came_while_the_table_of_files_was_made_stayed_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread lists a new log file meanwhile: messages in it are found, by offset and by key."""
    config = replace(CONFIG, mapped_file_size_commit_log=1 << 14)
    with reput.MessageStore.open(tmp_path / "s", config, create=True) as store:
        store.expect_many()
        log, real = store.view.log, maps.MapTable

        def put(numbers: range) -> None:
            for number in numbers:
                store.put_message(reput.Message("t", bytes(100), keys=f"k{number}"))

        def racing(first: int, count: int, most: int) -> maps.MapTable:
            monkeypatch.setattr(maps, "MapTable", real)
            thread = threading.Thread(target=lambda: (put(range(20, 120)), log.refresh()))
            thread.start()
            thread.join()
            return real(first, count, most)

        put(range(20))
        store.reput(spark=False)
        monkeypatch.setattr(maps, "MapTable", racing)
        log.drop_table()
        assert log.table is not None
        store.reput(spark=False)
        for _ in range(3):
            assert [one.queue_offset for one in store.get_message("t", 0, 110, 1)] == [110]
            assert len(store.query_message("t", "k110")) == 1
        assert len(log.starts) > 1


@pytest.mark.parametrize("kernel", ["compiled", "reference"])
def test_old_messages_were_not_found_while_an_index_was_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    """A reader looks after new slots are written, and before the header counts their items: or a kill came there."""
    monkeypatch.setenv(SWITCH, kernel)
    config = replace(CONFIG, max_index_num=400)
    real, found = write.write_slots, []
    with (
        reput.MessageStore.open(tmp_path / "s", config, create=True) as store,
        contextlib.ExitStack() as readers,
    ):
        keys = [f"k{number}" for number in range(40)]
        for key in keys:
            store.put_message(reput.Message("t", b"old", keys=key))
        store.reput(spark=False)
        reader = readers.enter_context(reput.MessageStore.open(tmp_path / "s", config, read_only=True))
        reader.expect_many()

        def ask() -> list[int]:
            one_by_one = [len(reader.query_message("t", key)) for key in keys]
            assert [len(each) for each in reader.query_messages("t", keys)] == one_by_one
            return one_by_one

        def slots(*given: Any) -> None:
            real(*given)
            found.append(ask())

        monkeypatch.setattr(write, "write_slots", slots)
        for key in keys:
            store.put_message(reput.Message("t", b"new", keys=key))
        store.reput(spark=False)
        assert found
        assert found == [[2] * len(keys)] * len(found)
