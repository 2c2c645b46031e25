"""Messages from the lines of `reput put`: each line is a body or a JSON object."""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from reput.cli.shared.output import counted
from reput.errors import ConfigError
from reput.files import fs
from reput.formats.log.properties import keys_of
from reput.formats.log.property_names import CRC32, DELAY, INNER_MULTI_QUEUE_OFFSET, KEYS, TAGS, UNIQUE_KEY
from reput.formats.log.record import COMPRESSION_MASK, FLAG_COMPRESSED, FLAG_INNER_BATCH
from reput.formats.topics.topic_names import topic_fault
from reput.log.encode.message import NOBODY_DELIVERS, Message

_FIELDS = {
    "topic": "text",
    "queue_id": "a whole number of 32 bits",
    "body": "text",
    "body_base64": "text",
    "tags": "text",
    "keys": "a text or a list of texts",
    "properties": "an object of texts",
    "born_timestamp": "a whole number of 64 bits (ms)",
    "flag": "a whole number of 32 bits",
    "reconsume_times": "a whole number of 32 bits",
    "unique_key": "text",
    "sys_flag": "a whole number of 32 bits",
    "body_encoding": "text or base64",
    "body_truncated": "true or false",
    "body_error": "text",
    "transaction": "text",
}
_GIVEN_ANEW = frozenset({
    "physical_offset", "size", "version", "queue_offset", "store_timestamp", "store_host", "born_host", "message_id",
    "compression", "prepared_transaction_offset", "body_crc", "body_length",
})  # fmt: skip
"""Ignored fields of `reput get --json`: the store gives new values, or another field has the same value."""
_OWN_PROPERTIES = {"tags": TAGS, "keys": KEYS, "unique_key": UNIQUE_KEY}
_NEVER_PUT = (CRC32, INNER_MULTI_QUEUE_OFFSET)
_COMPRESSION = FLAG_COMPRESSED | COMPRESSION_MASK
_ENCODINGS = ("text", "base64")
_CHUNK = 1 << 18
_LINE_MAX = 64 << 20
_NUMBERS = {"queue_id": 31, "born_timestamp": 63, "flag": 31, "sys_flag": 31, "reconsume_times": 31}
"""Bits of each number, without the sign."""


class Line(NamedTuple):
    """A line that is a message: its number from 1 on, the message, and its queue."""

    number: int
    message: Message
    queue_id: int


class Defaults(NamedTuple):
    """The values of the options, for lines that leave them out."""

    topic: str | None
    queue_id: int
    keys: list[str]
    tag: str | None
    properties: dict[str, str]
    any_topic: bool = False
    """True to take topics whose names RocketMQ's clients refuse."""


def refuse_topic(topic: str) -> None:
    """Raise ValueError if RocketMQ's clients refuse this name, so that most programs could not read the topic."""
    fault = topic_fault(topic)
    if fault is not None:
        raise ValueError(
            f"topic {topic!r:.140}: RocketMQ refuses this name ({fault}). --any-topic takes any name that a store can "
            "hold"
        )


def skip_lines(read: Callable[[int], bytes], count: int) -> bytes:
    """Skip the first `count` lines of a stream; return the bytes that were read after them. `read`: see `lines_of`.

    Raises:
        ConfigError: There are fewer lines.
    """
    left, rest = count, b""
    while left:
        chunk = _chunk(read)
        if not chunk:
            # The last line needs no newline.
            if rest:
                left, rest = left - 1, b""
            if left:
                raise ConfigError(f"--skip-lines {count}: stdin has only {counted(count - left, 'line')}")
            break
        pieces = chunk.split(b"\n", min(left, len(chunk)))
        left -= len(pieces) - 1
        rest = pieces[-1]
    return rest


def _chunk(read: Callable[[int], bytes]) -> bytes:
    with fs.errors_named("stdin", "read lines"):
        return read(_CHUNK)


def lines_of(read: Callable[[int], bytes], number: int = 1, begin: bytes = b"") -> Iterator[list[tuple[int, bytes]]]:
    """Iterate over the lines of a stream with their numbers, in lists of all lines that have come.

    The first line has this `number`; `begin` was read from the stream before. `read` reads at most that many bytes,
    and returns what has come, or nothing at the end.

    Raises:
        ConfigError: A line is longer than any message.
        ReputError: The system cannot read the stream.
    """
    rest, chunk = bytearray(), begin or _chunk(read)
    while chunk:
        first, *more = chunk.split(b"\n")
        rest += first
        if len(rest) > _LINE_MAX:
            raise ConfigError(f"line {number}: over {_LINE_MAX} bytes without an end")
        if more:
            whole = [bytes(rest), *more[:-1]]
            rest = bytearray(more[-1])
            yield list(enumerate(whole, number))
            number += len(whole)
        chunk = _chunk(read)
    if rest:
        yield [(number, bytes(rest))]


class RefusedLineError(ConfigError):
    """Line `number` of stdin is no message, or the store refuses it."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number}: {why}. {lines_before(number)}")
        self.number = number


def parse_lines(
    lines: Iterable[tuple[int, bytes]], given: Defaults, json_lines: bool
) -> tuple[list[Line], RefusedLineError | None]:
    """Return the messages of numbered lines, up to the first line that is no message, and that line's error.

    Empty lines between JSON objects are skipped.
    """
    found: list[Line] = []
    for number, data in lines:
        if not json_lines:
            found.append(Line(number, _message(given, {}, data), given.queue_id))
        elif data.strip():
            try:
                found.append(_of_json(number, data, given))
            except ValueError as error:
                return found, RefusedLineError(number, str(error))
    return found, None


def lines_before(number: int) -> str:
    """Return a sentence about the lines before a refused one."""
    return "The lines before it are stored" if number > 1 else "Nothing was stored"


def _of_json(number: int, data: bytes, given: Defaults) -> Line:
    """Return the message of one JSON line; raise ValueError if it is no message."""
    values = _object(data)
    for name, value in values.items():
        if name in _GIVEN_ANEW:
            continue
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, 1)
            fields = ", ".join(name for name in _FIELDS if name not in _TAKEN_BY_RULE)
            hint = f"{near[0]} is one" if near else f"there are {fields}"
            raise ValueError(f"no field {name!r}; {hint}")
        if not _is_of_kind(name, value):
            raise ValueError(f"{name} must be {_FIELDS[name]}, not {json.dumps(value)[:80]}")
    if DELAY in (values.get("properties") or ()):
        raise ValueError(NOBODY_DELIVERS)
    if values.get("topic") is None and given.topic is None:
        raise ValueError("no topic: name it there, or give -t")
    if not given.any_topic and values.get("topic") is not None:
        refuse_topic(values["topic"])
    if values.keys() & _TAKEN_BY_RULE:
        _apply_rules(values)
    if values.get("properties"):
        _say_once(values)
    queue_id = values.get("queue_id")
    return Line(number, _message(given, values, _body(values)), given.queue_id if queue_id is None else queue_id)


_TAKEN_BY_RULE = {"sys_flag", "body_encoding", "body_truncated", "body_error", "transaction"}


def _apply_rules(values: dict[str, Any]) -> None:
    """Change a line of `reput get --json` into one for a put; raise ValueError if the message would differ."""
    flags = values.get("sys_flag") or 0
    if values.get("body_error"):
        way = "--body raw" if values.get("body") is None else "--no-verify-crc to put it as it is"
        raise ValueError(f"body_error: {values['body_error']}. Get the message with {way}")
    if values.get("body_truncated"):
        raise ValueError("body_truncated: the body is cut. Get the message without --body-bytes")
    if values.get("transaction") in {"prepared", "rollback"}:
        raise ValueError(f"transaction {values['transaction']}: no consumer gets this message, so it is not put")
    if flags & FLAG_INNER_BATCH:
        raise ValueError(f"sys_flag {flags}: a batch in one record, which only a client takes apart")
    values["sys_flag"] = flags & _COMPRESSION
    if values.get("body_encoding") == "base64":
        values["body_base64"] = values.pop("body", None)


def _say_once(values: dict[str, Any]) -> None:
    """Drop fields that repeat a property, and properties that the store gives; `get --json` has both."""
    properties = values["properties"] = {
        name: value for name, value in values["properties"].items() if name not in _NEVER_PUT
    }
    for field, name in _OWN_PROPERTIES.items():
        said, own = properties.get(name), values.get(field)
        if said is None or own is None:
            continue
        if own == said or (field == "keys" and not isinstance(own, str) and own == keys_of(said)):
            values[field] = _NOTHING[field]


_NOTHING: dict[str, Any] = {"tags": "", "keys": [], "unique_key": None}
"""Values by which a message has none of its own, so that the options do not apply."""


def _object(data: bytes) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError(f"a JSON object is needed, not {json.dumps(values)[:80]}")  # noqa: TRY004 - one kind for a line
    return values


def _is_of_kind(name: str, value: Any) -> bool:
    if value is None:
        return True
    if name in _NUMBERS:
        bits = _NUMBERS[name]
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    if name == "keys" and isinstance(value, list):
        return all(isinstance(key, str) for key in value)
    if name == "body_truncated":
        return isinstance(value, bool)
    if name == "body_encoding":
        return value in _ENCODINGS
    if name == "properties":
        return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, str)


def _body(values: dict[str, Any]) -> bytes:
    text: str | None = values.get("body")
    encoded: str | None = values.get("body_base64")
    if (text is None) == (encoded is None):
        raise ValueError("give either body (text) or body_base64")
    if encoded is None:
        assert text is not None
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"body: half of a character at {error.start}, which UTF-8 cannot encode") from None
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise ValueError(f"body_base64: {error}") from None


def _message(given: Defaults, values: dict[str, Any], body: bytes) -> Message:
    def value(name: str, default: Any) -> Any:
        found = values.get(name)
        return default if found is None else found

    return Message(
        value("topic", given.topic),
        body,
        tags=value("tags", given.tag),
        keys=value("keys", given.keys) or None,
        properties=value("properties", given.properties) or None,
        flag=value("flag", 0),
        sys_flag=value("sys_flag", 0),
        reconsume_times=value("reconsume_times", 0),
        born_timestamp=values.get("born_timestamp"),
        unique_key=values.get("unique_key"),
    )
