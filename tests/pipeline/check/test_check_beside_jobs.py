"""A check beside a job that changes the indexes never reports on a mix of old and new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.cli.main import run
from reput.files import locks
from reput.formats.own import files as own
from reput.pipeline.spark.listener import ProgressListener
from support import stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class At(ProgressListener):
    """Does something once, when a job comes to a stage."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.name = name
        self.action = action
        self.came = 0

    def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - a listener's arguments
        """Act at the stage."""
        if name == self.name:
            self.came += 1
            if self.came == 1:
                self.action()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A rebuilt store with one queue that is out of order, so that every stage has work."""
    log = LogBuilder(file_size=4096)
    for number in range(40):
        log.message(keys=f"k{number}", queue_offset=number if number < 30 else number + 2)
    store = stores.with_log(tmp_path, log)
    stores.rebuild(store)
    return store


@pytest.mark.parametrize("stage", ["decode", "merge", "reorder", "index", "publish"])
def test_no_check_while_a_rebuild_runs(store: Path, stage: str) -> None:
    """At every stage of a rebuild a check says that one is at work, and gives no report."""
    seen = []

    def look() -> None:
        with pytest.raises(reput.StoreLockedError, match=r"reput/lock: a rebuild .* is at work on this store") as found:
            reput.check(store, spark=False, config=stores.SMALL)
        seen.append(found.value.exit_code)

    reput.rebuild(store, spark=False, config=stores.SMALL, listener=At(stage, look))
    assert seen == [2]


@pytest.mark.parametrize("stage", ["decode", "reorder", "queues", "index"])
def test_no_report_when_a_rebuild_came_and_went(store: Path, stage: str) -> None:
    """A rebuild that began while a check looked is said, whatever the check has seen of it."""

    def rebuild() -> None:
        reput.rebuild(store, spark=False, config=stores.SMALL)

    with pytest.raises(reput.StoreLockedError, match=r"watermarks: .*\(epoch \d+ became \d+\)") as found:
        reput.check(store, spark=False, config=stores.SMALL, listener=At(stage, rebuild))
    assert found.value.exit_code == 2
    assert reput.check(store, spark=False, config=stores.SMALL).sound


def test_what_a_job_took_away_is_not_blamed_on_the_store(store: Path) -> None:
    """A check that meets files that a job has replaced names the job."""

    def hold() -> None:
        (store / "commitlog" / f"{0:020d}").unlink()
        marks = store / own_path(own.WATERMARKS_NAME)
        data = bytearray(marks.read_bytes())
        data[24] += 1
        marks.write_bytes(data)

    with pytest.raises(reput.StoreLockedError, match="began meanwhile") as found:
        reput.check(store, spark=False, config=stores.SMALL, listener=At("decode", hold))
    assert found.value.__cause__ is not None


def own_path(name: str) -> str:
    """One of reput's own files below a store."""
    return f"reput/{name}"


def test_exit_code_beside_a_job(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line ends with 2 and one clear line while another process holds the store."""
    with locks.owner_lock(store / own_path(own.LOCK_NAME)):
        assert run(["check", str(store), "--no-spark", "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Stop it, or wait until it has ended or caught up" in err


def test_a_store_that_reput_never_changed(tmp_path: Path) -> None:
    """Without reput's folder there is nothing to wait for, and none is made."""
    log = LogBuilder()
    log.message()
    store = stores.with_log(tmp_path, log)
    assert not reput.check(store, spark=False, config=stores.SMALL).sound
    assert not (store / "reput").exists()
