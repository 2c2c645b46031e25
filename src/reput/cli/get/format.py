"""The line that `reput get --format` makes of a message: kcat's letters, and the stored bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from reput.cli.get.names import LETTERS_HELP
from reput.cli.shared import output
from reput.cli.shared.bodies import AS_STORED
from reput.cli.shared.lines import LineForm, LineStep
from reput.formats.log import properties as props
from reput.formats.stored_text import stored_bytes
from reput.kernels.layouts.fields import FieldRow
from reput.kernels.layouts.lines import LinePiece

if TYPE_CHECKING:
    from reput.cli.shared.bodies import Bodies
    from reput.formats.log.record import Record

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PIECE = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|[^%\\]+", re.DOTALL)


def _headers(record: Record) -> bytes:
    return b",".join(name + b"=" + value for name, value in props.decode_properties(record.properties).items())


def _key(record: Record) -> bytes:
    return props.decode_properties(record.properties).get(props.KEYS, b"")


_LETTERS: dict[str, tuple[LineStep, Callable[[Record], bytes]]] = {
    "t": ((LinePiece.BYTES, FieldRow.TOPIC_AT, 0), lambda record: record.topic),
    "p": ((LinePiece.NUMBER, FieldRow.QUEUE_ID, 0), lambda record: b"%d" % record.queue_id),
    "o": ((LinePiece.NUMBER, FieldRow.QUEUE_OFFSET, 0), lambda record: b"%d" % record.queue_offset),
    "k": ((LinePiece.BYTES, FieldRow.KEYS_AT, 0), _key),
    "K": ((LinePiece.LENGTH, FieldRow.KEYS_AT, 0), lambda record: b"%d" % len(_key(record))),
    "s": ((LinePiece.BYTES, FieldRow.BODY_AT, 0), lambda record: record.body),
    "S": ((LinePiece.LENGTH, FieldRow.BODY_AT, 0), lambda record: b"%d" % len(record.body)),
    "T": ((LinePiece.NUMBER, FieldRow.STORE_TIMESTAMP, 0), lambda record: b"%d" % record.store_timestamp),
    "h": ((LinePiece.PAIRS, FieldRow.PROPERTIES_AT, 0), _headers),
}
"""The piece of a line that each letter writes, for many records and for a single one."""


def format_form(text: str, bodies: Bodies = AS_STORED) -> LineForm:
    """Return the form of a message's line.

    Raises:
        click.BadParameter: The text has unknown letters.
    """
    steps: list[LineStep] = []
    makers: list[bytes | Callable[[Record], bytes]] = []
    for found in _PIECE.finditer(text):
        letter, escape = found[1], found[2]
        if letter in _LETTERS:
            step, maker = _LETTERS[letter]
            steps.append(step)
            makers.append(maker)
            continue
        if letter is not None and letter != "%":
            raise click.BadParameter(f"no %{letter}; there are {LETTERS_HELP}", param_hint="--format")
        plain = stored_bytes(found[0]) if escape is None else _escaped(escape, "--format")
        steps.append(b"%" if letter == "%" else plain)
        makers.append(b"%" if letter == "%" else plain)

    def one(record: Record) -> bytes:
        record = record._replace(body=bodies.of(record).body)
        return b"".join(maker if isinstance(maker, bytes) else maker(record) for maker in makers)

    return LineForm(steps, one, output.show_bytes, bodies)


def delimiter(text: str) -> bytes:
    r"""Return the bytes of `-D`: a text with escapes such as `\n` and `\0`.

    Raises:
        click.BadParameter: The text has an unknown escape.
    """
    pieces = re.split(r"\\(x[0-9a-fA-F]{2}|.?)", text, flags=re.DOTALL)
    return b"".join(_escaped(piece, "-D") if number % 2 else stored_bytes(piece) for number, piece in enumerate(pieces))


def _escaped(escape: str, option: str) -> bytes:
    if len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    if escape not in _ESCAPES:
        raise click.BadParameter(f"no \\{escape}; there are \\n \\t \\r \\0 \\\\ and \\xFF", param_hint=option)
    return _ESCAPES[escape]
