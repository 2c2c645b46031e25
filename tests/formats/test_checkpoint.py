"""The checkpoint file."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats import checkpoint as fmt
from reput.formats import paths
from reput.formats.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from support import golden

int64s = st.integers(-(1 << 63), (1 << 63) - 1)


def test_layout() -> None:
    """Six longs at the start of a page."""
    assert list(fmt.CHECKPOINT.offsets.values()) == [0, 8, 16, 24, 32, 40]
    assert encode_checkpoint(Checkpoint(1, 2, 3, 4, 5, 6)) == struct.pack(">6q", 1, 2, 3, 4, 5, 6) + bytes(4048)


@given(st.builds(Checkpoint, int64s, int64s, int64s, int64s, int64s, int64s))
def test_round_trip(checkpoint: Checkpoint) -> None:
    """A checkpoint decodes to what was encoded, and its file is a page."""
    data = encode_checkpoint(checkpoint)

    assert len(data) == fmt.CHECKPOINT_FILE_SIZE
    assert decode_checkpoint(data) == checkpoint


def test_a_short_file_is_an_error() -> None:
    """Fewer than 48 bytes raise struct.error."""
    with pytest.raises(struct.error):
        decode_checkpoint(bytes(47))


@pytest.mark.golden
@pytest.mark.parametrize("store", [*golden.STORES, "expired-rebuilt"])
def test_golden_checkpoints_encode_to_the_same_bytes(store: str) -> None:
    """Every checkpoint that RocketMQ wrote decodes and encodes to the same bytes."""
    data = (golden.shared(store) / paths.CHECKPOINT).read_bytes()

    assert encode_checkpoint(decode_checkpoint(data)) == data
    # Of a store that was open for a moment some are 0: RocketMQ notes each when it flushes.
    assert any(decode_checkpoint(data))
