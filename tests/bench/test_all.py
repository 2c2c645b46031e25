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


def test_lines_of_one_name_have_names_of_their_own() -> None:
    """A part with a table for each broker has the same names in both; the page of all has one table for it."""
    line = {"name": "send_1_rate", "unit": "messages/s", "ours": [1.0], "peer": [2.0], "others": {}}
    found = {"lines": {"RocketMQ: send_1_rate": line, "reput serve: send_1_rate": line, "other": {**line, "name": "b"}}}
    names = [one.name for one in all_benches.lines_of(found).values()]
    assert names == ["RocketMQ: send_1_rate", "reput serve: send_1_rate", "b"]
