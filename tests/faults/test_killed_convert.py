"""A conversion that is killed at any call leaves the old queues or the new ones, and the next run cleans up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import reput
from reput.formats import paths
from reput.formats.own import files as own
from support import databases, stores
from support.faults import DONE, KILLED
from support.records import LogBuilder
from support.search import calls, takes_long

if TYPE_CHECKING:
    from support.faults import FaultyRebuilds

TARGET = "both"
SPLIT_MB = 0.0005
FUNCTIONS = {
    "rename": ("kill", "killed after"),
    "pwrite": ("torn",),
    "append": ("kill",),
    "write_whole": ("kill", "killed after"),
    "sync_tree": ("kill",),
    "sync_path": ("kill",),
    "remove_tree": ("kill",),
    "remove_file": ("killed after",),
    "make_dirs": ("killed after",),
    "open_sized": ("killed after",),
    "save_array": ("kill",),
}
MOST_CALLS = 300


class Victim(NamedTuple):
    """A store with queue files, and what a conversion that nobody disturbs makes of it."""

    store: Path
    old: dict[str, bytes]
    new: dict[str, Any]


def content(store: Path) -> dict[str, Any]:
    """All that the conversion makes: bytes of queue files, and keys and values."""
    return stores.indexes(store) | databases.content(store)


SPARK_RUN = """
import os, signal, sys
import reput
from reput.config import StoreConfig
from reput.pipeline.spark.listener import ProgressListener
from reput.pipeline.spark.session import start_context

class Killer(ProgressListener):
    def stage(self, name, total_bytes):
        if name == "ingest":
            os.kill(os.getpid(), signal.SIGKILL)

config = StoreConfig(
    mapped_file_size_consume_queue=200, mapper_file_size_batch_consume_queue=92, max_hash_slot_num=16, max_index_num=8
)
spark = start_context("local[2]")
reput.convert(sys.argv[1], to="both", spark=spark, config=config, listener=Killer(), split_mb=0.0005)
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Victim:
    """Several splits; one queue is not consecutive, one starts above 0."""
    folder = tmp_path_factory.mktemp("convert")
    log = LogBuilder(2048)
    for number in range(6):
        log.message("ab"[number % 2], keys=f"k{number}", tags="t")
    log.message("a", queue_offset=1)
    log.message("c", queue_offset=3)
    store = stores.with_log(folder, log)
    stores.rebuild(store)
    old = stores.indexes(store)
    copy = stores.copy(store, folder / "new")
    assert convert(copy).built == ["queue"]
    return Victim(store, old, content(copy))


def convert(store: Path, source: str = "log") -> reput.pipeline.build.rebuild_report.RebuildReport:  # type: ignore[name-defined]
    """Convert in this process."""
    return reput.convert(
        store,
        to=TARGET,
        source=source,
        spark=False,
        config=stores.SMALL,
        split_mb=SPLIT_MB,  # type: ignore[arg-type]
    )


def is_finished(store: Path) -> bool:
    """Return true if the store has the new queues, or has them as soon as a swap under way is finished."""
    return (store / paths.REPUT / own.INTENT_NAME).exists() or (store / paths.CONSUME_QUEUE / "CURRENT").exists()


def run_again(store: Path, source: str, original: Victim) -> None:
    """Convert after a kill: from the start, or only to the end of a swap that had begun; what was left is named."""
    finished = is_finished(store)
    folders = [name for name in stores.leftovers(store) if name.startswith(("staging-", "aside-"))]
    if not finished:
        assert stores.indexes(store) == original.old
    report = convert(store, source)
    notes = " ".join(report.notes)
    assert report.built == ([] if finished else ["queue"])
    assert "finished that swap" in notes or all(name in notes for name in folders)
    assert ("nothing to do" in notes) == finished
    assert content(store) == original.new
    assert stores.leftovers(store) == []


# A rebuild makes the others as a conversion does, and `test_killed` has them.
_BOUNDED = {"rename", "pwrite", "write_whole", "sync_path"}
CALLS = [
    pytest.param("log", function, what, marks=() if function in _BOUNDED else takes_long)
    for function in FUNCTIONS
    for what in FUNCTIONS[function]
]
CALLS += [
    pytest.param("queues", function, "kill")
    for function in ("rename", "pwrite", "write_whole", "sync_path", "save_array")
]


@pytest.mark.parametrize(("source", "function", "what"), CALLS)
def test_killed_at_every_call(
    function: str, what: str, source: str, original: Victim, tmp_path: Path, faulty: FaultyRebuilds
) -> None:
    """Killed at any k-th call, and run again: the result of an undisturbed run, and nothing left over."""
    for k in calls(MOST_CALLS):
        store = stores.copy(original.store, tmp_path / f"{k}")
        outcome = faulty.run(store, function, at=k, what=what, to=TARGET, source=source, split_mb=SPLIT_MB)
        if outcome.how == DONE:
            assert k > 1, f"{function} is never called"
            assert content(store) == original.new
            return
        assert outcome.how == KILLED, outcome
        run_again(store, source, original)
        shutil.rmtree(store)
    pytest.fail(f"more than {MOST_CALLS} calls of {function}")


@pytest.mark.spark
def test_killed_on_spark(original: Victim, tmp_path: Path) -> None:
    """After kill -9 of a Spark conversion the old queues are live, and another one makes the new ones."""
    from reput.pipeline.spark import jvm_archive

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    store = stores.copy(original.store, tmp_path / "store")
    environment = {**os.environ, "PYTHONPATH": str(Path(reput.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", SPARK_RUN, store], env=environment, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    assert not is_finished(store)
    run_again(store, "log", original)
