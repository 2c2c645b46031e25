"""All output of the verbs: text for people, or JSON for programs.

Data goes to stdout; notes, progress and warnings go to stderr. On a terminal each line appears at once. A pipe or a
file gets large writes. Lines that are older than 0.1 s are written with the next line, all lines are written before a
line on stderr, and a verb that waits calls `flush` first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import click

from reput.texts import time_text

_NAME_WIDTH = 60
_Shown = TypeVar("_Shown")

TOPICS_SHOWN = 40
"""The most topics in a table of a store or of a job's report."""
LINES_SHOWN = 20
"""The most lines of one kind that `say_lines` writes."""

_HELD_BACK_S = 0.1
"""Lines older than this are not held back when another one comes."""
_json_text = json.JSONEncoder(ensure_ascii=False).encode
_flushed_at = 0.0
_NOT_PLAIN = re.compile(rb"[^\n\t\x20-\x7e]")


def emit_json(value: Any) -> None:
    """Write one JSON document to stdout; bytes that are no text become escapes."""
    _write_json(_json_text(value))


def json_line(value: Any) -> bytes:
    """Return a JSON document as `emit_json` writes it."""
    return _json_text(value).encode("utf-8", "backslashreplace") + b"\n"


def emit_json_lines(values: Iterable[Any]) -> None:
    """Write one JSON document on each line, all at once."""
    _write_json("\n".join(map(_json_text, values)))


def _write_json(text: str) -> None:
    """Write JSON, which is UTF-8 also if stdout has another encoding."""
    if sys.stdout.encoding.lower() == "utf-8":
        _write(_without_halves(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()


def _write(text: str) -> None:
    """Write a line to stdout. Python's buffer collects lines if stdout is no terminal."""
    sys.stdout.write(f"{text}\n")
    if time.monotonic() - _flushed_at > _HELD_BACK_S:
        flush()


def flush() -> None:
    """Write out all buffered lines."""
    global _flushed_at  # noqa: PLW0603 - stdout is one for the process, and so is the time
    sys.stdout.flush()
    _flushed_at = time.monotonic()


def say(text: str) -> None:
    """Write one line for people to stderr, after all data so far. An error of stderr stops no job."""
    flush()
    with contextlib.suppress(OSError):
        click.echo(in_one_line(text), err=True)


def say_lines(kind: str, lines: Sequence[str], total: int | None = None) -> None:
    """Write lines of one kind (`note`, `damage`, ...) to stderr: the first ones, and the number of the others.

    `total` is the number of all lines, if `lines` has only the first of them.
    """
    for line in lines[:LINES_SHOWN]:
        say(f"{kind}: {line}")
    left = (len(lines) if total is None else total) - LINES_SHOWN
    if left > 0:
        say(f"{kind}: {_rest_text(left, 'more')}")


def _rest_text(left: int, what: str) -> str:
    return f"... and {left} {what} (--json lists them all)"


def redraw(text: str) -> None:
    """Write the changing line of a terminal to stderr, from its start."""
    flush()
    with contextlib.suppress(OSError):
        click.echo(f"\r{printable(text)}", nl=False, err=True)


def show(text: str) -> None:
    """Write one line of data to stdout."""
    _write(printable(text))


def show_lines(lines: bytes | memoryview) -> None:
    """Write many lines of data (UTF-8) to stdout at once, each as `show` writes it."""
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
    """Write bytes to stdout as they are, without a newline."""
    sys.stdout.buffer.write(data)
    if sys.stdout.line_buffering or time.monotonic() - _flushed_at > _HELD_BACK_S:
        flush()


@contextlib.contextmanager
def reporting(what_is_done: str) -> Iterator[None]:
    """Run a block that reports finished work. If its output fails, the error says that the work is done."""
    try:
        yield
        flush()
    except OSError as error:
        error.add_note(what_is_done)
        raise


def printable(text: str) -> str:
    """Return `text` with escapes for control characters (a topic may have any) and for halves of characters."""
    return text if _is_printable(text) else _escaped(text, "\n\t")


def in_one_line(text: str) -> str:
    """Return `text` with these escapes, and with those for tabs and ends of lines, which would look like more rows."""
    return text if text.isprintable() else _escaped(text)


def _escaped(text: str, kept: str = "") -> str:
    return "".join(
        character if character.isprintable() or character in kept else repr(character)[1:-1]
        for character in _without_halves(text)
    )


def _is_printable(text: str) -> bool:
    return text.replace("\t", " ").replace("\n", " ").isprintable()


def _without_halves(text: str) -> str:
    """Return `text` with escapes for halves of characters, which no encoding has."""
    return text.encode("utf-8", "backslashreplace").decode()


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, split_by_first: bool = False
) -> None:
    """Write a table to stdout: on a terminal drawn by rich, with numbers to the right; elsewhere with tabs.

    With `split_by_first` each value of the first column has its own table on a terminal, which leaves room for the
    other columns. Cells that are still too wide are folded: nothing is cut.
    """
    if not rows:
        return
    if not sys.stdout.isatty():
        show(f"{title}:" if title else "")
        for row in (columns, *rows):
            show("\t".join(in_one_line(str(cell)) for cell in row))
        return
    if split_by_first:
        for first in dict.fromkeys(row[0] for row in rows):
            _draw(f"{title} of {in_one_line(str(first))}", columns[1:], [row[1:] for row in rows if row[0] == first])
        return
    _draw(title, columns, rows)


def show_rest(left: int, what: str) -> None:
    """Write a line below a table that has not all rows: the number of the others, if there are any."""
    if left > 0:
        show(_rest_text(left, what))


def say_first(shown: int, total: int) -> None:
    """Note that a table with the option `-c` has not all rows, if so."""
    if total > shown:
        say(f"note: these are the first {shown:,} of {total:,}; -c N shows N, --json all")


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
        # A folded number would look like two numbers.
        whole = [*column.split(), *(_cell(row[number]) for row in rows if is_number)]
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(column, justify=justify, overflow="fold", min_width=max(map(len, whole), default=0))
    for row in rows:
        table.add_row(*(Text(in_one_line(_cell(cell))) for cell in row))
    Console().print(table)


def time_in_table(timestamp_ms: int) -> str:
    """Return a time for a table: to the second on a terminal, elsewhere with milliseconds and zone."""
    text = time_text(timestamp_ms)
    return text[:19] if sys.stdout.isatty() and len(text) > 19 else text


def name_in_table(name: str) -> str:
    """Return a name for a table: shortened on a terminal, elsewhere whole."""
    return name if len(name) < _NAME_WIDTH or not sys.stdout.isatty() else f"{name[: _NAME_WIDTH - 4]}..."


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def or_dash(value: _Shown | None, form: Callable[[_Shown], object] | None = None) -> object:
    """Return a cell for a value, in a form if one is given; a dash for a value that is unknown."""
    if value is None:
        return "-"
    return value if form is None else form(value)


def counted(count: int, noun: str, many: str = "") -> str:
    """Return a number with its noun; `many` is the plural if it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def duration_text(duration_ms: int) -> str:
    """Return a duration as text, in its two largest units."""
    seconds, rest_ms = divmod(duration_ms, 1000)
    if seconds < 60:
        return f"{seconds}.{rest_ms:03d}s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s"


def silence_stdout() -> None:
    """Point stdout to the null device if it cannot be written: Python would report another error when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit_failure(kind: str, message: str, details: Mapping[str, Any]) -> None:
    """Write the JSON document of a failure. If nobody reads it, the exit code is still that of the failure."""
    try:
        emit_json({"ok": False, "error": {"kind": kind, "message": message}, **details})
        flush()
    except BrokenPipeError:
        silence_stdout()
