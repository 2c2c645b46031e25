"""The benches are scripts that import one another by their bare names."""

from __future__ import annotations

import sys
from pathlib import Path

# At the end: tests have folders of the same names.
sys.path.append(str(Path(__file__).parents[2] / "bench"))
