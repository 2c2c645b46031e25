"""Folders in TMPDIR: they go with their process, or with the next one when that was killed; never while one is used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reput.files.scratch import ScratchFolder, sweep

if TYPE_CHECKING:
    import pytest

PREFIX = "reput-test-"
HOLDS_ONE = f"""
import os, sys, time
from reput.files.scratch import ScratchFolder
held = ScratchFolder({PREFIX!r})
(held.path / "db").mkdir()
print(held.path, flush=True)
time.sleep(60)
"""


def holder(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A process that holds a folder below this one, and the folder's name."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip()).name


def test_a_killed_one_is_swept(tmp_path: Path) -> None:
    """A folder stays while its process lives, and goes with the next look once that was killed."""
    process, name = holder(tmp_path)
    try:
        assert sweep(tmp_path, PREFIX) == []
        assert (tmp_path / name / "db").is_dir()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert sweep(tmp_path, "reput-other-") == []
    assert sweep(tmp_path, PREFIX) == [name]
    assert not (tmp_path / name).exists()


def test_what_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of this process, those without a lock, files and links stay."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = ScratchFolder(PREFIX)
    (tmp_path / f"{PREFIX}being-made").mkdir()
    (tmp_path / f"{PREFIX}file").write_bytes(b"")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").write_bytes(b"")
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    before = sorted(tmp_path.rglob("*"))
    assert sweep(tmp_path, PREFIX) == []
    assert sorted(tmp_path.rglob("*")) == before
    mine.remove()
    assert not mine.path.exists()


def test_a_block_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context gives the folder's path, and its end removes the folder with all that is in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ScratchFolder(PREFIX) as folder:
        (folder / "parts").mkdir()
        assert folder.parent == tmp_path
    assert not list(tmp_path.iterdir())
