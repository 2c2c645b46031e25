"""The one way out: verbs hand over values, and this seam makes text for people or JSON for machines of them.

Data goes to stdout; notes, progress and warnings go to stderr.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

_NAME_WIDTH = 60
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def emit_json(value: Any) -> None:
    """One JSON document on stdout; bytes that are no text are kept as escapes."""
    click.echo(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def emit_json_lines(values: Iterable[Any]) -> None:
    """A JSON document a line, all in one write."""
    lines = "\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    click.echo(lines.encode("utf-8", "backslashreplace"))


def say(text: str) -> None:
    """One line for people on stderr; a stderr that cannot be written is no reason to stop a job."""
    with contextlib.suppress(OSError):
        click.echo(printable(text), err=True)


def redraw(text: str) -> None:
    """The line that changes on a terminal, on stderr, from its start."""
    with contextlib.suppress(OSError):
        click.echo(f"\r{printable(text)}", nl=False, err=True)


def show(text: str) -> None:
    """One line of data on stdout."""
    click.echo(printable(text))


@contextlib.contextmanager
def reporting(what_is_done: str) -> Iterator[None]:
    """A block that gives the report of work that is done: output that fails must not look as if the work had."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        error.add_note(what_is_done)
        raise


def printable(text: str) -> str:
    """`text` without control characters (a topic may hold any) and without halves of characters."""
    kept = text.encode("utf-8", "backslashreplace").decode()
    return "".join(
        character if character.isprintable() or character in "\n\t" else repr(character)[1:-1] for character in kept
    )


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on stdout: numbers to the right, drawn by rich on a terminal, plain and tab-separated elsewhere."""
    if not rows:
        return
    if not sys.stdout.isatty():
        show(f"{title}:" if title else "")
        for row in (columns, *rows):
            show("\t".join(str(cell) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left")
    for number, column in enumerate(columns):
        right = isinstance(rows[0][number], int | float)
        table.add_column(column, justify="right" if right else "left")
    for row in rows:
        table.add_row(*(Text(printable(_cell(cell))) for cell in row))
    Console().print(table)


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
    from datetime import datetime

    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(" ", "milliseconds")
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
