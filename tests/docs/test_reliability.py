"""The promises of docs/reliability.md name tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")


def test_each_promise_has_a_test() -> None:
    """Every test that the page names exists."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 10
    for file, name in named:
        text = (ROOT / "tests" / file).read_text("utf-8")
        assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), f"{file}::{name}"
