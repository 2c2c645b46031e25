"""Jobs in several threads of one process, each on a store of its own, keep out of each other's way."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import parse_properties
from reput.pipeline.split import tasks
from support import golden, stores

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = reput.StoreConfig.from_properties(parse_properties(golden.CONFIG))


def rebuild(path: Path) -> list[bytes]:
    """The indexes that a rebuild makes of a store; IndexFiles have names by the time."""
    reput.rebuild(path, spark=False, config=CONFIG, split_mb=0.1)
    return sorted(stores.indexes(path).values())


@pytest.mark.golden
def test_a_rebuild_beside_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that rebuilds another store between decoding and sinking a split has columns of its own."""
    first, second = (golden.unpack(name, tmp_path / "expected") for name in ("basic", "crash"))
    expected = rebuild(first), rebuild(second)
    first, second = (golden.unpack(name, tmp_path / "found") for name in ("basic", "crash"))
    found: list[list[bytes]] = []
    sink, others = tasks.sink_split, iter([Thread(target=lambda: found.append(rebuild(second)))])

    def sink_later(*arguments: Any) -> Any:
        for other in others:
            other.start()
            other.join()
        return sink(*arguments)

    monkeypatch.setattr(tasks, "sink_split", sink_later)
    assert rebuild(first) == expected[0]
    assert found == [expected[1]]
