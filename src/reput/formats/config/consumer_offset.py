"""config/consumerOffset.json: how far each group has read each queue, as the broker writes and reads it.

    dataVersion     counter, stateVersion, timestamp (ms); not written by 4.x
    groupTopicMap   group -> its topics; a getter of 5.x left it there, ignored when read
    lmqOffsetTable  "topic@group" -> queue offset, only in lmqConsumerOffset.json: the groups whose names begin with
                    %LMQ%, which have one offset a topic
    offsetTable     "topic@group" -> queue id -> queue offset of the next message to read
    pullOffsetTable the same for offsets that are only asked for; 5.5.0 writes it, and no broker reads it

With `enableLmq` a broker keeps all this in lmqConsumerOffset.json instead of consumerOffset.json.

fastjson writes the text: indented by tabs, getters in alphabetical order, no newline at the end, and whole numbers as
keys without quotes, so JSON parsers refuse the file. RocketMQ 5.5.1 writes it with fastjson 2 (an entry a line); 5.3
and before with fastjson 1, which keeps a queue table and a topic list in one line:

    "topic@group":{0:250,1:251
    }

A key of three parts ("topic@group@client", broadcasting through the proxy) or without "@" is kept as it is and belongs
to no topic and no group. Reading allows what fastjson allows and a human editor leaves: quoted numbers, a comma after
the last entry, zeros after the end. Negative queue ids and offsets are kept, since a broker takes them from a client.

Source: `ConsumerOffsetManager`, `LmqConsumerOffsetManager`, `RemotingSerializable.toJson`, `DataVersion`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from reput.formats.config import data_version
from reput.formats.config.data_version import DataVersion, version_of
from reput.formats.java.fastjson import FastjsonReader, indented, quoted_keys
from reput.formats.layout import INT64_MAX, INT64_MIN
from reput.formats.paths import MAX_QUEUE_ID

FILE_NAME = "consumerOffset.json"
LMQ_FILE_NAME = "lmqConsumerOffset.json"
LMQ_QUEUE_ID = 0
"""The queue of a light topic, and of every offset of a light group."""
SEPARATOR = "@"
SIZE_LIMIT = 256 << 20
"""The maximum bytes of a file to be read: about ten million queues."""


class ConsumerOffsets(NamedTuple):
    """The content of the file, in the file's order; a part that is None is not written."""

    offset_table: Mapping[str, Mapping[int, int]]
    group_topics: Mapping[str, Sequence[str]] | None = None
    data_version: DataVersion | None = None
    light_offsets: Mapping[str, int] | None = None
    """The offsets of light groups (lmqOffsetTable)."""
    pull_offsets: Mapping[str, Mapping[int, int]] | None = None

    @property
    def whole_table(self) -> dict[str, dict[int, int]]:
        """The offsets of all groups: those of light groups are in queue 0."""
        light = {key: {LMQ_QUEUE_ID: offset} for key, offset in (self.light_offsets or {}).items()}
        return {key: dict(queues) for key, queues in self.offset_table.items()} | light


class JsonWriter(enum.Enum):
    """The writer: fastjson 2, as in RocketMQ 5.5.1, or fastjson 1, as in 5.3 and before."""

    FASTJSON2 = 2
    FASTJSON1 = 1


def key_of(topic: str, group: str) -> str:
    """Return the table's key of a topic and a group."""
    return f"{topic}{SEPARATOR}{group}"


def split_key(key: str) -> tuple[str, str] | None:
    """Return topic and group of a key; None if it does not have two parts, counted as Java's split does."""
    parts = key.rstrip(SEPARATOR).split(SEPARATOR)
    return (parts[0], parts[1]) if len(parts) == 2 else None


def group_topics(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return each group's topics, in the order of the keys."""
    topics: dict[str, dict[str, None]] = {}
    for key in keys:
        if (parts := split_key(key)) is not None:
            topic, group = parts
            topics.setdefault(group, {})[topic] = None
    return {group: list(names) for group, names in topics.items()}


# --- writing -------------------------------------------------------------------------------------

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CONTROLS = [chr(code) for code in range(0x20)]
_MORE_CONTROLS = [chr(code) for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)]
_ESCAPES = {
    JsonWriter.FASTJSON2: str.maketrans({**{char: f"\\u{ord(char):04x}" for char in _CONTROLS}, **_SHORT}),
    JsonWriter.FASTJSON1: str.maketrans(
        {**{char: f"\\u{ord(char):04X}" for char in (*_CONTROLS, *_MORE_CONTROLS)}, **_SHORT}
    ),
}


def encode(offsets: ConsumerOffsets, form: JsonWriter = JsonWriter.FASTJSON2) -> bytes:
    """Return the file's bytes."""
    escapes = _ESCAPES[form]
    pretty = form is JsonWriter.FASTJSON2

    def text(value: str) -> str:
        return f'"{value.translate(escapes)}"'

    def names(values: Iterable[str]) -> str:
        return indented("[]", map(text, values), 2) if pretty else f"[{','.join(map(text, values))}]"

    def numbers(queues: Mapping[int, int]) -> str:
        entries = [f"{queue}:{offset}" for queue, offset in queues.items()]
        return indented("{}", entries, 2) if pretty or not entries else f"{{{','.join(entries)}\n\t\t}}"

    members = []
    if offsets.data_version is not None:
        fields = (f'"{name}":{number}' for name, number in offsets.data_version.members.items())
        members.append(f'"{data_version.MEMBER}":{indented("{}", fields, 1)}')
    if offsets.group_topics is not None:
        lists = (f"{text(group)}:{names(topics)}" for group, topics in offsets.group_topics.items())
        members.append(f'"groupTopicMap":{indented("{}", lists, 1)}')
    if offsets.light_offsets is not None:
        light = (f"{text(key)}:{offset}" for key, offset in offsets.light_offsets.items())
        members.append(f'"lmqOffsetTable":{indented("{}", light, 1)}')
    for name, table in (("offsetTable", offsets.offset_table), ("pullOffsetTable", offsets.pull_offsets)):
        if table is not None:
            tables = (f"{text(key)}:{numbers(queues)}" for key, queues in table.items())
            members.append(f'"{name}":{indented("{}", tables, 1)}')
    return indented("{}", members, 0).encode()


# --- reading -------------------------------------------------------------------------------------

_PLAIN_MEMBERS = {"offsetTable", "dataVersion", "groupTopicMap", "lmqOffsetTable", "pullOffsetTable"}
_QUEUE_ID_DIGITS = 10


def decode(data: bytes, where: str) -> ConsumerOffsets:
    """Return the content of a consumerOffset.json; of a repeated key the later value counts.

    Raises:
        DamagedStoreError: they are no such file; names `where`, the byte, and what was expected there.
    """
    plain = _decode_plain(data)
    if plain is not None:
        return plain
    reader = FastjsonReader(data, where)
    tables: dict[str, dict[str, dict[int, int]]] = {}
    light: dict[str, int] | None = None
    topics: dict[str, list[str]] | None = None
    version: DataVersion | None = None
    for token in reader.members():
        name = reader.string(token)
        if name in {"offsetTable", "pullOffsetTable"}:
            tables[name] = {
                reader.string(key): {
                    reader.whole(queue, 31, "a queue id"): reader.whole(reader.next(), 63, "a queue offset")
                    for queue in reader.members()
                }
                for key in reader.members()
            }
        elif name == "lmqOffsetTable":
            light = {reader.string(key): reader.whole(reader.next(), 63, "a queue offset") for key in reader.members()}
        elif name == "dataVersion":
            version = version_of(reader.value())
        elif name == "groupTopicMap":
            topics = _topics(reader.value())
        else:
            reader.value()
    end = reader.next()
    if end.kind != "end":
        raise reader.error(end, "the end")
    return ConsumerOffsets(tables.get("offsetTable", {}), topics, version, light, tables.get("pullOffsetTable"))


def _decode_plain(data: bytes) -> ConsumerOffsets | None:
    """Return the same by Python's own JSON, for a file as RocketMQ writes it; None if only the reader can decide.

    A store of 100,000 topics has as many tables here, and the reader takes 50 us for each.
    """
    # Half a character, and escapes that may hide one.
    if b"\\ud" in data or b"\\uD" in data:
        return None
    try:
        found = json.loads(quoted_keys(data).decode(), parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict or not found.keys() <= _PLAIN_MEMBERS:
        return None
    version, topics = found.get("dataVersion"), found.get("groupTopicMap")
    if not _is_plain_version(version) or (topics is not None and _topics(topics) is None):
        return None
    table, light = _plain_table(found.get("offsetTable", {})), found.get("lmqOffsetTable")
    pulled = _plain_table(found["pullOffsetTable"]) if "pullOffsetTable" in found else None
    if table is None or (pulled is None and "pullOffsetTable" in found) or not _is_plain_light(light):
        return None
    return ConsumerOffsets(table, topics, version_of(version), light, pulled)


def _is_plain_light(value: object) -> bool:
    """Return True if the offsets of light groups are missing, or whole numbers of 64 bits."""
    if value is None:
        return True
    return type(value) is dict and all(
        type(one) is int and -INT64_MAX - 1 <= one <= INT64_MAX for one in value.values()
    )


def _refuse(text: str) -> None:
    raise ValueError(text)


def _is_plain_version(value: object) -> bool:
    """Return True if a dataVersion is missing, or has only whole numbers of 64 bits."""
    if value is None:
        return True
    return type(value) is dict and all(type(one) is int and INT64_MIN <= one <= INT64_MAX for one in value.values())


def _plain_table(value: object) -> dict[str, dict[int, int]] | None:
    """Return the offsets; None if a queue id or an offset is not valid."""
    if type(value) is not dict or set(map(type, value.values())) - {dict}:
        return None
    offsets = list(chain.from_iterable(queues.values() for queues in value.values()))
    # The same few ids come again and again: each is checked once.
    ids = set(chain.from_iterable(value.values()))
    if set(map(type, offsets)) - {int} or not all(map(_is_plain_id, ids)):
        return None
    if offsets and not -INT64_MAX - 1 <= min(offsets) <= max(offsets) <= INT64_MAX:
        return None
    numbers = {text: int(text) for text in ids}
    return {key: {numbers[queue]: offset for queue, offset in queues.items()} for key, queues in value.items()}


def _is_plain_id(text: str) -> bool:
    # isdigit knows other digits than ours, and so does int.
    return len(text) <= _QUEUE_ID_DIGITS and text.isascii() and text.isdigit() and int(text) <= MAX_QUEUE_ID


def _topics(value: Any) -> dict[str, list[str]] | None:
    """Return the map of groups; None if it has another shape, since RocketMQ does not read it."""
    if not isinstance(value, dict) or not all(isinstance(topics, list) for topics in value.values()):
        return None
    if not all(isinstance(topic, str) for topics in value.values() for topic in topics):
        return None
    return value
