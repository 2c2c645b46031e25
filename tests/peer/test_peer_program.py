"""The program that drives RocketMQ says what RocketMQ said when the golden stores were made."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from peer import peer as program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.peer


@pytest.mark.golden
@pytest.mark.parametrize("name", program.GOLDEN_KINDS)
def test_golden_answers_are_given_again(
    name: str, peer: ModuleType, unpack: Callable[[str], Path], golden_answers: Callable[[str], Path]
) -> None:
    """RocketMQ answers every golden question today as it did when the store was made, line for line."""
    with gzip.open(golden_answers(name), "rt", encoding="utf-8") as lines:
        expected = [json.loads(line) for line in lines]

    answers = peer.run("ask", unpack(name), golden_answers(name), *peer.GOLDEN_SETTINGS, *peer.GOLDEN_KINDS[name])

    assert expected == answers


@pytest.mark.golden
def test_rebuild_gives_the_queues_that_were_lost(peer: ModuleType, unpack: Callable[[str], Path]) -> None:
    """RocketMQ's own rebuild starts at the first log file: every queue comes back as it was."""
    store = unpack("basic")
    expected = queue_files(store)
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")

    report = peer.run("rebuild", store, *peer.GOLDEN_SETTINGS)

    assert expected == queue_files(store)
    assert report["crc"] is True


def test_written_store_holds_what_was_asked_for(peer: ModuleType, tmp_path: Path) -> None:
    """`write` spreads N records of 296 bytes over all the queues that it was asked for."""
    store = tmp_path / "store"

    written = peer.run("write", store, 1000, "--queues", 16, *peer.GOLDEN_SETTINGS)
    log, *queues = peer.run("dump", store, *peer.GOLDEN_SETTINGS)

    entries: list[list[Any]] = [entry for queue in queues for entry in queue["entries"]]
    assert (written["messages"], written["log_bytes"]) == (1000, 1000 * 296)
    assert log["log"] == [0, 1000 * 296]
    assert (len(queues), len(entries)) == (16, 1000)
    assert {296} == {size for _, _, size, _, _ in entries}


def queue_files(store: Path) -> dict[str, bytes]:
    """The bytes of every ConsumeQueue file."""
    paths = [path for path in (store / "consumequeue").rglob("*") if path.is_file()]
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in paths}
