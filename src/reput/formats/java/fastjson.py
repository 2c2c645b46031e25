"""JSON as the broker's fastjson writes it, which JSON parsers refuse.

Whole numbers as keys may have no quotes. A map whose keys are objects, such as queues, has them as they are:
`{{"brokerName":"b","queueId":0,"topic":"t"}:5}`.

Source: fastjson 1.2.83, fastjson2 2.0.61.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError

JAVASCRIPT_MAX = (1 << 53) - 1
"""The highest number that `JSONWriter.Feature.BrowserCompatible` writes as a number; higher ones become texts."""
_DEPTH_LIMIT = 32
_MOST_REPLACED = 64

_BARE_KEY = re.compile(rb"[{,][ \t\r\n]*+-?[0-9]++[ \t\r\n]*+:")
# A key looks like text inside a string, so the pattern matches both: strings first, bare keys second.
_TEXT_OR_OBJECT_KEY = re.compile(
    rb'("(?:[^"\\]|\\.)*+")|([{,]\s*+)(\{(?:"(?:[^"\\]|\\.)*+"|[^{}"])*+\})(\s*+:)', re.DOTALL
)
_TEXT_OR_BARE_KEY = re.compile(rb'("(?:[^"\\]|\\.)*+")|([{,]\s*+)(-?[0-9]++)(\s*+:)', re.DOTALL)


def parse_fastjson(data: bytes) -> Any:
    """Parse JSON as the broker writes it, with unquoted whole-number keys; None if it is not that either."""
    text = data.decode("utf-8", "replace").encode()
    for form in (bytes, quoted_keys, _quoted_outside_texts):
        try:
            return json.loads(form(text))
        except (ValueError, RecursionError):
            continue
    return None


def parse_object_keyed(data: bytes) -> Any:
    """Parse JSON in which keys may be objects or bare numbers; such an object becomes its own JSON text.

    None if it is not that either.
    """
    return parse_fastjson(_TEXT_OR_OBJECT_KEY.sub(_as_text_key, data))


def _as_text_key(found: re.Match[bytes]) -> bytes:
    return found[1] or found[2] + json.dumps(found[3].decode("utf-8", "replace")).encode() + found[4]


def write_fastjson(value: Any) -> bytes:
    """Return JSON in one line, as `JSON.toJSONBytes` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def write_fastjson_file(value: Any) -> bytes:
    """Return JSON indented by tabs, as `RemotingSerializable.toJson` writes it into files."""
    text = json.dumps(value, ensure_ascii=False, indent="\t", separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def indented(brackets: str, entries: Iterable[str], depth: int) -> str:
    """Return entries, a line each, between two brackets at `depth`, as fastjson 2 does; `{}` or `[]` without any."""
    line = "\n" + "\t" * depth
    joined = f",{line}\t".join(entries)
    return f"{brackets[0]}{line}\t{joined}{line}{brackets[1]}" if joined else brackets


def quoted_keys(data: bytes) -> bytes:
    """Return the text with its bare whole-number keys in quotes.

    It is no JSON if a text in it looks like such a key: there a quote ends the text before a digit.
    """
    # The same few keys come again: replacing each everywhere is quicker than looking at each place.
    found = set(_BARE_KEY.findall(data))
    if len(found) > _MOST_REPLACED:
        return _BARE_KEY.sub(lambda match: _quoted_key(match[0]), data)
    for text in found:
        data = data.replace(text, _quoted_key(text))
    return data


def _quoted_key(text: bytes) -> bytes:
    return text[:1] + b'"' + text[1:-1].strip() + b'":'


def _quoted_outside_texts(data: bytes) -> bytes:
    return _TEXT_OR_BARE_KEY.sub(lambda match: match[1] or b'%b"%b"%b' % (match[2], match[3], match[4]), data)


# --- reading by tokens, with the place of an error -----------------------------------------------

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


class FastjsonToken(NamedTuple):
    """A piece of the text: its kind, its bytes, and the byte at which it starts."""

    kind: str
    text: bytes
    offset: int


class FastjsonReader:
    """A reader that goes over the text once, token by token."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._where = where
        self._place = 0

    def next(self) -> FastjsonToken:
        """Return the next token; one of kind `wrong` if none begins."""
        found = _TOKEN.match(self._data, self._place)
        if found is None or found.lastgroup is None:
            rest = self._data[self._place :]
            start = len(self._data) - len(rest.lstrip(b" \t\r\n"))
            return FastjsonToken("wrong", self._data[start : start + 1], start)
        self._place = found.end()
        kind = found.lastgroup
        return FastjsonToken(kind, found[kind], found.start(kind))

    def error(self, token: FastjsonToken, expected: str) -> DamagedStoreError:
        """Return an error that says what was expected in place of a token."""
        found = "it ends there" if token.kind == "end" else f"found {token.text[:40]!r}"
        return DamagedStoreError(f"{self._where}: damaged at byte {token.offset}: {expected} was expected, {found}")

    def members(self, first: FastjsonToken | None = None) -> Iterator[FastjsonToken]:
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

    def string(self, token: FastjsonToken) -> str:
        """Return a token's text."""
        try:
            text = str(json.loads(token.text.decode())) if token.kind == "text" else token.text.decode()
            text.encode()  # half a character can be written as an escape
        except ValueError:
            raise self.error(token, "valid text") from None
        return text

    def whole(self, token: FastjsonToken, bits: int, what: str) -> int:
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
