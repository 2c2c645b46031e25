"""The seam through which all output goes: large writes into a pipe, lines on a terminal, one order with stderr."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reput.cli.shared import output
from support import golden

if TYPE_CHECKING:
    from pathlib import Path

LINES = 20_000


class Raw(io.RawIOBase):
    """A raw stdout: it remembers each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def writable(self) -> bool:
        """It is there to be written."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """One call of the operating system."""
        self.writes.append(bytes(data))
        return len(data)


def stdout_on(raw: Raw, *, terminal: bool = False) -> io.TextIOWrapper:
    """A stdout as Python makes it: by lines on a terminal, else by blocks."""
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", line_buffering=terminal)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_pipe_gets_large_writes(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output was flushed line by line: into a pipe a write carries many lines now, and none is lost."""
    raw = Raw()
    monkeypatch.setattr(sys, "stdout", stdout_on(raw))
    monkeypatch.setattr(output, "_HELD_BACK_S", 60.0)
    for number in range(LINES):
        if as_json:
            output.emit_json({"line": number})
        else:
            output.show(f"line {number}")
    output.flush()
    lines = b"".join(raw.writes).decode().splitlines()
    assert [json.loads(line)["line"] if as_json else int(line.split()[1]) for line in lines] == list(range(LINES))
    assert len(raw.writes) < LINES / 100


def test_a_terminal_gets_each_line_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for a terminal is out when the call returns."""
    raw = Raw()
    monkeypatch.setattr(sys, "stdout", stdout_on(raw, terminal=True))
    monkeypatch.setattr(output, "_HELD_BACK_S", 60.0)
    for number in range(10):
        output.show(str(number))
        assert b"".join(raw.writes).endswith(f"{number}\n".encode())


def test_old_lines_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that come seldom go out one by one: nobody waits for a buffer to fill."""
    raw = Raw()
    monkeypatch.setattr(sys, "stdout", stdout_on(raw))
    monkeypatch.setattr(output, "_HELD_BACK_S", -1.0)
    output.show("seldom")
    assert raw.writes == [b"seldom\n"]


def test_a_note_comes_behind_the_data_in_front_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stdout and stderr in one file the lines are in the order in which they were written."""
    raw = Raw()
    monkeypatch.setattr(sys, "stdout", stdout_on(raw))
    monkeypatch.setattr(output, "_HELD_BACK_S", 60.0)
    seen: list[bytes] = []
    monkeypatch.setattr(output.click, "echo", lambda *_, **__: seen.append(b"".join(raw.writes)))
    output.show("data")
    output.say("note")
    assert seen == [b"data\n"]


@pytest.mark.parametrize("text", ["plain\tcells\n", "\x1b[31m", "\x00", "caf\u00e9", "half \udc80 a character", ""])
def test_printable_is_the_same_by_both_ways(text: str) -> None:
    """Text that needs no escapes comes as it is; all else has every control character and half escaped."""
    shown = output.printable(text)
    assert all(character.isprintable() or character in "\n\t" for character in shown)
    assert (shown == text) == all(character.isprintable() or character in "\n\t" for character in text)


def test_a_reader_that_leaves_is_no_error() -> None:
    """`reput dump log STORE | head -1` ends with 0 and says nothing."""
    command = [sys.executable, "-m", "reput", "dump", "log", str(golden.shared("basic"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["dump", "log"]])
def test_a_closed_stdout_is_no_error(arguments: list[str], tmp_path: Path) -> None:
    """`reput info STORE >&-` ended with a stack trace; what is shown to nobody goes nowhere."""
    command = f"{sys.executable} -m reput {' '.join(arguments)} {golden.shared('basic')} >&-"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


# --- what is left out -----------------------------------------------------------------------------


def test_the_first_lines_of_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """Of many lines the first are shown and the others are counted, also those that the caller did not keep."""
    most = output.LINES_SHOWN
    output.say_lines("note", [f"line {number}" for number in range(most)])
    assert capsys.readouterr().err.splitlines() == [f"note: line {number}" for number in range(most)]
    output.say_lines("gap", ["a place"] * (most + 3))
    assert capsys.readouterr().err.splitlines()[most:] == ["gap: ... and 3 more (--json lists them all)"]
    output.say_lines("note", ["a reason"] * most, most + 100)
    assert capsys.readouterr().err.splitlines()[most:] == ["note: ... and 100 more (--json lists them all)"]
    output.say_lines("note", [])
    assert capsys.readouterr().err == ""


def test_rows_that_are_left_out_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A table that has not all rows says how many it has; one that has them says nothing."""
    output.show_rest(0, "more topics")
    output.show_rest(-5, "more topics")
    output.say_first(3, 3)
    shown = capsys.readouterr()
    assert shown.out == shown.err == ""
    output.show_rest(2, "more topics")
    output.say_first(3, 1000)
    shown = capsys.readouterr()
    assert shown.out == "... and 2 more topics (--json lists them all)\n"
    assert shown.err == "note: these are the first 3 of 1,000; -c N shows N, --json all\n"


def test_a_value_that_is_unknown_is_a_dash() -> None:
    """0 is a value; None is no value."""
    assert output.or_dash(None) == output.or_dash(None, str) == "-"
    assert output.or_dash(0) == 0
    assert output.or_dash(61_000, output.duration_text) == "1m 1s"
