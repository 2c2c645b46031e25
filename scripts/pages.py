#!/usr/bin/env python
"""Runs the commands that the pages of docs/ show, and writes what they print into the pages.

    python scripts/pages.py             every page, and the picture of the terminal
    python scripts/pages.py FILE ...    these pages

A page shows commands in fenced blocks with the language `console`: a line that begins with `$ ` is a command, the
lines after it are its output. `<!-- store: NAME -->` before a block makes a new /data/store; see `STORES`.
Commands run in this process, without Spark, on a terminal of 100 columns whose stderr is a pipe.
Text that differs in times and speeds alone is kept, so a second run changes nothing.
"""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
DOCS = ROOT / "docs"
PICTURE = DOCS / "terminal.svg"
PICTURED = """\
<!-- store: basic -->
```console
$ rm -r /data/store/consumequeue /data/store/index
$ reput rebuild /data/store --quiet
$ reput check /data/store --quiet
```
"""
COLUMNS = 100
SHOWN, ACTUAL = "/data/", "data1/"
"""The name that pages give to the folder of a run, and its path there; they are as long, so that tables are as wide."""
_DIRECTIVE = r"<!-- store: (?P<store>[\w-]+) -->\n"
_BLOCK = r"```console\n(?P<block>.*?)```"
_CHANGING = re.compile(
    r"\(decode [^)]*\)"  # seconds a stage
    r"|\d[\d.,]* (?:m?s\b|hours?\b|(?:messages|records|[KMG]iB|B)/s|[KMG]iB are free)"
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?"
    r"|process \d+|\d+[dhm] \d+[hms]\b"
)


_OF_SLOW_MACHINES = re.compile(r"note: decoding .* took ")


def main(names: list[str]) -> None:
    """Bring the named pages, or all and the picture, up to date."""
    for page in [Path(name).resolve() for name in names] or pages():
        text = page.read_text("utf-8")
        page.write_text(renewed(text), "utf-8")
    if not names:
        picture = terminal_picture()
        if not PICTURE.exists() or pictured(PICTURE.read_text("utf-8")) != pictured(picture):
            PICTURE.write_text(picture, "utf-8")


def pages() -> list[Path]:
    """Every page that shows commands."""
    return [page for page in sorted(DOCS.rglob("*.md")) if "```console\n" in page.read_text("utf-8")]


def renewed(page: str) -> str:
    """The text of a page with the output that its commands have now."""
    with Session() as session:
        return re.sub(f"{_DIRECTIVE}|{_BLOCK}", lambda found: _part(session, found), page, flags=re.DOTALL)


def _part(session: Session, found: re.Match[str]) -> str:
    if found["store"] is not None:
        session.begin(found["store"])
        return found[0]
    block = str(found["block"])
    commands = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
    after = "".join(f"$ {command}\n{plain(session.run(command))}" for command in commands)
    return found[0] if without_changing(after) == without_changing(block) else f"```console\n{after}```"


def without_changing(text: str) -> str:
    """A text without what changes from run to run: times, speeds, free room, process ids."""
    return _CHANGING.sub("*", text)


def plain(text: str) -> str:
    """Output without colours, blanks at the ends of lines, and notes that only a slow machine has."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines if not _OF_SLOW_MACHINES.match(line))


# --- stores ----------------------------------------------------------------------------------------


def _golden(name: str, folder: Path) -> Path:
    """A copy of a store that RocketMQ wrote, as folder/store."""
    from support import golden

    with mock.patch.dict(os.environ):
        golden.use_given(False)
        return golden.unpack(name, folder).rename(folder / "store")


def _exhibit(number: str, folder: Path) -> Path:
    """The state that a public issue left, from the museum."""
    from support import golden, museum

    with mock.patch.dict(os.environ):
        golden.use_given(False)
        return museum.make(number, folder)


def _lost(folder: Path) -> None:
    store = _golden("basic", folder)
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")
    from support.golden import CONFIG

    (folder / "broker.conf").write_text(CONFIG)


def _damaged(folder: Path) -> None:
    """One body in the middle of the log has a wrong byte."""
    file = _golden("basic", folder) / "commitlog" / f"{1 << 20:020d}"
    data = bytearray(file.read_bytes())
    data[500_000] ^= 0xFF
    file.write_bytes(data)


def _torn(folder: Path) -> None:
    """A store that was not closed; the last record has no end."""
    from reput import info

    store = _golden("crash", folder)
    end = info(store).log.max_offset
    file = store / "commitlog" / f"{end >> 20 << 20:020d}"
    data = bytearray(file.read_bytes())
    data[end % (1 << 20) - 100 :] = bytes(len(data) - end % (1 << 20) + 100)
    file.write_bytes(data)


def _new(folder: Path) -> None:
    (folder / "lines.txt").write_text("one apple\na pear\na fig\n")


STORES: dict[str, Callable[[Path], object]] = {
    **{
        name: lambda folder, name=name: _golden(name, folder)
        for name in ("basic", "crash", "batch", "double", "ext", "pending", "rocksdb")
    },
    "lost": _lost,
    "damaged": _damaged,
    "torn": _torn,
    "new": _new,
}
"""The stores that `<!-- store: NAME -->` makes; `new` has no store yet, and a file lines.txt."""
EXHIBIT = "issue-"
"""`<!-- store: issue-7355 -->` makes the state of that issue, from `tests/support/museum`."""


# --- commands --------------------------------------------------------------------------------------


class Screen(io.TextIOWrapper):
    """The stream that a command writes to; `isatty` decides whether it seems a terminal."""

    def __init__(self, memory: io.BytesIO, is_terminal: bool) -> None:
        super().__init__(memory, "utf-8", write_through=True)
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        """Return True if the command shall take this for a terminal."""
        return self.is_terminal


_TOGETHER: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


class Session(contextlib.ExitStack):
    """A folder with a store, in which commands run one after the other."""

    def __enter__(self) -> Self:
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory())).resolve() / ACTUAL
        self.folder.mkdir()
        self.code = 0
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "COLUMNS": str(COLUMNS), "LINES": "50", "PATH": path}
        self.callback(time.tzset)
        self.enter_context(mock.patch.dict(os.environ, environment))
        time.tzset()
        self.enter_context(contextlib.chdir(self.folder.parent))
        return self

    def begin(self, store: str) -> None:
        """Make a new /data/store in place of what is there."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if store.startswith(EXHIBIT):
            _exhibit(store.removeprefix(EXHIBIT), self.folder)
        else:
            STORES[store](self.folder)

    def run(self, command: str) -> str:
        """Return what a command prints, both streams in their order."""
        if command == "echo $?":
            return f"{self.code}\n"
        actual = command.replace(SHOWN, ACTUAL)
        before, reput, after = actual.partition("reput ")
        if not reput or (before and not before.endswith("| ")):
            output, self.code = self._shell(actual), 0
        else:
            given = self._shell(before.removesuffix("| ")).encode() if before else b""
            output = self._reput(after, given)
        return output.replace(f"{self.folder.parent}/", "").replace(ACTUAL, SHOWN)

    def _reput(self, arguments: str, given: bytes) -> str:
        arguments, piped, into = arguments.partition(" | ")
        arguments, redirected, source = arguments.partition(" < ")
        if redirected:
            given = Path(source).read_bytes()
        from reput.cli.main import run

        arguments, together, _ = arguments.partition(" 2>&1")
        memory = io.BytesIO()
        aside = io.BytesIO() if piped and not together else memory
        out, err = Screen(memory, not piped), Screen(aside, False)
        stdin = io.TextIOWrapper(io.BytesIO(given), "utf-8")
        with contextlib.ExitStack() as patches:
            patches.enter_context(contextlib.redirect_stdout(out))
            patches.enter_context(contextlib.redirect_stderr(err))
            patches.enter_context(mock.patch("sys.stdin", stdin))
            if "--master" not in arguments:
                for name, found in (("has_pyspark", False), ("active_context", None)):
                    patches.enter_context(mock.patch(f"reput.pipeline.spark.session.{name}", return_value=found))
            self.code = run(shlex.split(arguments, comments=True))
        output = memory.getvalue().decode()
        before = aside.getvalue().decode() if aside is not memory else ""
        return before + self._shell(into, output) if piped else output

    def _shell(self, command: str, given: str = "") -> str:
        done = subprocess.run(command, shell=True, check=True, input=given, text=True, **_TOGETHER)
        return str(done.stdout)


# --- the picture -----------------------------------------------------------------------------------


def terminal_picture() -> str:
    """A picture (SVG) of the terminal in which the commands of `PICTURED` ran."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    console = Console(
        record=True, file=io.StringIO(), width=COLUMNS + 36, force_terminal=True, color_system="truecolor"
    )
    with Session() as session:
        for line in _lines_of(session):
            console.print(Text.from_ansi(line.rstrip()), no_wrap=True, crop=True)
    # A picture loads no font from another server.
    format_ = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="reput", code_format=format_, unique_id="reput")


def pictured(picture: str) -> str:
    """The text that a picture shows, without what changes from run to run."""
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    return without_changing(html.unescape("\n".join(lines)).replace("\xa0", " "))


def _lines_of(session: Session) -> Iterator[str]:
    for found in re.finditer(f"{_DIRECTIVE}|^\\$ (?P<command>.*)$", PICTURED, re.MULTILINE):
        if found["store"] is not None:
            session.begin(found["store"])
            continue
        yield f"\x1b[1;32m$\x1b[0m \x1b[1m{found['command']}\x1b[0m"
        yield from session.run(found["command"]).splitlines()


if __name__ == "__main__":
    main(sys.argv[1:])
