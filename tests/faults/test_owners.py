"""Rights to write: one owner at a time, nobody whose time is over; files that strangers left are refused."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from reput.errors import DamagedStoreError, ReputError, StaleEpochError, StoreLockedError
from reput.files import locks
from reput.files.watermarks import Watermarks
from reput.formats import paths
from reput.formats.own import files as own
from reput.pipeline.build.rebuild.rebuild import rebuild_store
from reput.pipeline.spark.engine import LoopEngine
from support import stores
from support.broker import broker_at_work

if TYPE_CHECKING:
    from faults.conftest import Victim


def test_live_broker(victim: Victim) -> None:
    """While a broker holds the store it is left alone; once it is gone the rebuild works."""
    before = stores.digest(victim.store, inodes=True)
    with broker_at_work(victim.store):
        with pytest.raises(StoreLockedError, match="running broker"):
            stores.rebuild(victim.store)
        assert locks.broker_is_live(victim.store / paths.LOCK)
        assert stores.digest(victim.store, inodes=True) == before
    assert not locks.broker_is_live(victim.store / paths.LOCK)
    stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.new


def test_two_owners(victim: Victim) -> None:
    """A second reput is refused while the first one works, and does not disturb it."""

    class Second(LoopEngine):
        def run(self, *arguments: Any) -> Any:
            with pytest.raises(StoreLockedError, match="another reput"):
                stores.rebuild(victim.store)
            return super().run(*arguments)

    rebuild_store(victim.store, Second(), stores.SMALL)
    assert stores.indexes(victim.store) == victim.new


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5])
def test_stale_epoch(call: int, victim: Victim) -> None:
    """A job whose epoch was replaced, at any stage, stops with StaleEpochError, and publishes nothing."""

    class Overtaken(LoopEngine):
        calls = 0

        def run(self, *arguments: Any) -> Any:
            self.calls += 1
            if self.calls == call:
                watermarks = Watermarks(victim.store / paths.REPUT / own.WATERMARKS_NAME)
                watermarks["epoch"] += 1
                watermarks.close()
            return super().run(*arguments)

    with pytest.raises(StaleEpochError, match="has replaced"):
        rebuild_store(victim.store, Overtaken(), stores.SMALL)
    assert stores.indexes(victim.store) == victim.old
    stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.new


def test_next_owner_waits_for_orphans(victim: Victim) -> None:
    """A task of a dead job that still writes makes the next owner wait until it is done."""
    fence = victim.store / paths.REPUT / own.FENCE_NAME
    ended = 0.0

    def orphan() -> None:
        nonlocal ended
        with locks.task_fence(fence):
            started.set()
            time.sleep(0.4)
            ended = time.monotonic()

    started = threading.Event()
    thread = threading.Thread(target=orphan)
    thread.start()
    assert started.wait(10)
    with locks.owner_lock(fence.with_name(own.LOCK_NAME)):
        with pytest.raises(StoreLockedError, match="earlier job still write"):
            locks.closed_fence(fence, wait_s=0.05).__enter__()
        with locks.closed_fence(fence):
            pass
        assert 0 < ended <= time.monotonic()
    thread.join()


HOSTILE_INTENTS: dict[str, bytes] = {
    "not JSON": b"{",
    "empty": b"",
    "binary": bytes(range(256)),
    "no object": b"[1]",
    "wrong version": json.dumps({"version": 2, "epoch": 1, "parts": ["index"]}).encode(),
    "no version": json.dumps({"epoch": 1, "parts": ["index"]}).encode(),
    "epoch": json.dumps({"version": 1, "epoch": "../..", "parts": ["index"]}).encode(),
    "negative epoch": json.dumps({"version": 1, "epoch": -1, "parts": ["index"]}).encode(),
    "parts": json.dumps({"version": 1, "epoch": 1, "parts": "index"}).encode(),
    "log": json.dumps({"version": 1, "epoch": 1, "parts": ["commitlog"]}).encode(),
    "outside": json.dumps({"version": 1, "epoch": 1, "parts": ["../other"]}).encode(),
    "outside by topic": json.dumps({"version": 1, "epoch": 1, "parts": ["consumequeue/.."]}).encode(),
    "deeper": json.dumps({"version": 1, "epoch": 1, "parts": ["consumequeue/a/../../config"]}).encode(),
    "absolute": json.dumps({"version": 1, "epoch": 1, "parts": ["/etc"]}).encode(),
    "numbers": json.dumps({"version": 1, "epoch": 1, "parts": [1]}).encode(),
    "half a character": b'{"version": 1, "epoch": 1, "parts": ["consumequeue/\\ud800"]}',
    "deep": b"[" * 100_000,
    "missing": json.dumps({"version": 1, "epoch": 1, "parts": ["consumequeue/nobody"]}).encode(),
}


@pytest.mark.parametrize("kind", HOSTILE_INTENTS)
def test_hostile_intent(kind: str, victim: Victim) -> None:
    """An intent that reput cannot have written is refused with its name and what to do; nothing is moved."""
    path = victim.store / paths.REPUT / own.INTENT_NAME
    path.write_bytes(HOSTILE_INTENTS[kind])
    before = stores.digest(victim.store, inodes=True)
    with pytest.raises(DamagedStoreError, match=r"intent: .*([Rr]emove it|do not use)|Remove the file intent"):
        stores.rebuild(victim.store)
    assert stores.digest(victim.store, inodes=True) == before
    path.unlink()
    stores.rebuild(victim.store)


HOSTILE_FRONTIERS: dict[str, bytes] = {
    "not JSON": b"nothing",
    "wrong version": b'{"version": 9}',
    "no values": b'{"version": 1}',
    "infinite": b'{"version": 1, "store_id": "", "epoch": 1e999}',
    "deep": b"[" * 100_000,
    "fingerprint": b'{"version":1,"store_id":"","epoch":1,"queue_offset":1,"index_offset":1,"index_file":"",'
    b'"index_count":1,"index_fingerprint":null,"queue_fingerprint":[1]}',
    "negative": b'{"version":1,"store_id":"","epoch":1,"queue_offset":-1,"index_offset":1,"index_file":"",'
    b'"index_count":1,"index_fingerprint":null,"queue_fingerprint":null}',
    "outside": b'{"version":1,"store_id":"","epoch":1,"queue_offset":1,"index_offset":1,"index_file":"../x",'
    b'"index_count":1,"index_fingerprint":null,"queue_fingerprint":null}',
}


@pytest.mark.parametrize("kind", HOSTILE_FRONTIERS)
def test_hostile_frontier(kind: str, victim: Victim) -> None:
    """A frontier that reput cannot have written is refused before any work, with the remedy."""
    path = victim.store / paths.REPUT / own.FRONTIER_NAME
    path.write_bytes(HOSTILE_FRONTIERS[kind])
    with pytest.raises(DamagedStoreError, match=r"frontier.*: .*[Rr]emove it and run `reput rebuild`"):
        stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.old
    path.unlink()
    stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.new


@pytest.mark.parametrize("data", [b"x", b"x" * 4096, b"reput02\0" + bytes(4088), bytes(5000)])
def test_hostile_watermarks(data: bytes, victim: Victim) -> None:
    """A watermarks file of another size or another program is refused, not mapped and believed."""
    path = victim.store / paths.REPUT / own.WATERMARKS_NAME
    path.write_bytes(data)
    with pytest.raises(DamagedStoreError, match=r"watermarks.*Remove it"):
        stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.old


@pytest.mark.parametrize("size", [0, 1, 100, 4096])
def test_watermarks_that_were_never_filled(size: int, victim: Victim) -> None:
    """A watermarks file whose making was cut short, by a kill or a full disk, is made anew."""
    path = victim.store / paths.REPUT / own.WATERMARKS_NAME
    path.write_bytes(bytes(size))
    stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.new


def test_foreign_names_in_our_folder(victim: Victim) -> None:
    """Only staging and aside folders of ours are cleaned away; other names are nobody's business."""
    folder = victim.store / paths.REPUT
    for name in ("staging-7", "aside-3", "staging-x", "staging", "backup"):
        (folder / name / "inside").mkdir(parents=True)
    (folder / "staging-8").touch()
    report = stores.rebuild(victim.store)
    assert any("aside-3, staging-7" in note for note in report.notes)
    kept = {path.name for path in folder.iterdir()}
    assert {"staging-x", "staging", "backup", "staging-8"} <= kept
    assert not {"staging-7", "aside-3"} & kept


def test_staging_folder_of_the_next_epoch(victim: Victim) -> None:
    """Files that lie in a staging folder already, whatever its number, never get into the new indexes."""
    for epoch in range(1, 6):
        stray = victim.store / paths.REPUT / own.staging_name(epoch) / paths.CONSUME_QUEUE / "ghost" / "0"
        stray.mkdir(parents=True)
        (stray / paths.offset_name(0)).write_bytes(bytes(200))
    stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.new


def test_reput_folder_that_is_a_file(victim: Victim) -> None:
    """A file in the place of reput's folder is an error that names it."""
    for path in (victim.store / paths.REPUT).iterdir():
        path.unlink()
    (victim.store / paths.REPUT).rmdir()
    (victim.store / paths.REPUT).touch()
    with pytest.raises(ReputError, match="reput"):
        stores.rebuild(victim.store)
