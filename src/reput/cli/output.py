"""The one way out: verbs hand over values, and this seam makes text for people or JSON for machines of them.

Data goes to stdout; notes, progress and warnings go to stderr. On a terminal each line appears at once. A pipe or a
file gets large writes. What is older than a moment goes out with the next line, everything goes out before a line on
stderr, and a verb that waits calls `flush` first.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import click

_NAME_WIDTH = 60
_SECONDS_KEPT = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


_HELD_BACK_S = 0.1
"""Lines older than this are not held back when another one comes."""
_json_text = json.JSONEncoder(ensure_ascii=False).encode
_flushed_at = 0.0
_NOT_PLAIN = re.compile(rb"[^\n\t\x20-\x7e]")


def emit_json(value: Any) -> None:
    """One JSON document on stdout; bytes that are no text are kept as escapes."""
    _write_json(_json_text(value))


def json_line(value: Any) -> bytes:
    """A JSON document as `emit_json` writes it."""
    return _json_text(value).encode("utf-8", "backslashreplace") + b"\n"


def emit_json_lines(values: Iterable[Any]) -> None:
    """A JSON document a line, all in one write."""
    _write_json("\n".join(map(_json_text, values)))


def _write_json(text: str) -> None:
    """Write JSON, which is UTF-8 whatever stdout's own encoding is."""
    if sys.stdout.encoding.lower() == "utf-8":
        _write(_without_halves(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()


def _write(text: str) -> None:
    """Write a line to stdout; Python's own buffers gather lines where stdout is no terminal."""
    sys.stdout.write(f"{text}\n")
    if time.monotonic() - _flushed_at > _HELD_BACK_S:
        flush()


def flush() -> None:
    """Let everything out that was shown so far: whoever waits for it has it now."""
    global _flushed_at  # noqa: PLW0603 - stdout is one for the process, and so is the time
    sys.stdout.flush()
    _flushed_at = time.monotonic()


def say(text: str) -> None:
    """One line for people on stderr, after all data so far; a stderr that cannot be written stops no job."""
    flush()
    with contextlib.suppress(OSError):
        click.echo(printable(text), err=True)


def redraw(text: str) -> None:
    """The line that changes on a terminal, on stderr, from its start."""
    flush()
    with contextlib.suppress(OSError):
        click.echo(f"\r{printable(text)}", nl=False, err=True)


def show(text: str) -> None:
    """One line of data on stdout."""
    _write(printable(text))


def show_lines(lines: bytes | memoryview) -> None:
    """Many lines of data on stdout at once, in UTF-8, each as `show` shows it."""
    if sys.stdout.encoding.lower() != "utf-8":
        for line in bytes(lines).decode().split("\n")[:-1]:
            show(line)
        return
    if _NOT_PLAIN.search(lines) is not None:
        text = bytes(lines).decode()
        if not _is_printable(text):
            lines = "\n".join(map(printable, text.split("\n"))).encode()
    show_bytes(lines)


def show_bytes(data: bytes | memoryview) -> None:
    """Bytes on stdout as they are, without a newline."""
    sys.stdout.buffer.write(data)
    if sys.stdout.line_buffering or time.monotonic() - _flushed_at > _HELD_BACK_S:
        flush()


@contextlib.contextmanager
def reporting(what_is_done: str) -> Iterator[None]:
    """A block that gives the report of work that is done: output that fails must not look as if the work had."""
    try:
        yield
        flush()
    except OSError as error:
        error.add_note(what_is_done)
        raise


def printable(text: str) -> str:
    """`text` without control characters (a topic may hold any) and without halves of characters."""
    if _is_printable(text):
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else repr(character)[1:-1]
        for character in _without_halves(text)
    )


def _is_printable(text: str) -> bool:
    return text.replace("\t", " ").replace("\n", " ").isprintable()


def _without_halves(text: str) -> str:
    """`text` with halves of characters, which no encoding has, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, split_by_first: bool = False
) -> None:
    """A table on stdout: numbers to the right, drawn by rich on a terminal, plain and tab-separated elsewhere.

    `split_by_first`: on a terminal each value of the first column has a table of its own, which leaves room for the
    other columns. What is still too wide is folded there: nothing is cut.
    """
    if not rows:
        return
    if not sys.stdout.isatty():
        show(f"{title}:" if title else "")
        for row in (columns, *rows):
            show("\t".join(str(cell) for cell in row))
        return
    if split_by_first:
        for first in dict.fromkeys(row[0] for row in rows):
            _draw(f"{title} of {printable(str(first))}", columns[1:], [row[1:] for row in rows if row[0] == first])
        return
    _draw(title, columns, rows)


def _draw(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for number, column in enumerate(columns):
        is_number = any(isinstance(row[number], int | float) for row in rows)
        # A number that is folded would be two numbers.
        whole = [*column.split(), *(_cell(row[number]) for row in rows if is_number)]
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(column, justify=justify, overflow="fold", min_width=max(map(len, whole), default=0))
    for row in rows:
        table.add_row(*(Text(printable(_cell(cell))) for cell in row))
    Console().print(table)


def time_in_table(timestamp_ms: int) -> str:
    """A time for a table that people see, to the second; with its milliseconds and zone where stdout is no terminal."""
    text = time_text(timestamp_ms)
    return text[:19] if sys.stdout.isatty() and len(text) > 19 else text


def name_in_table(name: str) -> str:
    """A name that may be long, cut for a table that people see; whole where stdout is no terminal."""
    return name if len(name) < _NAME_WIDTH or not sys.stdout.isatty() else f"{name[: _NAME_WIDTH - 4]}..."


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def counted(count: int, noun: str, many: str = "") -> str:
    """A number with its noun: `many` is the plural where an s does not make it."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def size_text(size: float) -> str:
    """A number of bytes as people read it."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def time_text(timestamp_ms: int) -> str:
    """A time in milliseconds as local date and time; the number itself where it is no date of ours."""
    second, ms = divmod(timestamp_ms, 1000)
    try:
        begin, zone = second_texts(second)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return f"{begin}.{ms:03d}{zone}"


@functools.lru_cache(_SECONDS_KEPT)
def second_texts(second: int) -> tuple[str, str]:
    """A second as local date and time, and its zone: consecutive messages share them."""
    from datetime import datetime

    text = datetime.fromtimestamp(second).astimezone().isoformat(" ", "milliseconds")
    begin, _, behind = text.partition(".")
    return begin, behind[3:]
