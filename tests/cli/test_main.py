"""The command line as a whole: exit codes, and errors in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import golden, stores

FULL = Path("/dev/full")


def reput(*arguments: object, stdout: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    command = [sys.executable, "-m", "reput", *map(str, arguments)]
    return subprocess.run(command, check=False, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("verb", ["info", "dump"])
def test_full_disk_under_stdout(verb: str) -> None:
    """Output that cannot be written is one error line and exit code 2, no stack trace."""
    arguments = [verb, "log"] if verb == "dump" else [verb]
    out = os.open(FULL, os.O_WRONLY)
    try:
        done = reput(*arguments, golden.shared("basic"), stdout=out)
    finally:
        os.close(out)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: cannot write the output")


def test_misuse_is_one_line() -> None:
    """A wrong option is told in reput's own style, with the usage, and exit code 2."""
    done = reput("rebuild", "--nonsense")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ")


def test_config_that_is_none(tmp_path: Path) -> None:
    """A broker.conf with a misspelt setting, or another store's, is used with a warning that says so."""
    store = golden.unpack("basic", tmp_path)
    path = tmp_path / "broker.conf"
    path.write_text("mapedFileSizeCommitLog=1\nstorePathRootDir=/elsewhere\n")
    done = reput("info", store, "--config", path)
    assert done.returncode == 0
    assert "mappedFileSizeCommitLog is" in done.stderr
    assert "storePathRootDir=/elsewhere" in done.stderr
    path.write_bytes(b"\x7fELF\0\0")
    assert reput("info", store, "--config", path).returncode == 2


def test_damaged_log_is_no_case_for_a_rebuild(tmp_path: Path) -> None:
    """Where the log itself is damaged, check says what helps instead of advising a rebuild that would refuse."""
    store = golden.unpack("basic", tmp_path)
    path = store / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[4000:6000] = bytes(2000)
    path.write_bytes(data)
    done = reput("check", store, "--engine", "loop", "-q")
    assert done.returncode == 1
    assert "the log itself is damaged" in done.stdout
    assert stores.leftovers(store) == []
