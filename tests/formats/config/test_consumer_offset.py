"""consumerOffset.json: the bytes that brokers write, what counts as one, and where a damaged one says it is damaged."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import DamagedStoreError
from reput.formats.config import consumer_offset
from reput.formats.config.consumer_offset import (
    ConsumerOffsets,
    DataVersion,
    JsonWriter,
    decode,
    encode,
    group_topics,
    split_key,
)

# Written by RocketMQ 5.5.1 (fastjson 2.0.63).
OF_5_5 = b"""{
	"dataVersion":{
		"counter":1,
		"stateVersion":3,
		"timestamp":1795245713828
	},
	"groupTopicMap":{
		"group":[
			"TopicTest",
			"T2"
		]
	},
	"offsetTable":{
		"TopicTest@group":{
			0:250,
			1:251,
			100:9223372036854775807,
			-5:-1
		},
		"a@b@c":{
			0:250
		},
		"T2@group":{}
	}
}"""

# Written by fastjson 1.2.83 from the same class.
OF_5_1 = b"""{
	"dataVersion":{
		"counter":1,
		"stateVersion":3,
		"timestamp":1795245713828
	},
	"groupTopicMap":{
		"group":["TopicTest","T2"]
	},
	"offsetTable":{
		"TopicTest@group":{0:250,1:251,100:9223372036854775807,-5:-1
		},
		"a@b@c":{0:250
		},
		"T2@group":{}
	}
}"""

# As 4.9 writes it.
OF_4_9 = b"""{
	"offsetTable":{
		"%RETRY%group@group":{0:0
		},
		"TopicTest@group":{0:250,1:250,2:250,3:250
		}
	}
}"""

TABLE = {"TopicTest@group": {0: 250, 1: 251, 100: (1 << 63) - 1, -5: -1}, "a@b@c": {0: 250}, "T2@group": {}}

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
tables = st.dictionaries(
    names,
    st.dictionaries(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1), max_size=4),
    max_size=4,
)
versions = st.none() | st.builds(DataVersion, *[st.integers(0, (1 << 63) - 1)] * 3)


def table_of(text: str) -> dict[str, dict[int, int]]:
    """The table that a text holds."""
    return {key: dict(queues) for key, queues in decode(text.encode(), "file").offset_table.items()}


@pytest.mark.parametrize(("data", "form"), [(OF_5_5, JsonWriter.FASTJSON2), (OF_5_1, JsonWriter.FASTJSON1)])
def test_what_brokers_write(data: bytes, form: JsonWriter) -> None:
    """The bytes of a broker are read as it meant them, and written again byte for byte."""
    offsets = decode(data, "file")

    assert offsets == ConsumerOffsets(TABLE, {"group": ["TopicTest", "T2"]}, DataVersion(1, 3, 1795245713828))
    assert encode(offsets, form) == data


def test_old_brokers_write_the_table_alone() -> None:
    """The file of 4.x has neither version nor groups, and is written without them again."""
    offsets = decode(OF_4_9, "file")

    assert (offsets.group_topics, offsets.data_version) == (None, None)
    assert offsets.offset_table["TopicTest@group"] == dict.fromkeys(range(4), 250)
    assert encode(offsets, JsonWriter.FASTJSON1) == OF_4_9


@given(tables, st.none() | st.dictionaries(names, st.lists(names, min_size=1, max_size=3), max_size=3), versions)
def test_round_trip(
    table: dict[str, dict[int, int]], topics: dict[str, list[str]] | None, version: DataVersion | None
) -> None:
    """A table that is written is read again, order included, in either form."""
    offsets = ConsumerOffsets(table, topics, version)
    for form in JsonWriter:
        read = decode(encode(offsets, form), "file")
        assert read == offsets
        assert list(read.offset_table) == list(table)


@given(tables)
def test_quoted_keys(table: dict[str, dict[int, int]]) -> None:
    """Strict JSON, with queue ids in quotes, is read as well, however it is laid out."""
    for indent in (None, 3):
        for ascii_only in (True, False):
            assert table_of(json.dumps({"offsetTable": table}, indent=indent, ensure_ascii=ascii_only)) == table


@given(st.text('{[,:]}"\\ 0123456789\t\n', max_size=20))
def test_text_in_quotes_stays_as_it_is(text: str) -> None:
    """Braces, commas and numbers inside a name are a name's, also where they look like a bare key."""
    table = {text: {1: 2}, f"{{0:{text},1:2}}": {3: 4}}

    assert decode(encode(ConsumerOffsets(table)), "file").offset_table == table


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("{}", {}),
        ('{"offsetTable":{}}', {}),
        ('{"offsetTable":{"t@g":{0:1,},},}', {"t@g": {0: 1}}),
        ('{"offsetTable":{"t@g":{"0":"5"}}}', {"t@g": {0: 5}}),
        ('{"offsetTable":{"t@g":{0:1}}}\n\0\0\0', {"t@g": {0: 1}}),
        ('{"offsetTable":{"t@g":{1:1},"t@g":{2:2}}}', {"t@g": {2: 2}}),
        ('{"new":[1,{"a":[true,null,1.5e3]},"x"],"offsetTable":{"t@g":{1:1}},"old":{1:{}}}', {"t@g": {1: 1}}),
        ('{"groupTopicMap":[5],"dataVersion":null,"offsetTable":{"t@g":{1:1}}}', {"t@g": {1: 1}}),
    ],
)
def test_what_the_broker_takes_we_take(text: str, table: dict[str, dict[int, int]]) -> None:
    """Texts that fastjson reads without an error we read, too, to the same table."""
    assert table_of(text) == table


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("", 0, "{ was expected, it ends there"),
        ("\0" * 5000, 0, "{ was expected, it ends there"),
        ("  null", 2, "{ was expected"),
        ('{"offsetTable":{"t@g":{0:250}', 29, ", or } was expected, it ends there"),
        ('{"offsetTable":{"t@g', 16, 'a key or } was expected, found b\'"\''),
        ('{"offsetTable":{"t@g":{0:1}}}{', 29, "the end was expected"),
        ('{"offsetTable":null}', 15, "{ was expected, found b'null'"),
        ('{"offsetTable":{"t@g":5}}', 22, "{ was expected"),
        ('{"offsetTable":{"t@g":{0 1}}}', 25, ": was expected"),
        ('{"offsetTable":{"t@g":{0:1 1:2}}}', 27, ", or } was expected"),
        ('{"offsetTable":{"t@g":{,0:1}}}', 23, "a key or } was expected"),
        ('{"offsetTable":{"t@g":{x:1}}}', 23, "a key or } was expected"),
        ('{"offsetTable":{"t@g":{"x":1}}}', 23, "a queue id was expected"),
        ('{"offsetTable":{"t@g":{2147483648:1}}}', 23, "a queue id was expected"),
        ('{"offsetTable":{"t@g":{0:9223372036854775808}}}', 25, "a queue offset was expected"),
        ('{"offsetTable":{"t@g":{0:' + "9" * 5000 + "}}}", 25, "a queue offset was expected"),
        ('{"offsetTable":{"t@g":{0:1.5}}}', 25, "a queue offset was expected"),
        ('{"offsetTable":{"t@g":{0:null}}}', 25, "a queue offset was expected"),
        ('{"offsetTable":{"t\t@g":{0:1}}}', 16, "a key or } was expected"),
        ('{"offsetTable":{"t\\q":{0:1}}}', 16, "valid text was expected"),
        ('{"offsetTable":{"\\ud800":{0:1}}}', 16, "valid text was expected"),
        ('{"x":[1 2]}', 8, ", or ] was expected"),
        ('{"x":}', 5, "a value was expected"),
        ('{"x":99999999999999999999}', 5, "a number of 64 bits was expected"),
        ('{"x":' + "[" * 100_000, 38, "at most 32 levels was expected"),
    ],
)  # fmt: skip
def test_damage_is_named(text: str, place: int, expected: str) -> None:
    """A text that is no such file is an error that names the file, the byte and what should be there."""
    with pytest.raises(DamagedStoreError) as caught:
        decode(text.encode(), "some/file")
    assert str(caught.value).startswith(f"some/file: damaged at byte {place}: ")
    assert expected in str(caught.value)


def test_not_utf_8() -> None:
    """Bytes that are no text are damage, at the byte where the text begins."""
    with pytest.raises(DamagedStoreError, match="byte 16: valid text"):
        decode(b'{"offsetTable":{"\xff@g":{0:1}}}', "file")


@given(st.integers(0, len(OF_5_5) - 1), st.integers(0, 255))
def test_any_byte_changed(place: int, byte: int) -> None:
    """One wrong byte anywhere gives an error of ours or a table, nothing else."""
    data = bytearray(OF_5_5)
    data[place] = byte
    with contextlib.suppress(DamagedStoreError):
        decode(bytes(data), "file")


def reported(data: bytes) -> object:
    """The result of decoding some bytes: a table, or an error's text."""
    try:
        return decode(data, "file")
    except DamagedStoreError as error:
        return str(error)


_PIECES = (
    ",", "{", "}", "1:2", '"3":4', '"5":"6"', ",7:", "-8:9", "null", '{"a":1}', "\\ud83d", "0.5", "NaN", "1e3", " ",
    "\0", "[1]", '"\u00b2":1', "99999999999:1", "0:99999999999999999999", "00:1", "true",
)  # fmt: skip


@pytest.mark.parametrize("data", [OF_5_5, OF_5_1])
@given(place=st.integers(0, len(OF_5_1)), width=st.integers(0, 12), piece=st.sampled_from(_PIECES))
def test_the_quick_way_says_what_the_reader_says(data: bytes, place: int, width: int, piece: str) -> None:
    """A file, and one changed anywhere, is decoded to the same by Python's JSON and by our own reader."""
    # Without what only the reader takes, so that the quick way has something to say.
    data = data.replace(b",\n\t\t\t-5:-1", b"").replace(b",-5:-1", b"")
    assert consumer_offset._decode_plain(data) == decode(data, "file")
    changed = data[:place] + piece.encode() + data[place + width :]
    with pytest.MonkeyPatch.context() as patch:
        quick = reported(changed)
        patch.setattr(consumer_offset, "_decode_plain", lambda _: None)
        assert quick == reported(changed)


def test_any_end_cut_off() -> None:
    """A file that was not written to its end never passes for a whole one."""
    for size in range(len(OF_5_5)):
        with pytest.raises(DamagedStoreError):
            decode(OF_5_5[:size], "file")


@pytest.mark.parametrize("blank", [b" ", b'"\\', b"\t\n"])
def test_long_runs_end_soon(blank: bytes) -> None:
    """A megabyte of blanks or escapes with nothing after it is read once, not once from each of its bytes."""
    with pytest.raises(DamagedStoreError):
        decode(b'{"x":' + blank * (1 << 20) + b"?", "file")


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("topic@group", ("topic", "group")), ("topic@group@", ("topic", "group")), ("@group", ("", "group")),
        ("topic", None), ("topic@", None), ("topic@group@client", None), ("topic@@group", None), ("", None),
    ],
)  # fmt: skip
def test_split_key(key: str, parts: tuple[str, str] | None) -> None:
    """A key has two parts, counted as Java's split counts, or belongs to no topic and no group."""
    assert split_key(key) == parts


def test_group_topics() -> None:
    """Each group's topics are given once, in the order of the table."""
    assert group_topics(["b@g", "a@g", "a@g@", "a@h", "a@g@c", "x"]) == {"g": ["b", "a"], "h": ["a"]}
