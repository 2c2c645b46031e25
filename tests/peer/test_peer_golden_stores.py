"""Golden tests hold for any golden store: some of them pass on one that RocketMQ writes here and now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peer import golden_broker_stores, golden_stores
from peer import peer as program
from support import golden
from support.search import takes_long

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.peer

ROOT = Path(__file__).parents[2]
SEED, COUNT = 11, 3100
"""Other messages than the stores in tests/golden have, and more of them."""

HOLD = (
    "tests/store/test_golden_answers.py::test_answers[compiled-basic]",
    "tests/cli/test_info.py::test_text_has_the_main_things",
    "tests/cli/test_info.py::test_json_has_everything",
    "tests/cli/test_dump.py::test_log_ranges",
    "tests/cli/test_dump.py::test_queue_ranges",
    "tests/cli/test_dump.py::test_index_shows_headers_and_items",
    "tests/cli/test_dump.py::test_index_ranges",
    "tests/cli/test_dump.py::test_nothing_is_never_silent",
    "tests/cli/test_get.py::test_what_the_default_count_leaves_is_said",
    "tests/cli/test_offset.py::test_offsets_by_time",
    "tests/pipeline/check/test_check.py::test_a_damaged_body_is_found",
)
"""Quick golden tests that need the store basic alone, and expect counts, offsets and tables."""
NOT_GOLDEN = "tests/pipeline/convert/test_convert.py::test_nothing_to_compare"
"""Needs the store crash, which the other folder does not have."""

HOLD_55 = (
    "tests/store/test_golden_broker_answers.py::test_answers[NAME]",
    "tests/store/test_golden_broker_answers.py::test_answers_of_a_writer[NAME]",
    "tests/store/test_metadata_golden.py::test_offsets[by settings-NAME]",
    "tests/store/test_metadata_golden.py::test_topics[by files-NAME]",
    "tests/store/test_metadata_golden.py::test_groups[by files-NAME]",
    "tests/formats/log/test_body.py::test_bodies_are_what_the_java_client_compressed[NAME]",
    "tests/store/test_pending.py::test_all_timers_are_found_and_verified[NAME]",
    "tests/store/test_pending.py::test_all_halves_are_found_and_verified[NAME]",
)
"""Golden tests of one store of a whole broker."""


@takes_long
def test_golden_tests_hold_for_other_stores(peer: ModuleType, tmp_path: Path) -> None:
    """On a store of other messages golden tests pass, and tests that are not golden use the repository's stores."""
    assert list(golden_stores.make(tmp_path, SEED, COUNT, ["basic"])) == ["basic"]
    assert {path.name for path in tmp_path.iterdir()} == {"basic.tar.gz", "basic.jsonl.gz"}
    run_on(tmp_path, golden.SWITCH, *HOLD, NOT_GOLDEN)


@takes_long
@pytest.mark.parametrize("name", ["pending", "pending-rocksdb"])
def test_golden_tests_hold_for_other_stores_of_a_broker(name: str, tmp_path: Path) -> None:
    """On a store that a whole broker writes here and now golden tests pass."""
    reason = program.available("broker")
    if reason is not None:
        pytest.skip(reason)
    assert list(golden_broker_stores.make(tmp_path, SEED, golden_broker_stores.MESSAGES_MIN, [name])) == [name]
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.tar.gz", f"{name}.jsonl.gz"}
    run_on(tmp_path, golden.SWITCH_55, *(test.replace("NAME", name) for test in HOLD_55))


def run_on(folder: Path, switch: str, *tests: str) -> None:
    """Run tests on the stores of another folder; all of them pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, switch: str(folder)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " skipped" not in done.stdout


def test_no_golden_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the store is an error that names the file and the switch."""
    monkeypatch.setenv(golden.SWITCH, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"basic\.tar\.gz: no golden store; REPUT_GOLDEN names"):
        golden.unpack("basic", tmp_path)
