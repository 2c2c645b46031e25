"""Compiled decoders on very many inputs keep their laws, and the loop that tries them finds one that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from reput.formats.log import record
from reput.kernels.compiled.decode import decode_range
from reput.kernels.compiled.tools.memory import address_of, byte_at
from reput.kernels.layouts.columns import StateAt
from support.fuzz.compiled import laws, worker
from support.fuzz.compiled.page import BEGIN, END, PAGE
from support.fuzz.compiled.targets import TARGETS, Target
from support.fuzz.compiled.worker import ROUND, Note

LOG, BATCH = TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=[one.name for one in TARGETS])
def test_a_compiled_decoder_keeps_its_law(target: Target, tmp_path: Path) -> None:
    """In a process that may die, no input of some rounds breaks the law, and both twins agree."""
    path, rounds = tmp_path / "note", 3
    note = Note.at(path, target)
    words = [target.name, str(path), "7", "0", str(rounds)]
    done = subprocess.run(
        [sys.executable, "-m", "support.fuzz.compiled.worker", *words],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{note.input!r} {done.stderr}"
    assert note.tried == rounds * ROUND
    assert " records" in target.answers(note.ends) or " messages" in target.answers(note.ends)


@numba.njit
def _reads_on(log: Any, begin: int, end: int, rules: Any, arrays: Any) -> int:
    """A decoder that looks at the byte after the last one, where there is one."""
    stop = decode_range(log, begin, end, rules, arrays)
    if len(log[0]) > end:
        arrays.state[StateAt.further] = byte_at(address_of(log[0]) + end)
    return stop


def test_a_decoder_that_reads_on_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An answer that depends on the bytes after the input breaks the law; its round ends there again."""
    monkeypatch.setattr(laws, "decode_range", _reads_on)
    monkeypatch.setattr(laws, "_decoded", numba.njit(laws._decoded.py_func))
    monkeypatch.setattr("support.fuzz.compiled.targets.try_logs", numba.njit(laws.try_logs.py_func))
    notes = [Note.at(tmp_path / name, LOG) for name in ("note", "again")]
    for note in notes:
        with pytest.raises(AssertionError, match="where the bytes are"):
            worker.run(LOG, note, 7, range(5, 6))
    assert notes[0].tried == notes[1].tried < ROUND
    assert notes[0].input == notes[1].input


def test_twins_that_differ_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The input at the end of a round is compared with the specification."""
    data = LOG.pool().data.tobytes()
    size = int.from_bytes(data[:4])
    LOG.compare(data[:size], 0, record.CHECK_BODY)
    monkeypatch.setattr(record, "crc32", lambda _: 0)
    with pytest.raises(AssertionError, match="the twins differ"):
        LOG.compare(data[:size], 0, record.CHECK_BODY)


def test_the_page_has_each_decoder() -> None:
    """The page has a row for each compiled decoder, with the numbers of the last run."""
    rows = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert [line.split("`")[1] for line in rows.split("\n") if line.startswith("| `")] == [one.name for one in TARGETS]
