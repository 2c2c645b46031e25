"""An open reader answers from the old indexes or from the new ones while a job swaps them, never from neither."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedStoreError, ReputError, StoreLockedError
from reput.formats import paths
from reput.formats.own import files as own
from reput.store.open import opening, reopening, writer_watch
from reput.store.owner import holders, swap
from reput.store.owner.owner import Ownership, own_store
from reput.store.read.view import StoreView
from support.checked import assert_sound
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.config import StoreConfig
    from reput.store.disk.layout import StoreLayout
    from reput.store.open.opening import Opened

CONFIG = reput.StoreConfig.from_properties(
    {
        "mappedFileSizeCommitLog": "100000",
        "mappedFileSizeConsumeQueue": "400",
        "maxHashSlotNum": "500",
        "maxIndexNum": "200",
    }
)
NO_FILES = {"index_file_write_enable": False, "index_file_read_enable": False}
MESSAGES = 600
TOPICS = ("apples", "pears", "plums")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A closed store with many small files; an open reader does not notice by itself that another process is there."""
    monkeypatch.setattr(writer_watch, "_LOOK_S", 3600)
    with reput.MessageStore.open(tmp_path / "s", CONFIG, create=True) as store:
        for number in range(MESSAGES):
            store.put_message(reput.Message(TOPICS[number % 3], b"%d" % number, keys=f"k{number}"), number % 2)
    yield tmp_path / "s"
    has_files = any((tmp_path / "s" / paths.INDEX).iterdir())
    assert_sound(tmp_path / "s", CONFIG if has_files else replace(CONFIG, index_rocksdb_enable=True, **NO_FILES))


def answers(reader: reput.MessageStore) -> list[object]:
    """The answers to a question of each kind, on queues and keys that were not asked for before."""
    spans = [
        (topic, queue_id, reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id))
        for topic in TOPICS
        for queue_id in (0, 1)
    ]
    pulled = [[int(one.body) for one in reader.get_message(topic, 0, 7, 5)] for topic in TOPICS]
    keys = [[int(one.body) for one in reader.query_message(TOPICS[number % 3], f"k{number}")] for number in (0, 7, 599)]
    many = [int(one.body) for found in reader.query_messages("pears", ["k1", "k4"]) for one in found]
    last = reader.store_time("plums", 1, 99)
    times = [reader.offset_by_time("plums", 1, one, "upper") for one in (1, last)]
    return [spans, pulled, keys, many, times, reader.topics(), len(reader.queues())]


@pytest.mark.parametrize("to", ["rebuild", "rocksdb", "index"])
def test_a_reader_of_a_converted_store_had_no_messages(path: Path, to: str) -> None:
    """A reader that had not looked at a queue before its files were replaced took it for one that does not exist."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        expected = answers(reader)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        assert len(reader.get_message("pears", 0, 0, 32)) == 20
        # The next question about this queue is one for a kernel, which has not seen all of its files.
        for _ in range(3):
            assert reader.offset_by_time("plums", 1, 1) == 0
        if to == "rebuild":
            reput.rebuild(path, config=CONFIG, spark=False)
        elif to == "index":
            reput.convert(path, index="rocksdb", config=CONFIG, spark=False)
        else:
            reput.convert(path, to="rocksdb", config=CONFIG, spark=False)
        assert answers(reader) == expected


@pytest.mark.parametrize("has_written", [True, False], ids=["after a writer", "nobody wrote"])
def test_a_question_between_two_renames_was_an_error(
    path: Path, has_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that comes while files are away waits for the end of the swap. A soak met "cannot map" there."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        expected = answers(reader)
    away, go_on, found = threading.Event(), threading.Event(), []
    rename = swap._swap_part

    def renamed(live: Path, staged: Path, aside: Path) -> None:
        if not away.is_set():
            swap.fs.make_dirs(aside.parent)
            swap.fs.rename(live, aside)
            away.set()
            assert go_on.wait(30)
        rename(live, staged, aside)

    monkeypatch.setattr(swap, "_swap_part", renamed)
    writer = reput.MessageStore.open(path, CONFIG, create=True) if has_written else None
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        if writer is not None:
            writer.close()
        job = threading.Thread(target=lambda: reput.rebuild(path, config=CONFIG, spark=False))
        asker = threading.Thread(target=lambda: found.append(answers(reader)))
        job.start()
        assert away.wait(30)
        asker.start()
        asker.join(0.2)
        assert not found
        go_on.set()
        asker.join(30)
        job.join(30)
    assert found == [expected]


@pytest.mark.parametrize("is_live", [True, False], ids=["under way", "killed"])
def test_a_swap_that_does_not_end(path: Path, is_live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question waits once, and names the intent and the command that ends the swap: at once if the job was killed."""
    monkeypatch.setattr(holders, "_SWAP_WAIT_S", 0.1 if is_live else 3600)
    waits: list[StoreLayout] = []
    await_swap = reopening.await_swap

    def awaited(layout: StoreLayout) -> None:
        waits.append(layout)
        await_swap(layout)

    monkeypatch.setattr(reopening, "await_swap", awaited)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        with own_store(reader.layout) as owned:
            reader.layout.own(own.INTENT_NAME).write_bytes(own.encode_intent(own.Intent(owned.epoch, ())))
            owned.count_swap()
            if is_live:
                with pytest.raises(StoreLockedError, match=r"intent: .*`reput rebuild` finishes it"):
                    reader.max_offset("apples", 0)
        if not is_live:
            with pytest.raises(StoreLockedError, match=r"intent: .*`reput rebuild` finishes it"):
                reader.max_offset("apples", 0)
        assert len(waits) == 1
        reput.rebuild(path, config=CONFIG, spark=False)
        assert reader.max_offset("apples", 0) == MESSAGES // 6


def test_a_store_that_is_swapped_while_it_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that listed old files and new ones opens the store again."""
    real, opened = opening.open_view, []

    def meanwhile(layout: StoreLayout, config: StoreConfig, limits: object = None, *, beside: bool = False) -> Opened:
        opened.append(real(layout, config, limits, beside=beside))  # type: ignore[arg-type]
        if len(opened) == 1:
            reput.convert(path, to="rocksdb", config=CONFIG, spark=False)
        return opened[-1]

    monkeypatch.setattr(opening, "open_view", meanwhile)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        assert len(opened) == 2
        assert reader.view is opened[1].view
        assert reader.max_offset("apples", 0) == MESSAGES // 6


def test_a_writer_that_had_converted_its_store_meanwhile(path: Path) -> None:
    """The process of a writer closes, converts, and opens again: its reader took the swap for a removal of queues."""
    with reput.MessageStore.open(path, CONFIG, create=True) as writer:
        reader = reput.MessageStore.open(path, CONFIG, read_only=True)
        expected = answers(reader)
        reader.close()
        reader = reput.MessageStore.open(path, CONFIG, read_only=True)
        assert len(reader.get_message("pears", 0, 0, 32)) == 20
        writer.close()
        reput.convert(path, to="rocksdb", config=CONFIG, spark=False)
    with reput.MessageStore.open(path, CONFIG, create=True) as writer, reader:
        assert answers(reader) == expected
        writer.put_message(reput.Message("apples", b"600"))
        assert reader.max_offset("apples", 0) == MESSAGES // 6 + 1


def test_a_question_during_which_swaps_came_without_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer counts if no swap came meanwhile; after some in a row the question is an error."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        follow = StoreView.catch_up
        swapping = True

        def caught_up(view: StoreView) -> None:
            follow(view)
            if swapping:
                with own_store(reader.layout) as owned:
                    owned.count_swap()

        monkeypatch.setattr(StoreView, "catch_up", caught_up)
        with pytest.raises(StoreLockedError, match="its indexes were replaced 3 times meanwhile"):
            reader.max_offset("apples", 0)
        swapping = False
        assert reader.max_offset("apples", 0) == MESSAGES // 6


def test_a_reader_that_is_closed_waits_for_one_queue_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a job hangs in its swap, a close does not wait once for each queue that somebody waits for."""
    monkeypatch.setattr(holders, "_SWAP_WAIT_S", 1.5)
    asked: list[str] = []
    reader = reput.MessageStore.open(path, CONFIG, read_only=True)
    find = StoreView.max_offset
    for topic in TOPICS:
        for queue_id in (0, 1):
            reader.on_arrival(topic, queue_id, 10_000, lambda: None)

    def counted(view: StoreView, topic: str, queue_id: int) -> int:
        asked.append(topic)
        return find(view, topic, queue_id)

    with own_store(reader.layout) as owned:
        intent = reader.layout.own(own.INTENT_NAME)
        intent.write_bytes(own.encode_intent(own.Intent(owned.epoch, ())))
        owned.count_swap()
        monkeypatch.setattr(StoreView, "max_offset", counted)
        wait_until(lambda: bool(asked))
        reader.close()
        intent.unlink()
    assert len(asked) == 1


@pytest.mark.parametrize("to", ["rebuild", "rocksdb"])
@pytest.mark.parametrize("fails", [True, False], ids=["lost is an error", "lost is passed"])
def test_a_scan_of_a_store_that_is_converted_had_no_rows(path: Path, to: str, fails: bool) -> None:
    """A scan that was planned before a swap says so, and does not take the queues for lost or for empty."""
    reading = reput.scan(
        path, topics="apples", columns=["topic", "queueOffset"], config=CONFIG, fail_on_data_loss=fails
    )
    if to == "rebuild":
        reput.rebuild(path, config=CONFIG, spark=False)
    else:
        reput.convert(path, to="rocksdb", config=CONFIG, spark=False)
    with pytest.raises(StoreLockedError, match="has replaced the indexes since this read began"):
        reading.read_all()
    again = reput.scan(path, topics="apples", columns=["topic", "queueOffset"], config=CONFIG, fail_on_data_loss=fails)
    assert again.read_all().num_rows == MESSAGES // 3


def test_a_failed_announcement_leaves_no_intent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the renames are durable the swap is over, and readers go on, also if the watermarks cannot be synced."""

    def refused(_: Ownership) -> None:
        raise ReputError("watermarks: cannot sync")

    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        monkeypatch.setattr(Ownership, "indexes_replaced", refused)
        with pytest.raises(ReputError, match="The new indexes are live and whole"):
            reput.rebuild(path, config=CONFIG, spark=False)
        assert not reader.layout.own(own.INTENT_NAME).exists()
        assert reader.max_offset("apples", 0) == MESSAGES // 6


def test_an_error_of_replaced_files_does_not_count(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that met an error while indexes were swapped is answered from the new ones."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        follow, failed = StoreView.catch_up, []

        def caught_up(view: StoreView) -> None:
            follow(view)
            if not failed:
                failed.append(1)
                with own_store(reader.layout) as owned:
                    owned.count_swap()
                raise DamagedStoreError("half of it is old")

        monkeypatch.setattr(StoreView, "catch_up", caught_up)
        assert reader.topics() == sorted(TOPICS)
        assert failed


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_swap_that_begins_while_the_store_is_opened_again(
    path: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader waits for that one, too; after some in a row the question is an error."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        real, refused = reopening.WriterWatch, iter(range(times))

        def watch(layout: StoreLayout) -> writer_watch.WriterWatch:
            if next(refused, None) is not None:
                raise StoreLockedError("the next swap has begun")
            return real(layout)

        with own_store(reader.layout) as owned:
            owned.count_swap()
        assert reader._reopening is not None
        monkeypatch.setattr(reopening, "WriterWatch", watch)
        if times == 3:
            with pytest.raises(StoreLockedError, match="the next swap"):
                reader._reopening.renew_after_swap(reader._take_over_view)
        else:
            reader._reopening.renew_after_swap(reader._take_over_view)
            reader._reopening.renew_after_swap(pytest.fail)
        assert reader.max_offset("apples", 0) == MESSAGES // 6
