"""The table of long runs in docs/reliability.md: each target of `make nightly` has a row with its date and commit."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from support import nightly
from support.nightly import PAGE, ROOT, STEPS, Run


def a_run(*, passed: bool = True) -> Run:
    """A run of two minutes."""
    return Run(passed, "=== 5 seeds | 0 broken ===", 120.0, datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "`abc`")


def test_a_run_replaces_its_row_alone() -> None:
    """A run writes its last line, time, date and commit into its row; every other row stays as it was."""
    before = PAGE.read_text("utf-8")
    after = nightly.rewrite(before, {"simulate": a_run()})
    old, new = nightly.rows_of(before), nightly.rows_of(after)
    assert list(new) == list(old) == list(STEPS)
    assert new.pop("simulate") == "| `make simulate` | 5 seeds / 0 broken | 2 min | 2026-01-02 03:04 | `abc` |\n"
    del old["simulate"]
    assert new == old
    assert nightly.rewrite(after, {}) == after


def test_a_failed_run_says_so() -> None:
    """A run that failed has no row that looks like one that passed."""
    assert "**failed**: 5 seeds" in a_run(passed=False).row("simulate")


def test_each_step_is_a_target() -> None:
    """The Makefile has each step, and the page its row."""
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(STEPS) <= set(targets)
    assert nightly.rewrite(PAGE.read_text("utf-8"), {}) == PAGE.read_text("utf-8")


def test_a_given_variable_takes_the_place_of_a_steps_own() -> None:
    """`make nightly STEP=soak MINUTES=1` runs one minute: the step's own value does not win."""
    own = ("MINUTES=30", "SEED=7")
    assert nightly.unless_given(own, "s -- STEP=soak MINUTES=1") == ["SEED=7"]
    assert nightly.unless_given(own, "s") == list(own)
