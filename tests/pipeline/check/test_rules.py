"""A report of `check` takes findings of known rules alone."""

from __future__ import annotations

import pytest

from reput.pipeline.check.report import CheckReport
from reput.pipeline.check.rules import DAMAGE, LEFTOVER, NOTE, RULES


def test_an_unknown_rule_is_refused() -> None:
    """A finding of a rule that the table does not have is an error of the program."""
    report = CheckReport("store")
    with pytest.raises(KeyError, match="queue-lost"):
        report.damage("queue-lost", "file", None, 1, "")


def test_an_unknown_severity_is_refused() -> None:
    """A finding with a severity that its rule does not have is an error of the program."""
    report = CheckReport("store")
    with pytest.raises(ValueError, match="queue-offsets is leftover"):
        report.remark(LEFTOVER, "queue-offsets", "file", 1, "")
    report.remark(NOTE, "queue-offsets", "file", 1, "")
    assert [one.severity for one in report.findings] == [NOTE]


@pytest.mark.parametrize("closed_cleanly", [True, False])
def test_what_a_crash_may_leave_has_both_severities(closed_cleanly: bool) -> None:
    """A rule that a crash may break is damage in a store that was closed cleanly, and else a leftover."""
    report = CheckReport("store", closed_cleanly=closed_cleanly)
    rules = [rule.name for rule in RULES.values() if rule.may_be_of_crash]
    for name in rules:
        report.after_crash(name, "file", None, 1, "")
    assert [(one.rule, one.severity) for one in report.findings] == [
        (name, DAMAGE if closed_cleanly else LEFTOVER) for name in rules
    ]
