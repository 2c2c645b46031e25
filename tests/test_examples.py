"""The examples run unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import quick_jvm

ROOT = Path(__file__).parents[1]


def run_example(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run it in this folder, with its temporary files there, too."""
    pytest.importorskip("matplotlib")
    environment = {
        **os.environ,
        **quick_jvm(),
        "PYTHONPATH": str(ROOT / "src"),
        "TMPDIR": str(folder),
        "MPLCONFIGDIR": str(folder),
    }
    command = [sys.executable, str(ROOT / "examples" / "broker_to_plot.py"), *map(str, arguments)]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )


@pytest.mark.spark
def test_from_a_broker_to_a_plot(tmp_path: Path) -> None:
    """The ten minutes' example makes its store, its tables and its picture, and leaves the picture alone."""
    from reput.pipeline.spark import jvm_archive

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    run = run_example(tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "payments" in run.stdout
    assert (tmp_path / "broker_to_plot.png").stat().st_size > 10_000
    assert not list(tmp_path.glob("reput-example-*"))


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    """A path without a store is a line that says so, no stack trace, and nothing is left."""
    run = run_example(tmp_path, tmp_path / "nosuch")
    assert run.returncode == 1
    # matplotlib may have said before that it looks for fonts.
    assert run.stderr.splitlines()[-1].startswith(f"error: {tmp_path / 'nosuch'}")
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.glob("reput-example-*"))
