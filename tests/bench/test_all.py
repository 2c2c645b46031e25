"""The run of all benches takes its ratios from lines that the parts have."""

from __future__ import annotations

import json

import all as all_benches
import pytest
from workload import REPOSITORY


@pytest.mark.parametrize("name", [*all_benches.RATIOS.values(), *all_benches.RATES.values()])
def test_a_ratio_is_one_of_a_part(name: str) -> None:
    """The part's committed results have the line; a renamed line would make the ratio NaN without a word."""
    part, key = name.split()
    (results,) = (REPOSITORY / "bench" / "results").glob(f"{part}-*c.json")
    assert key in json.loads(results.read_text())["lines"]


def test_parts_have_scripts() -> None:
    """Each part is a bench of its own."""
    assert all((REPOSITORY / "bench" / f"{part}.py").is_file() for part in all_benches.PARTS)
