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
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.layout import INT64_MAX

FILE_NAME = "consumerOffset.json"
LMQ_FILE_NAME = "lmqConsumerOffset.json"
LMQ_QUEUE_ID = 0
"""The queue of a light topic, and of every offset of a light group."""
SEPARATOR = "@"
SIZE_LIMIT = 256 << 20
"""The maximum bytes of a file to be read: about ten million queues."""
MAX_QUEUE_ID = (1 << 31) - 1
_DEPTH_LIMIT = 32


class DataVersion(NamedTuple):
    """The table's number of changes, the version of the state machine (0 without a controller), and a time (ms)."""

    counter: int
    state_version: int
    timestamp: int


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
        return _indented("[]", map(text, values), 2) if pretty else f"[{','.join(map(text, values))}]"

    def numbers(queues: Mapping[int, int]) -> str:
        entries = [f"{queue}:{offset}" for queue, offset in queues.items()]
        return _indented("{}", entries, 2) if pretty or not entries else f"{{{','.join(entries)}\n\t\t}}"

    members = []
    if offsets.data_version is not None:
        counter, state_version, timestamp = offsets.data_version
        fields = (f'"counter":{counter}', f'"stateVersion":{state_version}', f'"timestamp":{timestamp}')
        members.append(f'"dataVersion":{_indented("{}", fields, 1)}')
    if offsets.group_topics is not None:
        lists = (f"{text(group)}:{names(topics)}" for group, topics in offsets.group_topics.items())
        members.append(f'"groupTopicMap":{_indented("{}", lists, 1)}')
    if offsets.light_offsets is not None:
        light = (f"{text(key)}:{offset}" for key, offset in offsets.light_offsets.items())
        members.append(f'"lmqOffsetTable":{_indented("{}", light, 1)}')
    for name, table in (("offsetTable", offsets.offset_table), ("pullOffsetTable", offsets.pull_offsets)):
        if table is not None:
            tables = (f"{text(key)}:{numbers(queues)}" for key, queues in table.items())
            members.append(f'"{name}":{_indented("{}", tables, 1)}')
    return _indented("{}", members, 0).encode()


def _indented(brackets: str, entries: Iterable[str], depth: int) -> str:
    """Return entries, a line each, between two brackets at `depth`; nothing between them if there are none."""
    line = "\n" + "\t" * depth
    joined = f",{line}\t".join(entries)
    return f"{brackets[0]}{line}\t{joined}{line}{brackets[1]}" if joined else brackets


# --- reading -------------------------------------------------------------------------------------

# Possessive repeats: a long run of blanks before a wrong byte is read once.
_TOKEN = re.compile(
    rb"""[ \t\r\n]*+(?:
        (?P<text>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")
      | (?P<number>-?[0-9]++(?![.eE]))
      | (?P<other>true|false|null|-?[0-9]++(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+)
      | (?P<mark>[][{}:,])
      | (?P<end>[ \t\r\n\0]*+\Z)
    )""",
    re.VERBOSE,
)
_WHOLE_NUMBER = re.compile(rb'"?(-?[0-9]{1,19})"?')
_BARE_KEY = re.compile(rb"[{,][ \t\r\n]*+[0-9]++:")
_MOST_REPLACED = 64
_PLAIN_MEMBERS = {"offsetTable", "dataVersion", "groupTopicMap", "lmqOffsetTable", "pullOffsetTable"}
_QUEUE_ID_DIGITS = 10


def decode(data: bytes, where: str) -> ConsumerOffsets:
    """Return the content of a consumerOffset.json; of a repeated key the later value counts.

    Raises:
        DamagedStoreError: they are no such file; names `where`, the byte, and what was expected there.
    """
    if len(data) > SIZE_LIMIT:
        raise DamagedStoreError(f"{where}: over {SIZE_LIMIT} bytes; this is no {FILE_NAME}")
    plain = _decode_plain(data)
    if plain is not None:
        return plain
    reader = _TokenReader(data, where)
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
        found = json.loads(_quoted(data).decode(), parse_float=_refuse, parse_constant=_refuse)
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
    return type(value) is dict and all(type(one) is int and -(1 << 63) <= one < 1 << 63 for one in value.values())


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


def _quoted(data: bytes) -> bytes:
    """Return the text with its bare queue ids in quotes.

    Within a text such a quote would end the text before a digit, which is no JSON.
    """
    # The same few ids again: replacing each everywhere is quicker than looking at each place.
    found = set(_BARE_KEY.findall(data))
    if len(found) > _MOST_REPLACED:
        return _BARE_KEY.sub(lambda match: _quoted_id(match[0]), data)
    for text in found:
        data = data.replace(text, _quoted_id(text))
    return data


def _quoted_id(text: bytes) -> bytes:
    begin = text[:1] + text[1:].lstrip()
    return begin[:1] + b'"' + begin[1:-1] + b'":'


def version_of(value: Any) -> DataVersion | None:
    """Return the data version in a member dataVersion; None if it has another shape."""
    if not isinstance(value, dict):
        return None
    numbers = (value.get(name, 0) for name in ("counter", "stateVersion", "timestamp"))
    return DataVersion(*(number if isinstance(number, int) else 0 for number in numbers))


def _topics(value: Any) -> dict[str, list[str]] | None:
    """Return the map of groups; None if it has another shape, since RocketMQ does not read it."""
    if not isinstance(value, dict) or not all(isinstance(topics, list) for topics in value.values()):
        return None
    if not all(isinstance(topic, str) for topics in value.values() for topic in topics):
        return None
    return value


class _Token(NamedTuple):
    """A piece of the text: its kind, its bytes, and the byte at which it starts."""

    kind: str
    text: bytes
    offset: int


class _TokenReader:
    """A reader that goes over the text once, token by token."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._where = where
        self._place = 0

    def next(self) -> _Token:
        """Return the next token; one of kind `wrong` if none begins."""
        found = _TOKEN.match(self._data, self._place)
        if found is None or found.lastgroup is None:
            rest = self._data[self._place :]
            start = len(self._data) - len(rest.lstrip(b" \t\r\n"))
            return _Token("wrong", self._data[start : start + 1], start)
        self._place = found.end()
        kind = found.lastgroup
        return _Token(kind, found[kind], found.start(kind))

    def error(self, token: _Token, expected: str) -> DamagedStoreError:
        """Return an error that says what was expected in place of a token."""
        found = "it ends there" if token.kind == "end" else f"found {token.text[:40]!r}"
        return DamagedStoreError(f"{self._where}: damaged at byte {token.offset}: {expected} was expected, {found}")

    def members(self, first: _Token | None = None) -> Iterator[_Token]:
        """Yield the keys of the object that begins here. The caller reads each key's value before the next key."""
        opening = first or self.next()
        if opening.text != b"{":
            raise self.error(opening, "{")
        key = self.next()
        while key.text != b"}":
            if key.kind not in ("text", "number"):
                raise self.error(key, "a key or }")
            colon = self.next()
            if colon.text != b":":
                raise self.error(colon, ":")
            yield key
            separator = self.next()
            if separator.text == b"}":
                return
            if separator.text != b",":
                raise self.error(separator, ", or }")
            key = self.next()

    def string(self, token: _Token) -> str:
        """Return a token's text."""
        try:
            text = str(json.loads(token.text.decode())) if token.kind == "text" else token.text.decode()
            text.encode()  # half a character can be written as an escape
        except ValueError:
            raise self.error(token, "valid text") from None
        return text

    def whole(self, token: _Token, bits: int, what: str) -> int:
        """Return a token's whole number, in quotes or not, of at most `bits` bits and a sign."""
        found = _WHOLE_NUMBER.fullmatch(token.text)
        if found is not None and -(1 << bits) <= (number := int(found[1])) < 1 << bits:
            return number
        raise self.error(token, what)

    def value(self, depth: int = 0) -> Any:
        """Return any value: dict, list, str, int; None for everything that this file does not use."""
        token = self.next()
        if token.kind == "text":
            return self.string(token)
        if token.kind == "number":
            return self.whole(token, 63, "a number of 64 bits")
        if token.kind == "other":
            return None
        if token.text not in (b"{", b"[") or depth > _DEPTH_LIMIT:
            raise self.error(token, "a value" if depth <= _DEPTH_LIMIT else f"at most {_DEPTH_LIMIT} levels")
        if token.text == b"{":
            return {self.string(key): self.value(depth + 1) for key in self.members(token)}
        return self._list(depth)

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while True:
            place = self._place
            if self.next().text == b"]":
                return values
            self._place = place
            values.append(self.value(depth + 1))
            separator = self.next()
            if separator.text == b"]":
                return values
            if separator.text != b",":
                raise self.error(separator, ", or ]")
