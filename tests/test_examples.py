"""The examples run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.spark
def test_from_a_broker_to_a_plot(tmp_path: Path) -> None:
    """The ten minutes' example makes its store, its tables and its picture."""
    from reput.pipeline import jvm_archive

    if jvm_archive.java_command() is None:
        pytest.skip("no Java for Spark")
    pytest.importorskip("matplotlib")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "TMPDIR": str(tmp_path),
        "MPLCONFIGDIR": str(tmp_path),
    }
    command = [sys.executable, str(ROOT / "examples" / "broker_to_plot.py")]
    run = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "payments" in run.stdout
    assert (tmp_path / "broker_to_plot.png").stat().st_size > 10_000
