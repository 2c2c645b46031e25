"""A system that refuses: a full disk, missing rights. A clear error, the old indexes whole, nothing left over."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reput.errors import NoSpaceError
from reput.formats import paths
from reput.formats.own import files as own
from support import stores
from support.disks import mounted
from support.faults import DONE, FAILED
from support.records import LogBuilder
from support.search import calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faults.conftest import Victim
    from support.faults import FaultyRebuilds

MOST_CALLS = 300
NOBODY = 65534


@pytest.mark.parametrize("function", ["pwrite", "open_sized", "save_array", "make_dirs", "write_whole"])
def test_full_disk_at_every_call(function: str, original: Victim, tmp_path: Path, faulty: FaultyRebuilds) -> None:
    """No space at any k-th call: NoSpaceError, old indexes (or all new ones), no leftovers."""
    for k in calls(MOST_CALLS):
        victim = original._replace(store=stores.copy(original.store, tmp_path / f"{k}"))
        outcome = faulty.run(victim.store, function, at=k, what="ENOSPC", split_mb=0.0015)
        if outcome.how == DONE:
            assert k > 1, f"{function} is never called"
            return
        check_refused(victim, outcome.error)
    pytest.fail(f"more than {MOST_CALLS} calls of {function}")


def check_refused(victim: Victim, error: str) -> None:
    """The error has its own class, the indexes are whole, nothing is left; the next run succeeds."""
    assert error == "NoSpaceError"
    assert stores.indexes(victim.store) in (victim.old, victim.new)
    assert stores.leftovers(victim.store) == []
    stores.rebuild(victim.store)
    assert stores.indexes(victim.store) == victim.new
    assert stores.leftovers(victim.store) == []
    shutil.rmtree(victim.store)


@pytest.mark.parametrize("what", ["EIO", "EACCES", "EXDEV"])
def test_refused_rename(what: str, original: Victim, tmp_path: Path, faulty: FaultyRebuilds) -> None:
    """A rename that the system refuses, any of them, puts the old indexes back: an error never leaves a mix."""
    for k in range(1, 30):
        victim = original._replace(store=stores.copy(original.store, tmp_path / f"{k}"))
        outcome = faulty.run(victim.store, "rename", at=k, what=what)
        if outcome.how == DONE:
            assert k > 5
            return
        assert outcome.error in ("ReputError", "AccessError")
        # The last rename is not the rebuild's: the check that follows it makes queues of its own.
        assert stores.indexes(victim.store) in (victim.old, victim.new)
        assert stores.leftovers(victim.store) == []
        stores.rebuild(victim.store)
        assert stores.indexes(victim.store) == victim.new


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; skips where none can be mounted."""
    with mounted(tmp_path / "disk", "256k") as folder:
        yield folder


def test_truly_full_disk(small_disk: Path) -> None:
    """A disk that fills up while queue files and IndexFiles are written is an error, never a signal or a hole."""
    log = LogBuilder(1 << 15)
    for number in range(20):
        log.message(f"t{number % 10}", keys=f"k{number}")
    store = stores.with_log(small_disk, log)
    stores.rebuild(store)
    before = stores.digest(store)
    filler = small_disk / "filler"
    room = os.statvfs(small_disk).f_bavail * 4096
    refused = 0
    for left in range(100):
        filler.write_bytes(bytes(max(room - left * 4096, 0)))
        try:
            stores.rebuild(store)
        except NoSpaceError:
            assert stores.digest(store) == before
            assert stores.leftovers(store) == []
            refused += 1
        else:
            break
    assert 10 < refused < 100
    filler.unlink()
    stores.rebuild(store)


@pytest.mark.parametrize("what", ["EACCES", "EROFS", "EPERM"])
@pytest.mark.parametrize("function", ["open_sized", "pwrite", "sync_tree"])
def test_no_rights_at_a_call(what: str, function: str, victim: Victim, faulty: FaultyRebuilds) -> None:
    """Missing rights are an AccessError that says who has them, or what is read-only, and the old indexes stay."""
    outcome = faulty.run(victim.store, function, at=1, what=what)
    assert (outcome.how, outcome.error) == (FAILED, "AccessError")
    assert ("mounted read-only" if what == "EROFS" else "Run as its owner") in outcome.text
    assert stores.indexes(victim.store) == victim.old


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("hidden", [False, True])
def test_another_user(hidden: bool, original: Victim, open_folder: Path, faulty: FaultyRebuilds) -> None:
    """A user who may not write a store, or not even read its log, learns so; nothing is made."""
    store = stores.copy(original.store, open_folder / "store")
    shutil.rmtree(store / paths.REPUT)
    (store / paths.LOCK).unlink()
    if hidden:
        (store / paths.COMMIT_LOG).chmod(0o700)
    before = stores.digest(store)
    outcome = faulty.run(store, user=NOBODY)
    assert (outcome.how, outcome.error) == (FAILED, "AccessError")
    assert stores.digest(store) == before
    assert not (store / paths.REPUT).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_owner_and_modes_are_kept(original: Victim, open_folder: Path) -> None:
    """Root may rebuild a broker's store: what is new belongs to the store's owner, with the store's modes."""
    store = stores.copy(original.store, open_folder / "store")
    shutil.rmtree(store / paths.REPUT)
    for path in (store, *store.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    store.chmod(0o750)
    stores.rebuild(store, split_mb=0.0005)
    made = [*(store / paths.CONSUME_QUEUE).rglob("*"), *(store / paths.INDEX).rglob("*"), store / paths.CHECKPOINT]
    made += [store / paths.CONSUME_QUEUE, store / paths.INDEX, store / paths.REPUT]
    made += [*(store / paths.REPUT).iterdir(), store / paths.LOCK]
    for path in made:
        status = path.stat()
        assert (status.st_uid, status.st_gid) == (NOBODY, NOBODY), path
    assert {oct(path.stat().st_mode & 0o777) for path in made[:-6] if path.is_file()} == {"0o640"}
    assert {oct(path.stat().st_mode & 0o777) for path in made if path.is_dir()} == {"0o750"}
    assert (store / paths.REPUT / own.FRONTIER_NAME).exists()
