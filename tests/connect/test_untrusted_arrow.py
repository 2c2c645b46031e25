"""Staged files that somebody else wrote: refused before they take memory, and before Arrow believes them."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import reput
from reput.connect.sink.ledger import BEGUN, Ledger, write_ledger
from reput.connect.sink.sink import commit_batch
from reput.connect.sink.untrusted_arrow import read_stream
from reput.errors import DamagedStoreError
from reput.files import fs

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = pa.array(["one", "two"])


def stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    """A batch as a stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def of(column: Any) -> bytes:
    """A stream with this column."""
    return stream(pa.record_batch({"body": column}))


def lying() -> bytes:
    """A stream whose column names bytes after its end."""
    data = bytearray(of(TEXTS))
    struct.pack_into("<i", data, data.index(struct.pack("<iii", 0, 3, 6)) + 8, 2_000_000_000)
    return bytes(data)


def rows_of_nothing() -> bytes:
    """A stream with a batch of many rows and without a column."""
    return stream(pa.RecordBatch.from_struct_array(pa.array([{}] * 100_000, pa.struct([]))))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lying(), "offset for slot 2 out of bounds"),
        (rows_of_nothing(), "a batch of 100000 rows is not in"),
        (stream(pa.record_batch({"body": [b"x" * 9000]}), compression="zstd"), "a batch is compressed"),
        (stream(pa.record_batch({"body": [b"x" * 9000]}), compression="lz4"), "a batch is compressed"),
        (of(TEXTS.dictionary_encode()), "its message 1 is of type dictionary"),
        (of(TEXTS.cast(pa.string_view())), "column 'body' is of type string_view"),
        (of(pa.nulls(5)), "column 'body' is of type null"),
        (of(pa.array([[None]], pa.list_(pa.null()))), r"column 'body' is of type list<\S+: null>"),
        (of(pa.RunEndEncodedArray.from_arrays([10**6], TEXTS[:1])), "column 'body' is of type run_end_encoded"),
        (stream(pa.record_batch([TEXTS] * 33, names=[str(number) for number in range(33)])), "it has 33 columns"),
        (of(pa.array([b"\xff"]).cast(pa.string(), safe=False)), "Invalid UTF8"),
        (of(TEXTS)[:200], "only read 72"),
        (of(TEXTS)[8:], "Invalid flatbuffers"),
        (b"\xff" * 100, "negative metadata length"),
        (b"", "null or length 0"),
    ],
    ids=map(str, range(15)),
)
def test_a_stream_that_cannot_be_believed(data: bytes, why: str) -> None:
    """An error says why; nothing is read."""
    with pytest.raises(ValueError, match=why):
        list(read_stream(data))


def test_a_stream_of_messages_is_read() -> None:
    """All columns of a put come as they were written."""
    batch = pa.record_batch({
        "topic": TEXTS,
        "body": pa.array([b"x", b""], pa.large_binary()),
        "keys": pa.array([["k", "l"], None], pa.list_(pa.string())),
        "properties": pa.array([[("a", "b")], []], pa.map_(pa.string(), pa.string())),
        "flag": pa.array([1, None], pa.int32()),
    })  # fmt: skip
    assert [one.to_pylist() for one in read_stream(stream(batch))] == [batch.to_pylist()]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"body": [b"x"]}, "staged messages are no messages"),
        ({"topic": [5], "body": [b"x"], "born_timestamp": [1]}, "staged messages are no messages"),
        ({"topic": [None], "body": [b"x"], "born_timestamp": [1]}, "column 'topic' is of type null"),
        ({"topic": ["t"], "body": [b"x" * 50], "born_timestamp": [1]}, ""),
    ],
)
def test_a_hostile_staged_file_killed_the_process(columns: dict[str, Any], why: str, tmp_path: Path) -> None:
    """A write that had begun, as a ledger says, compares its staged messages with the log: an error names the file."""
    with reput.MessageStore.open(tmp_path, create=True) as store:
        store.put_message(reput.Message("t", b"first"))
        data = stream(pa.record_batch(columns)) if why else lying()
        folder, name = tmp_path / "reput" / "sinks" / "job", f"x-{zlib.crc32(data):08x}.arrow"
        (folder / "staged").mkdir(parents=True)
        (folder / "staged" / name).write_bytes(data)
        write_ledger(folder, Ledger("job", 0, BEGUN, [name], 0), fs.owner_of(tmp_path))
        with pytest.raises(DamagedStoreError, match=f"{folder}.*{why}.*Run the query again"):
            commit_batch(store, folder, Ledger("job", 0, BEGUN, []))
        assert store.max_offset("t", 0) == 1
