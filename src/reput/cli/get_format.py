"""The line that `reput get --format` makes of a message: kcat's letters, and bytes as they are stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from reput.formats import properties as props

if TYPE_CHECKING:
    from reput.store.message import StoredMessage

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PIECE = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|[^%\\]+", re.DOTALL)


def _headers(message: StoredMessage) -> bytes:
    named = props.decode_properties(message.record.properties)
    return b",".join(name + b"=" + value for name, value in named.items())


def _key(message: StoredMessage) -> bytes:
    return props.decode_properties(message.record.properties).get(props.KEYS, b"")


_LETTERS: dict[str, Callable[[StoredMessage], bytes]] = {
    "t": lambda message: message.record.topic,
    "p": lambda message: b"%d" % message.queue_id,
    "o": lambda message: b"%d" % message.queue_offset,
    "k": _key,
    "K": lambda message: b"%d" % len(_key(message)),
    "s": lambda message: message.body,
    "S": lambda message: b"%d" % len(message.body),
    "T": lambda message: b"%d" % message.store_timestamp,
    "h": _headers,
    "%": lambda _: b"%",
}
LETTERS_HELP = """\
%t topic, %p queue, %o queue offset, %k keys, %K their length, %s body, %S its length, %T store time (ms), %h
properties (NAME=VALUE with commas between), %% a percent sign; \\n \\t \\r \\0 \\\\ \\xFF\
"""


def formatter(text: str) -> Callable[[StoredMessage], bytes]:
    """The function that makes a message's line.

    Raises:
        click.BadParameter: the text has letters that mean nothing.
    """
    pieces: list[bytes | Callable[[StoredMessage], bytes]] = []
    for found in _PIECE.finditer(text):
        letter, escape = found[1], found[2]
        if letter is not None:
            if letter not in _LETTERS:
                raise click.BadParameter(f"no %{letter}; there are {LETTERS_HELP}", param_hint="--format")
            pieces.append(_LETTERS[letter])
        elif escape is not None:
            pieces.append(_escaped(escape, "--format"))
        else:
            pieces.append(found[0].encode("utf-8", "surrogateescape"))

    def line(message: StoredMessage) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(message) for piece in pieces)

    return line


def delimiter(text: str) -> bytes:
    r"""The bytes that `-D` names: text with `\n`, `\0` and their like.

    Raises:
        click.BadParameter: a backslash is followed by something else.
    """
    pieces = re.split(r"\\(x[0-9a-fA-F]{2}|.?)", text, flags=re.DOTALL)
    return b"".join(
        _escaped(piece, "-D") if number % 2 else piece.encode("utf-8", "surrogateescape")
        for number, piece in enumerate(pieces)
    )


def _escaped(escape: str, option: str) -> bytes:
    if len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    if escape not in _ESCAPES:
        raise click.BadParameter(f"no \\{escape}; there are \\n \\t \\r \\0 \\\\ and \\xFF", param_hint=option)
    return _ESCAPES[escape]
