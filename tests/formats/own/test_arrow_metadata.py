"""The metadata of Arrow batches: a compression is seen, and metadata that lead astray are an error."""

from __future__ import annotations

import contextlib
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.own.arrow_metadata import is_compressed


def metadata(compression: str | None) -> bytes:
    """The metadata of a batch."""
    sink, batch = pa.BufferOutputStream(), pa.record_batch({"body": ["one", "two"], "flag": [1, None]})
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    *_, message = pa.ipc.MessageReader.open_stream(sink.getvalue())
    assert message.type == "record batch"
    return message.metadata.to_pybytes()


@pytest.mark.parametrize(("compression", "is_there"), [(None, False), ("zstd", True), ("lz4", True)])
def test_a_compression_is_seen(compression: str | None, is_there: bool) -> None:
    """Arrow's own batches say whether they are compressed; those that are cut say nothing."""
    data = metadata(compression)
    assert is_compressed(memoryview(data)) is is_there
    with pytest.raises(ValueError, match="the metadata of a batch are cut"):
        is_compressed(memoryview(data)[:3])


def test_metadata_without_a_batch() -> None:
    """A message without a header has no compression; a table that lies before the metadata is an error."""
    short_table = struct.pack("<IHHi", 8, 4, 4, 4)
    assert not is_compressed(memoryview(short_table))
    no_header = struct.pack("<IHHHHHHi", 16, 10, 4, 0, 0, 0, 0, 12)
    assert not is_compressed(memoryview(no_header))
    with pytest.raises(ValueError, match="lies before them"):
        is_compressed(memoryview(struct.pack("<Ii", 4, 100)))


@given(st.integers(0, 300), st.binary(max_size=8))
def test_any_bytes_are_an_answer_or_an_error(at: int, wrong: bytes) -> None:
    """Bytes that are wrong raise ValueError, and nothing else."""
    data = bytearray(metadata("zstd"))
    data[at : at + len(wrong)] = wrong
    with contextlib.suppress(ValueError):
        is_compressed(memoryview(bytes(data)))
