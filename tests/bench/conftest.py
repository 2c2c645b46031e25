"""The benches are scripts that import one another by their bare names.

Their folder is on the path only while they are imported here: it has modules of the names of folders of tests.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

BENCH = str(Path(__file__).parents[2] / "bench")

sys.path.append(BENCH)
try:
    for name in ("all", "asked", "lines", "scale_report", "topics_report", "workload"):
        import_module(name)
finally:
    sys.path.remove(BENCH)
