"""Faults of offsets and waiting work that stores have had: what reput says of each state, and does with it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedStoreError
from reput.formats import paths
from reput.store.pending.verify import RecordState
from support import museum, opened
from support.checked import rules_of

if TYPE_CHECKING:
    from pathlib import Path


def test_3401_offsets_that_are_garbage(tmp_path: Path) -> None:
    """A damaged file of offsets is answered from its .bak, with a note; both files stay as they are."""
    store = museum.make("3401", tmp_path)
    assert rules_of(store) == {("leftover", "metadata-from-backup"): 1}
    config = store / paths.CONFIG
    before = {path.name: path.read_bytes() for path in config.iterdir()}
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert opened_store.query_offset("billing", "orders", 0) == 15
    assert {path.name: path.read_bytes() for path in config.iterdir()} == before


def test_9328_old_offsets_after_new_ones(tmp_path: Path) -> None:
    """Two damaged files are an error that names both: groups do not begin again unasked."""
    store = museum.make("9328", tmp_path)
    assert rules_of(store) == {("damage", "metadata-damaged"): 1}
    with (
        reput.MessageStore.open(store, read_only=True) as opened_store,
        pytest.raises(DamagedStoreError, match=r"consumerOffset\.json.*consumerOffset\.json\.bak"),
    ):
        opened_store.query_offset("billing", "orders", 0)


def test_9328_reput_leaves_no_old_text(tmp_path: Path) -> None:
    """Offsets that get shorter are written as a whole new file."""
    with reput.MessageStore.open(tmp_path / "s", opened.CONFIG, create=True) as store:
        opened.put(store, 5)
        for group in ("billing", "shipping-with-a-long-name"):
            store.commit_offset(group, "t", 0, 3)
        store.progress.persist()
        store.clean_offsets(group="shipping-with-a-long-name")
        store.progress.persist()
    with reput.MessageStore.open(tmp_path / "s", read_only=True) as store:
        assert store.query_offset("billing", "t", 0) == 3
        assert store.progress.groups() == ["billing"]


def test_10988_first_commits_at_once(tmp_path: Path) -> None:
    """Threads that make the first commits of a group at once lose none of them."""
    queues, rounds = 8, 20
    with reput.MessageStore.open(tmp_path / "s", opened.CONFIG, create=True) as store:
        for queue_id in range(queues):
            opened.put(store, 1, queue_id=queue_id)
        for number in range(rounds):
            start = threading.Barrier(queues)

            def commit(queue_id: int, group: str = f"g{number}", start: threading.Barrier = start) -> None:
                start.wait()
                store.commit_offset(group, "t", queue_id, 1)

            threads = [threading.Thread(target=commit, args=(queue_id,)) for queue_id in range(queues)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert store.progress.query_all(f"g{number}", "t") == dict.fromkeys(range(queues), 1)


def test_10668_timers_of_a_truncated_log(tmp_path: Path) -> None:
    """Timers that lead above the log's end are listed with that state; the others are verified."""
    store = museum.make("10668", tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        end = opened_store.view.confirmed()
        timers = list(opened_store.pending.timers())
    above = [timer for timer in timers if timer.physical_offset >= end]
    assert above
    assert {timer.state for timer in timers if timer.physical_offset < end} == {RecordState.VERIFIED}
    assert RecordState.VERIFIED not in {timer.state for timer in above}
