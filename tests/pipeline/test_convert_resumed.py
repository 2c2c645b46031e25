"""A conversion that was killed goes on with what its finished tasks left, and comes to what an undisturbed one does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import reput
from support import databases, golden, stores
from support.checked import assert_sound
from support.faults import KILLED, FaultyRebuilds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.store.report import RebuildReport

pytestmark = pytest.mark.golden

SPLIT_MB = 0.25
SOURCES = ("log", "queues")
TARGETS = ("rocksdb", "both")


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyRebuilds]:
    """The process that runs the conversions that are killed."""
    with FaultyRebuilds() as process:
        yield process


def convert(store: Path, to: str, source: str, **options: Any) -> RebuildReport:
    """Convert in this process, with the golden settings."""
    options = {"split_mb": SPLIT_MB, "config": stores.GOLDEN, **options}
    return reput.convert(store, to=to, source=source, spark=False, **options)  # type: ignore[arg-type]


def content(store: Path, to: str) -> dict[str, Any]:
    """All that a conversion makes: bytes of queue files, and keys and values."""
    found = stores.indexes(store)
    return found if to == "file" else found | databases.content(store)


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_all_that_was_finished_is_taken_over(
    source: str, to: str, faulty: FaultyRebuilds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right in front of the swap, no task is done again, and the result is that of an undisturbed run."""
    store, other = golden.unpack("basic", tmp_path), golden.unpack("basic", tmp_path / "other")
    convert(other, to, source)
    killed = faulty.run(store, "sync_tree", at=1, what="kill", to=to, source=source, split_mb=SPLIT_MB)
    assert killed.how == KILLED
    report = convert(store, to, source)
    assert {one.stage for one in report.taken_over} >= {"tables"}
    assert content(store, to) == content(other, to)
    assert_sound(store, stores.GOLDEN)
    assert stores.leftovers(store) == []
