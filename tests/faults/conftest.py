"""The process that runs rebuilds with faults, and a store whose old and new indexes differ everywhere."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from reput.formats.log.record import FLAG_INNER_BATCH
from support import stores
from support.faults import FaultyRebuilds
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator


class Victim(NamedTuple):
    """A store with old indexes, and how its indexes look with the old ones and after a rebuild."""

    store: Path
    old: dict[str, bytes]
    new: dict[str, bytes]


def batch(log: LogBuilder, base: int, messages: int) -> None:
    """A batch in one record."""
    more = {"INNER_NUM": str(messages), "INNER_BASE": str(base)}
    log.message("inner", sys_flag=FLAG_INNER_BATCH, more=more, queue_offset=base)


@pytest.fixture(scope="session")
def faulty() -> Iterator[FaultyRebuilds]:
    """The process that runs the jobs."""
    with FaultyRebuilds() as process:
        yield process


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Victim:
    """A store whose log has grown since its indexes were built: other topics, queue files and IndexFiles.

    One queue is not consecutive, one starts above 0, one is of batches: so every stage of a rebuild has work.
    """
    folder = tmp_path_factory.mktemp("victim")
    log = LogBuilder(4096)
    for number in range(3):
        log.message("a", keys=f"k{number}", tags="t")
    batch(log, 0, 3)
    store = stores.with_log(folder, log)
    stores.rebuild(store)
    old = stores.indexes(store)
    for number in range(5):
        log.message("ab"[number % 2], queue_id=number % 2, keys=f"k{number}", tags="t")
    log.message("a", queue_offset=2)
    log.message("c", queue_offset=3)
    for number in range(3):
        batch(log, 3 + number, 1)
    stores.with_log(folder, log)
    copy = stores.copy(store, folder / "new")
    stores.rebuild(copy)
    new = stores.indexes(copy)
    assert all(old[name] != new[name] for name in old)
    return Victim(store, old, new)


@pytest.fixture
def victim(original: Victim, tmp_path: Path) -> Victim:
    """A copy of that store to be spoiled."""
    return original._replace(store=stores.copy(original.store, tmp_path / "store"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="reput-open-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
