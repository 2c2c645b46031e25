"""The end of a `with` block: it closes what the block opened."""

from __future__ import annotations

import pytest

from reput.files.closing import Closing


class Counted(Closing):
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        """Count."""
        self.closed += 1


def test_a_block_closes_once() -> None:
    """The block has the thing itself, which is open within it and closed after it; an error passes."""
    with Counted() as one:
        assert one.closed == 0
    assert one.closed == 1
    with pytest.raises(ValueError, match="wrong"), Counted() as other:
        raise ValueError("wrong")
    assert other.closed == 1


def test_what_cannot_be_closed_is_refused() -> None:
    """A class without `close` cannot be made."""
    with pytest.raises(TypeError, match="close"):
        type("Open", (Closing,), {})()
