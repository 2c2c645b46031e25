"""A fixture that tests of an open store share."""

from __future__ import annotations

import pytest


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time at which messages are stored (ms), as a list of one number to be set."""
    now = [1_700_000_000_000]
    monkeypatch.setattr("reput.log.append.append._time_ns", lambda: now[0] * 1_000_000)
    return now
