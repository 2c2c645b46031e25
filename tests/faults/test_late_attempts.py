"""A task's attempt that resumes late, when others have gone on, changes nothing."""

from __future__ import annotations

import errno
import itertools
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig, parse_properties
from reput.errors import ReputError, StaleEpochError
from reput.files import fs
from reput.pipeline.build.rebuild.options import RebuildOptions
from reput.pipeline.build.rebuild.rebuild import rebuild_store
from reput.pipeline.follow.follow import Follow
from reput.pipeline.split.merge import SplitQueues
from support import golden, growing, stores
from support.checked import assert_sound
from support.late import LateAttempts

if TYPE_CHECKING:
    from pathlib import Path

    from reput.formats.queue.consume_queue import QueueKey

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 13, mapped_file_size_consume_queue=200, max_hash_slot_num=16, max_index_num=50
)

GOLDEN_CONFIG = StoreConfig.from_properties(parse_properties(golden.CONFIG))
EXT_CONFIG = StoreConfig.from_properties(
    parse_properties(golden.CONFIG + "enableConsumeQueueExt=true\nmappedFileSizeConsumeQueueExt=1000\n")
)


def put(store: reput.MessageStore, count: int) -> None:
    """Messages of two queues with keys that differ."""
    for number in range(count):
        message = reput.Message("ab"[number % 2], b"%d" % number, keys=f"k{number}", tags="t")
        assert store.put_message(message).status is reput.PutStatus.PUT_OK


@pytest.mark.parametrize("ranges", ["short", "long"])
def test_a_late_attempt_of_an_earlier_step(ranges: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that pauses at the fence of one step is refused in later ones, so the IndexFile loses no item."""
    if ranges == "long":
        growing.many_splits(monkeypatch, 250, above_bytes=100, range_bytes=1000)
    path, engine = tmp_path / "store", LateAttempts(monkeypatch)
    names = set()
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        follower = Follow(path, engine, CONFIG)
        for _ in range(4):
            put(store, 11)
            late = engine.attempts
            engine.attempts = []
            assert follower.step()
            follower.make_durable()
            before = stores.indexes(path)
            engine.attempts, new = late, engine.attempts
            for name, error in engine.release():
                assert isinstance(error, StaleEpochError), name
                names.add(name)
            assert stores.indexes(path) == before
            engine.attempts = new
        while follower.step():
            pass
        follower.close()
        for name, error in engine.release():
            assert isinstance(error, StaleEpochError), name
    assert names == ({"_grow_task"} if ranges == "short" else {"decode_and_sink", "range_task"})
    assert_sound(path, CONFIG)


class AfterUnits:
    """Lets all attempts go on when the ext units are built, and keeps what came of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = LateAttempts(monkeypatch, self.after)
        self.found: list[tuple[str, ReputError | None]] = []

    def after(self, name: str) -> None:
        """See `LateAttempts`."""
        if name == "build_units":
            self.found += self.engine.release()

    def assert_refused(self, *names: str) -> None:
        """These tasks' attempts were there, and all that write entries were refused."""
        assert {name for name, _ in self.found} >= set(names)
        for name, error in self.found:
            # Another attempt to build the units writes the same.
            assert isinstance(error, StaleEpochError) or name == "build_units", name


@pytest.mark.golden
@pytest.mark.parametrize("is_out_of_order", [False, True], ids=["consecutive", "out of order"])
def test_a_late_decode_attempt_behind_ext_units(
    is_out_of_order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that still writes entries when a rebuild has built the ext units is refused: no address is wiped."""
    store = golden.unpack("ext", tmp_path)
    late = AfterUnits(monkeypatch)
    if is_out_of_order:
        out_of_order_of = SplitQueues.out_of_order

        def one_more(table: SplitQueues) -> list[QueueKey]:
            table.mark_out_of_order(table.keys[:1])
            return out_of_order_of(table)

        monkeypatch.setattr(SplitQueues, "out_of_order", one_more)
    rebuild_store(store, late.engine, GOLDEN_CONFIG, RebuildOptions(split_mb=0.2))
    late.assert_refused("decode_and_sink", *(["_reorder_task"] if is_out_of_order else []))
    assert_sound(store, GOLDEN_CONFIG)


@pytest.mark.parametrize("ranges", ["short", "long"])
def test_a_late_attempt_behind_ext_units_of_a_step(
    ranges: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where the live queues go on: a step's entries keep the addresses that they were given."""
    if ranges == "long":
        growing.many_splits(monkeypatch, 3000, above_bytes=1000)
    path, late = tmp_path / "store", AfterUnits(monkeypatch)
    with reput.MessageStore.open(path, EXT_CONFIG, create=True) as store:
        follower = Follow(path, late.engine, EXT_CONFIG)
        for _ in range(3):
            put(store, 40)
            assert follower.step()
        follower.close()
    late.assert_refused("_grow_task" if ranges == "short" else "range_task")
    assert_sound(path, EXT_CONFIG)


@pytest.mark.golden
@pytest.mark.parametrize("only", [None, "index"])
def test_a_late_decode_attempt_that_dies_at_its_parts(
    only: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that a later stage will read stays whole while another attempt leaves it again, and dies at that."""
    store = golden.unpack("basic", tmp_path)
    wanted = stores.indexes(store)
    died: list[tuple[str, ReputError | None]] = []

    def after(name: str) -> None:
        if name == "decode_and_sink":
            died.extend(engine.release())

    engine = LateAttempts(monkeypatch, after)
    pwrite, calls = fs.pwrite, itertools.count()

    def dying(descriptor: int, data: bytes | memoryview, offset: int) -> None:
        if engine.is_late() and next(calls) % 4 == 3:
            raise OSError(errno.EIO, "no more")
        pwrite(descriptor, data, offset)

    monkeypatch.setattr(fs, "pwrite", dying)
    rebuild_store(store, engine, GOLDEN_CONFIG, RebuildOptions(split_mb=0.1, only=only))
    assert len([error for _, error in died if error is not None and "no more" in str(error)]) > 2
    assert_sound(store, GOLDEN_CONFIG)
    found = stores.indexes(store)
    assert {name for name in found if found[name] != wanted[name]} <= {"checkpoint"}
