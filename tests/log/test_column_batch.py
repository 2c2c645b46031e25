"""Batches of columns as the kernels read them: the same as other Arrow types give, by both twins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput import kernels
from reput.log.encode import column_batch, laid_out, queue_directory
from reput.log.encode.message import Message, PutStatus
from reput.log.encode.queue_directory import QueueDirectory
from support.appends import open_log, read_log
from support.twins import TWINS

if TYPE_CHECKING:
    from pathlib import Path

OK, ILLEGAL = PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL
LATE_MS = 1 << 50
KINDS: dict[str, tuple[pa.DataType, ...]] = {
    "topic": (pa.string(), pa.large_string()),
    "body": (pa.binary(), pa.large_binary(), pa.string()),
    "tags": (pa.string(), pa.large_string()),
    "keys": (pa.string(), pa.large_string()),
    "unique_key": (pa.string(), pa.large_string()),
    "queue_id": (pa.int32(), pa.int64()),
    "flag": (pa.int32(),),
    "born_timestamp": (pa.int64(),),
}
OPTIONAL = tuple(name for name in KINDS if name not in {"topic", "body"})

texts = st.text("abc订\U0001f600", min_size=1, max_size=12)
rows = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(("a", "orders", "orders-1", "订单" * 30, "t" * 255)),
        "body": texts | st.just(""),
        "tags": st.none() | st.just("") | texts,
        "keys": st.none() | texts,
        "unique_key": st.none() | st.just("") | texts,
        "queue_id": st.integers(0, 2) | st.just(0x7FFFFFFF),
        "flag": st.integers(-(1 << 31), (1 << 31) - 1),
        "born_timestamp": st.integers(0, 1 << 41),
    }
)


def table_of(data: st.DataObject, batch: list[dict[str, Any]]) -> pa.Table:
    """The rows as a table of one chunk, cut at random, with some columns left out."""
    names = ["topic", "body", *data.draw(st.lists(st.sampled_from(OPTIONAL), unique=True))]
    arrays = {name: pa.array([row[name] for row in batch], data.draw(st.sampled_from(KINDS[name]))) for name in names}
    cut = data.draw(st.integers(0, len(batch) - 1))
    return pa.table(arrays).slice(cut)


def use(patch: pytest.MonkeyPatch, kind: str) -> None:
    """Take the kernels of this kind."""
    for module in (laid_out, queue_directory):
        patch.setattr(module, "encode_kernels", lambda: kernels.encode_kernels(kind))


def stored(folder: Path, tables: list[pa.Table]) -> tuple[list[Any], bytes]:
    """Put the tables one after the other; return the answers and the log's file."""
    with open_log(folder, last_store_timestamp=LATE_MS, max_message_size=4000) as log:
        log.append(Message("a", b"first"), 1)
        results = [log.append_columns(table) for table in tables]
        assert log.append(Message("a", b"last"), 1).status is OK
    answers = [(result.status, *(column.tolist() for column in result[1:4]), *result[4:]) for result in results]
    return answers, next(folder.iterdir()).read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.lists(rows, min_size=1, max_size=10), min_size=1, max_size=3))
def test_batches_are_stored_as_other_types_are(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batches: list[list[dict[str, Any]]]
) -> None:
    """Any rows of the types that the kernels read give the bytes and answers of other types, by either twin."""
    tables = [table_of(data, batch) for batch in batches]
    folder = tmp_path_factory.mktemp("log")
    seen = []
    for kind in (*TWINS, "other"):
        with pytest.MonkeyPatch.context() as patch:
            if kind == "other":
                seen.append(stored(folder / kind, [other_types(table) for table in tables]))
            else:
                use(patch, kind)
                patch.setattr(column_batch, "normalized", None)
                seen.append(stored(folder / kind, tables))
    assert seen[0] == seen[2]
    assert seen[1] == seen[2]


def other_types(table: pa.Table) -> pa.Table:
    """The same messages in types that are turned into others first."""
    columns = {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}
    for name, column in columns.items():
        if name in {"topic", "tags", "unique_key"}:
            columns[name] = column.dictionary_encode()
        elif name == "keys":
            columns[name] = pa.array(
                [None if key is None else [key] for key in column.to_pylist()], pa.list_(pa.string())
            )
    return pa.table(columns)


def good(**columns: Any) -> pa.Table:
    """Three messages, with these columns on top."""
    return pa.table({"topic": ["a", "b", "a"], "body": [b"1", b"2", b"3"], **columns})


FAR = pa.Array.from_buffers(
    pa.string(), 3, [None, pa.py_buffer(np.array([0, 1 << 30, 2, 3], np.int32).tobytes()), pa.py_buffer(b"abc")]
)
BACK = pa.Array.from_buffers(
    pa.string(), 3, [None, pa.py_buffer(np.array([0, 2, 1, 3], np.int32).tobytes()), pa.py_buffer(b"abc")]
)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    "columns",
    [
        {"topic": ["a", "a/b", "a"]}, {"topic": ["a", None, "a"]}, {"body": [b"", None, b""]},
        {"body": [b"", b"", bytes(4001)]}, {"tags": ["a", "b\x01", "c"]}, {"keys": ["a", "b c", "d"]},
        {"keys": ["a", "", "d"]}, {"unique_key": ["a", "b", "12345678\x02"]},
        {"queue_id": pa.array([0, -1, 0], pa.int32())}, {"queue_id": pa.array([0, 1 << 31, 0])},
        {"unique_key": ["u" * 20_000, "", ""], "tags": ["t" * 20_000, "", ""]},
        {"topic": FAR}, {"topic": BACK}, {"tags": FAR}, {"tags": BACK}, {"body": BACK}, {"unique_key": FAR},
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_refused(
    columns: dict[str, Any], twin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch with a bad message is refused by its row, and nothing is stored."""
    use(monkeypatch, twin)
    with open_log(tmp_path, max_message_size=4000) as log:
        refused = log.append_columns(good(**columns))
        assert refused.status in {ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED}
        assert refused.reason.startswith(("message ", "column "))
        assert log.wrote == 0
        assert not any(log.next_offsets().values())
        assert log.append_columns(good()).status is OK


@pytest.mark.parametrize("twin", TWINS)
def test_what_a_null_leaves_in_the_data(twin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nulls over bytes that no text may hold are stored as no text."""
    use(monkeypatch, twin)
    offsets, data = np.array([0, 1, 3, 4], np.int32), b"x\x01\x02y"
    texts = [pa.py_buffer(array) for array in (bytes([0b101]), offsets, data)]
    table = good(tags=pa.Array.from_buffers(pa.string(), 3, texts))
    monkeypatch.setattr(column_batch, "normalized", None)
    with open_log(tmp_path) as log:
        assert log.append_columns(table).status is OK
    assert [record.properties for record in read_log(tmp_path)] == [b"TAGS\x01x\x02", b"", b"TAGS\x01y\x02"]


def test_more_queues_than_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is full gives way to an empty one, with room for any batch; numbers go on."""
    monkeypatch.setattr(queue_directory, "MOST_QUEUES", 3)
    with open_log(tmp_path) as log:
        for number in range(4):
            table = pa.table({"topic": ["a", "b"], "body": [b"1", b"2"], "queue_id": [number, 0]})
            assert log.append_columns(table).queue_offsets.tolist() == [0, number]
        assert log.append_columns(table).queue_offsets.tolist() == [1, 4]
        wide = pa.table({"topic": ["c"] * 9, "body": [b"3"] * 9, "queue_id": list(range(9))})
        assert log.append_columns(wide).queue_offsets.tolist() == [0] * 9
        assert log.append_columns(table).queue_offsets.tolist() == [2, 5]
    assert len(read_log(tmp_path)) == 21


def test_batches_are_written_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch larger than a piece is the same log as in one piece; a record larger than a piece as well."""
    sizes = [5, 3000, 700, 0, 1, 700, 700, 2, 4000]
    table = pa.table({"topic": ["a"] * len(sizes), "body": [bytes([size % 251]) * size for size in sizes]})
    files = []
    for piece in (1 << 19, 1000, 1):
        monkeypatch.setattr(queue_directory, "_PIECE_BYTES", piece)
        files.append(stored(tmp_path / str(piece), [table]))
    assert files[0] == files[1] == files[2]
    assert [len(record.body) for record in read_log(tmp_path / "1000")] == [5, *sizes, 4]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("column", ["body", "tags", "keys", "unique_key"])
@pytest.mark.parametrize("offset", [0, 5, 7, 1 << 30, -1])
def test_a_column_that_is_changed_while_it_is_stored(
    twin: str, column: str, offset: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that are longer than they were measured, or anywhere else, are refused; nothing of the batch is left."""
    use(monkeypatch, twin)
    offsets = np.array([0, 2, 6, 8], np.int32)
    kind = pa.binary() if column == "body" else pa.string()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"abcdefgh")]
    table = good(**{column: pa.Array.from_buffers(kind, 3, buffers)})
    with open_log(tmp_path) as log:
        true = log._batches.of_columns

        def changed(table: pa.Table) -> Any:
            batch = true(table)
            offsets[2] = offset
            return batch

        monkeypatch.setattr(log._batches, "of_columns", changed)
        result = log.append_columns(table)
        assert (result.status, "was changed" in result.reason) == (ILLEGAL, True)
        assert not read_log(tmp_path)
        offsets[2] = 6
        monkeypatch.setattr(log._batches, "of_columns", true)
        assert log.append_columns(table).status is OK
    assert len(read_log(tmp_path)) == 3


@pytest.mark.parametrize("twin", TWINS)
def test_a_topic_that_is_changed_while_its_queue_is_new(
    twin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue is found under the name that it was added with, whatever the column says by then."""
    use(monkeypatch, twin)
    name = np.frombuffer(b"abc", np.uint8).copy()
    buffers = [None, pa.py_buffer(np.array([0, 3], np.int32)), pa.py_buffer(name)]
    table = pa.table({"topic": pa.Array.from_buffers(pa.string(), 1, buffers), "body": [b"1"]})
    with open_log(tmp_path) as log:
        true = QueueDirectory.add

        def changed(directory: QueueDirectory, topic: str, *place: int) -> bool:
            name[:] = bytearray(b"xyz")
            monkeypatch.setattr(QueueDirectory, "add", true)
            return true(directory, topic, *place)

        monkeypatch.setattr(QueueDirectory, "add", changed)
        assert log.append_columns(table).status is OK
        name[:] = bytearray(b"abc")
        assert log.append_columns(table).status is OK
    assert [record.topic for record in read_log(tmp_path)] == [b"xyz", b"abc"]
