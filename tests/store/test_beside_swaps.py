"""An open reader answers from the old indexes or from the new ones while a job swaps them, never from neither."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import StoreLockedError
from reput.formats import paths
from reput.formats.own import files as own
from reput.store.open import opening, writer_watch
from reput.store.owner import holders, swap
from reput.store.owner.owner import own_store
from support.checked import assert_sound

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
    return [spans, pulled, keys, many, reader.topics(), len(reader.queues()), reader.offset_by_time("plums", 1, 1)]


@pytest.mark.parametrize("to", ["rebuild", "rocksdb", "index"])
def test_a_reader_of_a_converted_store_had_no_messages(path: Path, to: str) -> None:
    """A reader that had not looked at a queue before its files were replaced took it for one that does not exist."""
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        expected = answers(reader)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        assert len(reader.get_message("pears", 0, 0, 32)) == 20
        if to == "rebuild":
            reput.rebuild(path, config=CONFIG, spark=False)
        elif to == "index":
            reput.convert(path, index="rocksdb", config=CONFIG, spark=False)
        else:
            reput.convert(path, to="rocksdb", config=CONFIG, spark=False)
        assert answers(reader) == expected


def test_a_question_between_two_renames_was_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
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
    """A question names the intent and the command that ends the swap: at once if the job was killed."""
    monkeypatch.setattr(holders, "_SWAP_WAIT_S", 0.1 if is_live else 3600)
    with reput.MessageStore.open(path, CONFIG, read_only=True) as reader:
        with own_store(reader.layout) as owned:
            reader.layout.own(own.INTENT_NAME).write_bytes(own.encode_intent(own.Intent(owned.epoch, ())))
            owned.indexes_replaced()
            if is_live:
                with pytest.raises(StoreLockedError, match=r"intent: .*`reput rebuild` finishes it"):
                    reader.max_offset("apples", 0)
        if not is_live:
            with pytest.raises(StoreLockedError, match=r"intent: .*`reput rebuild` finishes it"):
                reader.max_offset("apples", 0)
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
