"""`check` as the teardown of tests: a store that a test has written must be sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import reput

if TYPE_CHECKING:
    from pathlib import Path

    from reput.config import StoreConfig


def assert_sound(store: Path, config: StoreConfig | Path | None = None) -> None:
    """Fail with the findings when the indexes of `store` are not what its log says."""
    report = reput.check(store, spark=False, config=config)
    assert report.sound, "\n".join(f"{one.severity} {one.rule} {one.file}: {one.detail}" for one in report.findings)
