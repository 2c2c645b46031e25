"""Batches given as Arrow columns: stored as the same messages one by one would be, or refused whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.log.record import CHECK_PROPERTY
from reput.log.encode.message import Message, PutStatus
from support.appends import open_log, read_log

if TYPE_CHECKING:
    from pathlib import Path

OK, ILLEGAL = PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL
KINDS = {
    "topic": (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())),
    "body": (pa.binary(), pa.large_binary()),
    "tags": (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
    "keys": (pa.list_(pa.string()), pa.large_list(pa.large_string())),
    "properties": (pa.map_(pa.string(), pa.string()),),
    "unique_key": (pa.string(),),
    "queue_id": (pa.int32(), pa.int64(), pa.uint8()),
    "flag": (pa.int32(), pa.int64()),
    "sys_flag": (pa.int32(),),
    "born_timestamp": (pa.int64(), pa.timestamp("ms")),
}

texts = st.text("abc订\U0001f600", min_size=1, max_size=12)
rows = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(("a", "orders", "订单" * 30, "t" * 255)),
        "body": st.binary(max_size=50),
        "tags": st.none() | st.just("") | texts,
        "keys": st.none() | st.lists(texts, max_size=3),
        "properties": st.none() | st.dictionaries(texts, texts, max_size=3),
        "unique_key": st.none() | texts,
        "queue_id": st.integers(0, 2),
        "flag": st.integers(-(1 << 31), (1 << 31) - 1),
        "sys_flag": st.sampled_from((0, 1, 0x32)),
        "born_timestamp": st.none() | st.integers(0, 1 << 41),
    }
)


def table_of(batch: list[dict[str, Any]], kinds: dict[str, Any]) -> pa.Table:
    """A table of rows; a map is given as its pairs."""
    arrays = {}
    for name, kind in kinds.items():
        values = [list(row[name].items()) if isinstance(row[name], dict) else row[name] for row in batch]
        arrays[name] = pa.array(values, type=kind)
    return pa.table(arrays)


def maps(*rows: list[tuple[str, str | None]]) -> pa.Array:
    """A column of properties."""
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def good(**columns: Any) -> pa.Table:
    """Three messages, with these columns on top."""
    return pa.table({"topic": ["a", "b", "a"], "body": [b"1", b"2", b"3"], **columns})


@settings(max_examples=80, deadline=None)
@given(st.data(), st.lists(rows, max_size=10), st.booleans())
def test_columns_are_stored_as_messages_are(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batch: list[dict[str, Any]], append_crc: bool
) -> None:
    """Any rows, in any of their Arrow types, cut and in chunks or not, give the records of the same messages."""
    kinds = {name: data.draw(st.sampled_from(types)) for name, types in KINDS.items()}
    cut = data.draw(st.integers(0, len(batch)))
    table = table_of(batch, kinds).slice(cut)
    if data.draw(st.booleans()):
        half = data.draw(st.integers(0, len(batch) - cut))
        table = pa.concat_tables([table.slice(0, half), table.slice(half)])
    folder = tmp_path_factory.mktemp("log")
    with open_log(folder / "columns", enabled_append_prop_crc=append_crc) as log:
        log.append(Message("a", b"first"), 1)
        result = log.append_columns(table)
    with open_log(folder / "messages", enabled_append_prop_crc=append_crc) as other:
        other.append(Message("a", b"first"), 1)
        messages = [
            Message(**{name: value for name, value in row.items() if name != "queue_id"}) for row in batch[cut:]
        ]
        single = other.append_many(messages, [row["queue_id"] for row in batch[cut:]])
    assert (result.status, single.status) == (OK, OK), result.reason + single.reason

    now = [result.store_timestamp, single.store_timestamp]
    stored = []
    for part, time in zip(("columns", "messages"), now, strict=True):
        records = read_log(folder / part, crc_check=CHECK_PROPERTY if append_crc else 1)[1:]
        assert {record.store_timestamp for record in records} <= {time}
        stored.append(
            [
                record._replace(
                    store_timestamp=0,
                    born_timestamp=0 if record.born_timestamp == time else record.born_timestamp,
                    properties=record.properties[:-20] if append_crc else record.properties,
                )
                for record in records
            ]
        )
    assert stored[0] == stored[1]
    for columns in ("physical_offsets", "sizes", "queue_offsets"):
        assert getattr(result, columns).tolist() == getattr(single, columns).tolist()


def test_times_of_other_units(tmp_path: Path) -> None:
    """A column of finer times is cut to milliseconds."""
    times = pa.array([1_234_567, 2_000, None], type=pa.timestamp("us", "UTC"))
    with open_log(tmp_path) as log:
        now = log.append_columns(good(born_timestamp=times)).store_timestamp
    assert [record.born_timestamp for record in read_log(tmp_path)] == [1234, 2, now]


def test_text_keys_are_one_key_each(tmp_path: Path) -> None:
    """A column of texts gives each message one key, and none where it is null."""
    with open_log(tmp_path) as log:
        assert log.append_columns(good(keys=["k1", None, "k3"])).status is OK
    assert [record.properties for record in read_log(tmp_path)] == [b"KEYS\x01k1\x02", b"", b"KEYS\x01k3\x02"]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"topic": ["a", "a/b", "a"]}, "message 1"),
        ({"topic": ["a", None, "a"]}, "message 1 of the batch: it has no topic"),
        ({"topic": [1, 2, 3]}, "texts"),
        ({"topic": pa.array([1, 2, 1]).dictionary_encode()}, "texts"),
        ({"body": [b"", None, b""]}, "no body"),
        ({"body": [1, 2, 3]}, "binary or text"),
        ({"body": [b"", b"", bytes(5000)]}, "message 2 of the batch: its body is over 4000"),
        ({"tags": ["a", "b\x01", "c"]}, "message 1"),
        ({"tags": [b"a", b"b", b"c"]}, "texts"),
        ({"keys": ["a", "b c", "d"]}, "message 1"),
        ({"keys": ["a", "", "d"]}, "message 1"),
        ({"keys": [["a"], ["b", None], []]}, "message 1"),
        ({"unique_key": ["a", "b", "\x02"]}, "message 2"),
        ({"properties": ["a", "b", "c"]}, "map of text"),
        ({"queue_id": [0, -1, 0]}, "message 1 of the batch: queue id -1"),
        ({"queue_id": [0, 1 << 31, 0]}, "queue id"),
        ({"queue_id": ["a", "b", "c"]}, "integers"),
        ({"flag": [0, 1 << 31, 0]}, "flag"),
        ({"sys_flag": [0, 0, 4]}, "message 2 of the batch: sysFlag 0x4"),
        ({"sys_flag": [0x80, 0, 0]}, "message 0"),
        ({"born_timestamp": ["x", "y", "z"]}, "integers"),
        ({"colour": [1, 2, 3]}, "columns"),
        ({"keys": [["a"], ["b\x01"], []]}, "message 1"),
        ({"keys": [["a"], ["b", "c d"], []]}, "message 1"),
        ({"keys": [[], ["a"], ["b", ""]]}, "message 2"),
        ({"properties": maps([], [("n", "v")], [("n", "")])}, "message 2"),
        ({"properties": maps([], [("", "v")], [])}, "message 1"),
        ({"properties": maps([("n", "v")], [], [("n\x01", "v")])}, "message 2"),
        ({"properties": maps([("n", "v\x02")], [], [])}, "message 0"),
        ({"properties": maps([("n", None)], [], [])}, "message 0"),
    ],
)
def test_a_batch_with_a_bad_message_stores_nothing(columns: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """A message that cannot be stored is named, and the rest of its batch is not stored either."""
    with open_log(tmp_path, max_message_size=4000) as log:
        result = log.append_columns(good(**columns))
        assert (result.status, len(result.sizes), log.wrote) == (ILLEGAL, 0, 0)
        assert reason in result.reason
        assert not any(log.next_offsets().values())


@pytest.mark.parametrize(
    ("name", "more", "refused"),
    [
        ("TAGS", {"tags": ["t", "t", "t"]}, True), ("TAGS", {}, False), ("KEYS", {"keys": ["k", "k", "k"]}, True),
        ("KEYS", {}, False), ("UNIQ_KEY", {"unique_key": ["u", "u", "u"]}, True), ("INNER_NUM", {}, True),
        ("INNER_MULTI_QUEUE_OFFSET", {}, True),
        ("DELAY", {}, True), ("__CRC32#", {}, True), ("", {}, True),
    ],
)  # fmt: skip
def test_names_among_the_properties(name: str, more: dict[str, Any], refused: bool, tmp_path: Path) -> None:
    """A name that has a column of its own, or cannot be in a batch, is refused with its message."""
    maps = pa.array([[("n", "v")], [], [("n", "v"), (name, "v")]], type=pa.map_(pa.string(), pa.string()))
    with open_log(tmp_path) as log:
        result = log.append_columns(good(properties=maps, **more))
        assert (result.status is ILLEGAL) == refused
        assert ("message 2" in result.reason) == refused


@pytest.mark.parametrize("enable_lmq", [False, True])
def test_a_dispatch_to_light_queues_was_left_out_in_silence(enable_lmq: bool, tmp_path: Path) -> None:
    """Columns give no numbers of light queues: with `enableLmq` such a message is refused, as in a list of messages."""
    row = [("INNER_MULTI_DISPATCH", "%LMQ%a")]
    maps = pa.array([[], [], row], type=pa.map_(pa.string(), pa.string()))
    with open_log(tmp_path, enable_lmq=enable_lmq) as log:
        result = log.append_columns(good(properties=maps))
        assert (result.status is ILLEGAL) == enable_lmq
        assert ("message 2" in result.reason) == enable_lmq


def hostile(name: str) -> pa.Array:
    """Arrow arrays that lie about what they hold."""
    offsets = np.array([0, 1, 2, 3], np.int32).tobytes()
    match name:
        case "not UTF-8":
            return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xffb")])
        case "offsets outside":
            far = np.array([0, 1 << 30, 2, 3], np.int32).tobytes()
            return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(far), pa.py_buffer(b"abc")])
        case "offsets backwards":
            back = np.array([0, 2, 1, 3], np.int32).tobytes()
            return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(back), pa.py_buffer(b"abc")])
        case _:
            indices = pa.array([0, 5, -3], pa.int32())
            return pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)


@pytest.mark.parametrize("name", ["offsets outside", "offsets backwards", "indices outside", "not UTF-8"])
@pytest.mark.parametrize("column", ["topic", "tags", "unique_key", "body"])
def test_arrays_that_lie(name: str, column: str, tmp_path: Path) -> None:
    """Arrays made of any bytes are refused, or stored as what they are; nothing outside them is read."""
    with open_log(tmp_path) as log:
        table = good(**{column: hostile(name)})
        result = log.append_columns(table)
        assert result.status is (OK if name == "not UTF-8" and column != "topic" else ILLEGAL), result


@pytest.mark.parametrize("kind", ["keys", "names", "values"])
def test_what_lies_under_a_null_list_may_be_anything(kind: str, tmp_path: Path) -> None:
    """Values of a row that is null, and of rows outside a slice, are no message's."""
    values = ["a\x01", "a", "\x02 ", "b"]
    offsets, valid = pa.array([0, 1, 2, 3, 4], pa.int32()), pa.py_buffer(bytes([0b1011]))
    buffers = [valid, offsets.buffers()[1]]
    if kind == "keys":
        lists = pa.ListArray.from_buffers(pa.list_(pa.string()), 4, buffers, children=[pa.array(values)])
        column = {"keys": lists.slice(1)}
    else:
        names = values if kind == "names" else ["n"] * 4
        pairs = pa.StructArray.from_arrays(
            [pa.array(names), pa.array(["v"] * 4 if kind == "names" else values)],
            fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())],
        )
        map_ = pa.map_(pa.string(), pa.string())
        column = {"properties": pa.MapArray.from_buffers(map_, 4, buffers, children=[pairs]).slice(1)}
    with open_log(tmp_path) as log:
        assert log.append_columns(good(**column)).status is OK
    stored = [record.properties for record in read_log(tmp_path)]
    pair = b"KEYS\x01%b\x02" if kind == "keys" else b"%b\x01v\x02" if kind == "names" else b"n\x01%b\x02"
    assert stored == [pair % b"a", b"", pair % b"b"]


@pytest.mark.parametrize("kind", ["keys", "properties"])
@pytest.mark.parametrize("of_texts", [False, True])
@pytest.mark.parametrize("offsets", [[0, 1 << 30, 2, 3], [0, 2, 1, 3], [-1, 1, 2, 3]])
def test_lists_and_maps_that_lie(offsets: list[int], of_texts: bool, kind: str, tmp_path: Path) -> None:
    """Offsets of lists, and of texts in them, that point anywhere are refused before they are followed."""
    bent = np.array([0, 1, 2, 3], np.int32)
    whole = pa.py_buffer(bent.copy())
    texts = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(bent) if of_texts else whole, pa.py_buffer(b"abc")]
    )
    outer = [None, whole if of_texts else pa.py_buffer(bent)]
    if kind == "keys":
        column = pa.ListArray.from_buffers(pa.list_(pa.string()), 3, outer, children=[texts])
    else:
        fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
        pairs = pa.StructArray.from_arrays([pa.array(["n"] * 3), texts], fields=fields)
        column = pa.MapArray.from_buffers(pa.map_(pa.string(), pa.string()), 3, outer, children=[pairs])
    table = good(**{kind: column})
    # Only now: Arrow itself looks at some of them when an array is made.
    bent[:] = offsets
    with open_log(tmp_path) as log:
        assert log.append_columns(table).status is ILLEGAL
        assert log.wrote == 0


def test_chunks_with_dictionaries_of_their_own(tmp_path: Path) -> None:
    """Chunks may number the same topics differently."""
    parts = [
        pa.table({"topic": pa.array(names).dictionary_encode(), "body": [b"1", b"2"]})
        for names in (["a", "b"], ["b", "c"])
    ]
    table = pa.concat_tables(parts)
    with open_log(tmp_path) as log:
        assert log.append_columns(table).queue_offsets.tolist() == [0, 0, 1, 0]
        assert log.next_offsets() == {(b"a", 0): 1, (b"b", 0): 2, (b"c", 0): 1}


def test_no_table_and_no_columns(tmp_path: Path) -> None:
    """A value that is no table, or has no topics or bodies, is refused; a table without rows is stored at once."""
    with open_log(tmp_path) as log:
        refused = [{"topic": ["a"]}, pa.table({"topic": ["a"]}), pa.table({"body": [b""]}), pa.table({})]
        assert [log.append_columns(table).status for table in refused] == [ILLEGAL] * 4
        assert log.append_columns(good().slice(0, 0)).status is OK
        assert log.append_columns(good().to_batches()[0]).status is OK


def test_a_batch_larger_than_a_file(tmp_path: Path) -> None:
    """It is refused and names the limit; one of exactly a file less 8 bytes is stored, and rolls whole."""
    with open_log(tmp_path, file_size=1000) as log:
        log.append(Message("a", b""))
        body = 992 // 2 - 92
        exact = pa.table({"topic": ["a", "a"], "body": [bytes(body)] * 2})
        larger = pa.table({"topic": ["a", "a"], "body": [bytes(body), bytes(body + 1)]})
        result = log.append_columns(larger)
        assert result.status is ILLEGAL
        assert "at most 992" in result.reason
        assert log.append_columns(exact).physical_offsets.tolist() == [1000, 1496]
    assert [record.queue_offset for record in read_log(tmp_path)] == [0, 1, 2]


def test_a_topic_twice_in_a_dictionary(tmp_path: Path) -> None:
    """A dictionary that holds a topic twice, or one that no message has, gives each queue one row of numbers."""
    topic = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array(["a", "a", "../x"]))
    with open_log(tmp_path) as log:
        result = log.append_columns(pa.table({"topic": topic, "body": [b"1", b"2", b"3", b"4"]}))
        assert result.queue_offsets.tolist() == [0, 1, 2, 3]
        assert log.next_offsets() == {(b"a", 0): 4}


def test_many_queues(tmp_path: Path) -> None:
    """Thousands of queues in one batch are numbered each for itself, and go on in the next batch."""
    count = 20_000
    ids = np.random.default_rng(1).integers(0, 3000, count)
    table = pa.table({"topic": ["a"] * count, "body": [b"x"] * count, "queue_id": ids})
    with open_log(tmp_path, file_size=1 << 23) as log:
        results = [log.append_columns(table) for _ in range(2)]
    seen: dict[int, int] = {}
    for result in results:
        for queue_id, number in zip(ids.tolist(), result.queue_offsets.tolist(), strict=True):
            assert number == seen.get(queue_id, 0)
            seen[queue_id] = number + 1


def test_the_plain_kernels_store_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch on plain Python changes no byte."""
    from reput import kernels
    from reput.log.encode import laid_out

    files = []
    for kind in ("reference", "compiled"):
        monkeypatch.setattr(laid_out, "encode_kernels", lambda kind=kind: kernels.encode_kernels(kind))
        with open_log(tmp_path / kind, last_store_timestamp=1 << 50) as log:
            log.append_columns(good(tags=["x", None, ""], keys=[["k", "l"], [], None]))
        files.append(next((tmp_path / kind).iterdir()).read_bytes())
    assert files[0] == files[1]
