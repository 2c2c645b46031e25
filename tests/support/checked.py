"""`check` as the teardown of tests: a store that a test has written must be sound."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import reput

if TYPE_CHECKING:
    from pathlib import Path

    from reput.config import StoreConfig


def assert_sound(store: Path, config: StoreConfig | Path | None = None) -> None:
    """Fail with the findings when the indexes of `store` are not what its log says."""
    report = reput.check(store, spark=False, config=config)
    assert report.sound, "\n".join(f"{one.severity} {one.rule} {one.file}: {one.detail}" for one in report.findings)


def rules_of(store: Path, config: StoreConfig | Path | None = None) -> dict[tuple[str, str], int]:
    """Return the findings of a check, counted by severity and rule."""
    found = Counter[tuple[str, str]]()
    for finding in reput.check(store, spark=False, config=config).findings:
        found[finding.severity, finding.rule] += finding.count
    return dict(found)
