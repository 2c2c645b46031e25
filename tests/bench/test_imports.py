"""Each bench can begin: what it imports is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import importlib, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    importlib.import_module(path.stem)
"""


def test_a_bench_could_not_be_imported() -> None:
    """No test runs the benches, so a helper that moved was missed by the next long run only."""
    paths = {name: str(ROOT / name) for name in ("bench", "tests")}
    done = subprocess.run(
        [sys.executable, "-c", CODE, paths["bench"]],
        env={"PYTHONPATH": ":".join(paths.values())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
