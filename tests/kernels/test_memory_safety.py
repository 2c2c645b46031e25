"""The compiled kernels never touch a byte outside their arrays, whatever the bytes say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reput
from support.search import cases

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = Path(__file__).parent / "hostile_bytes.py"
CASES = cases(200, 50_000)


def run(note: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program of the guard pages in a process that may die."""
    source, tests = Path(reput.__file__).parent.parent, PROGRAM.parent.parent
    folders: Sequence[str] = (str(source), str(tests), os.environ.get("PYTHONPATH", ""))
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", str(PROGRAM), str(note), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_hostile_bytes_between_guard_pages(tmp_path: Path) -> None:
    """Over hostile bytes beside a guard page, into outputs that end at one, no kernel dies."""
    note = tmp_path / "note"
    done = run(note, "0", str(CASES))

    assert done.returncode == 0, f"case {note.read_text()}: exit {done.returncode}\n{done.stderr[-3000:]}"
    assert note.read_text() == "done"


@pytest.mark.parametrize("canary", ["canary-end", "canary-start"])
def test_the_guard_pages_guard(canary: str, tmp_path: Path) -> None:
    """A read past either end does kill the process: the test above can fail."""
    assert run(tmp_path / "note", canary).returncode == -signal.SIGSEGV
