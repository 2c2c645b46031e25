"""A rebuild that is killed at any call leaves the old indexes or the new ones, and the next run cleans up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig
from reput.formats import paths
from reput.formats.own import files as own
from reput.store.disk.layout import find_store
from reput.store.owner import swap
from support import stores
from support.determined import determined
from support.faults import DONE, KILLED
from support.search import calls

if TYPE_CHECKING:
    from faults.conftest import Victim
    from support.faults import FaultyRebuilds

FUNCTIONS = {
    "rename": ("kill", "killed after"),
    "pwrite": ("torn",),
    "write_whole": ("kill",),
    "sync_tree": ("kill",),
    "sync_path": ("kill",),
    "remove_tree": ("kill",),
    "remove_file": ("kill", "killed after"),
    "make_dirs": ("killed after",),
    "open_sized": ("killed after",),
    "save_array": ("kill",),
}
MOST_CALLS = 300

SPARK_RUN = """
import os, signal, sys
import reput
from reput.config import StoreConfig
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.spark.session import start_context

class Killer(ProgressListener):
    def stage(self, name, total_bytes):
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGKILL)

config = StoreConfig(
    mapped_file_size_consume_queue=200, mapper_file_size_batch_consume_queue=92, max_hash_slot_num=16, max_index_num=8
)
reput.rebuild(sys.argv[1], spark=start_context("local[2]"), config=config, listener=Killer(), split_mb=0.0005)
"""


def open_next(victim: Victim, how: int) -> None:
    """Do what the next opener does: finish a swap that is under way, whatever else it then wants."""
    layout = find_store(victim.store, StoreConfig())
    if how == 0 and (layout.reput / own.LOCK_NAME).exists():
        swap.finish_swap(layout, lambda: None)
        assert stores.indexes(victim.store) in (victim.old, victim.new)
    with determined():
        stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.new
    assert stores.leftovers(victim.store) == []


def assert_whole(victim: Victim) -> bool:
    """The live indexes are the old ones or the new ones, unless the intent of a swap says otherwise."""
    pending = (victim.store / paths.REPUT / own.INTENT_NAME).exists()
    if not pending:
        assert stores.indexes(victim.store) in (victim.old, victim.new)
    return pending


@pytest.mark.parametrize(
    ("function", "what"), [(function, what) for function in FUNCTIONS for what in FUNCTIONS[function]]
)
def test_killed_at_every_call(
    function: str, what: str, original: Victim, tmp_path: Path, faulty: FaultyRebuilds
) -> None:
    """Killed at any k-th call: old or new, never a mix, and nothing is left over after the next run."""
    for k in calls(MOST_CALLS):
        victim = original._replace(store=stores.copy(original.store, tmp_path / f"{k}"))
        outcome = faulty.run(victim.store, function, at=k, what=what, split_mb=0.0015)
        if outcome.how == DONE:
            assert k > 1, f"{function} is never called"
            assert stores.indexes(victim.store) == victim.new
            return
        assert outcome.how == KILLED, outcome
        assert_whole(victim)
        open_next(victim, k % 2)
        shutil.rmtree(victim.store)
    pytest.fail(f"more than {MOST_CALLS} calls of {function}")


def test_killed_while_finishing(original: Victim, tmp_path: Path, faulty: FaultyRebuilds) -> None:
    """Killed in a swap, and who finishes it is killed, too, at any of its renames: still never a mix."""
    tried = 0
    for first in range(1, MOST_CALLS):
        for second in range(1, MOST_CALLS):
            victim = original._replace(store=stores.copy(original.store, tmp_path / f"{first}-{second}"))
            if faulty.run(victim.store, "rename", at=first).how == DONE:
                assert tried > 20
                return
            in_swap = assert_whole(victim)
            again = faulty.run(victim.store, "rename", at=second, finish=True)
            assert_whole(victim)
            open_next(victim, second % 2)
            tried += in_swap
            if not in_swap:
                # There is nothing to finish.
                break
            if again.how == DONE:
                # Its next rename would be one of a rebuild that has finished the swap before.
                assert_killed_after_the_swap(original, tmp_path / f"{first}", faulty, first, second)
                break


def assert_killed_after_the_swap(
    original: Victim, folder: Path, faulty: FaultyRebuilds, first: int, second: int
) -> None:
    """Killed in a swap, and the rebuild that has finished it at its own first rename: never a mix either."""
    victim = original._replace(store=stores.copy(original.store, folder))
    assert faulty.run(victim.store, "rename", at=first).how == KILLED
    assert faulty.run(victim.store, "rename", at=second).how == KILLED
    assert_whole(victim)
    open_next(victim, 1)


def test_killed_with_some_topics(original: Victim, tmp_path: Path, faulty: FaultyRebuilds) -> None:
    """A swap of single topics is finished all the same, and leaves the other topics alone."""
    for k in range(1, 30):
        store = stores.copy(original.store, tmp_path / f"{k}")
        outcome = faulty.run(store, "rename", at=k, topics=["a", "b"], only="queue")
        stores.rebuild(store, topics=["a", "b"], only="queue")
        found = stores.indexes(store)
        kept = {name: data for name, data in original.new.items() if name[:2] in ("a/", "b/")}
        kept |= {name: data for name, data in original.old.items() if name.startswith("inner/")}
        assert {name: data for name, data in found.items() if "/" in name} == kept
        assert {n: d for n, d in found.items() if n.startswith("index")} == {
            n: d for n, d in original.old.items() if n.startswith("index")
        }
        assert stores.leftovers(store) == []
        if outcome.how == DONE:
            assert k > 3
            return


def test_error_is_no_reason_to_leave_anything(victim: Victim) -> None:
    """An exception that nobody expects, at any stage, leaves the old indexes and no staging folder."""

    class Failing(reput.pipeline.spark.listener.ProgressListener):  # type: ignore[name-defined]
        def __init__(self, name: str) -> None:
            self.name = name

        def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - as the listener has it
            if name == self.name:
                raise KeyboardInterrupt

    for stage in ("decode", "merge", "reorder", "pre-blank", "index", "publish"):
        with pytest.raises(KeyboardInterrupt):
            stores.rebuild(victim.store, listener=Failing(stage))
        assert stores.indexes(victim.store) == victim.old
        assert stores.leftovers(victim.store) == []


@pytest.mark.spark
@pytest.mark.parametrize("stage", ["index"])
def test_killed_spark_rebuild(stage: str, victim: Victim) -> None:
    """After kill -9 of a Spark rebuild the old indexes stay, and the next run builds the new ones and cleans up."""
    from reput.pipeline.spark import jvm_archive

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    environment = {**os.environ, "PYTHONPATH": str(Path(reput.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", SPARK_RUN, victim.store, stage], env=environment, check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    assert stores.indexes(victim.store) == victim.old
    assert [name.split("-")[0] for name in stores.leftovers(victim.store)] == ["staging"]
    open_next(victim, 1)
