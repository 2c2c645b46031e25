"""Golden tests hold for any golden store: some of them pass on one that RocketMQ writes here and now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peer import golden_stores
from support import golden

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


def test_golden_tests_hold_for_other_stores(peer: ModuleType, tmp_path: Path) -> None:
    """On a store of other messages golden tests pass, and tests that are not golden use the repository's stores."""
    assert list(golden_stores.make(tmp_path, SEED, COUNT, ["basic"])) == ["basic"]
    assert {path.name for path in tmp_path.iterdir()} == {"basic.tar.gz", "basic.jsonl.gz"}

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *HOLD, NOT_GOLDEN]
    environment = {**os.environ, golden.SWITCH: str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert " skipped" not in done.stdout


def test_no_golden_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the store is an error that names the file and the switch."""
    monkeypatch.setenv(golden.SWITCH, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"basic\.tar\.gz: no golden store; REPUT_GOLDEN names"):
        golden.unpack("basic", tmp_path)
