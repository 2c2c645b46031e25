"""Compiled decoders on very many inputs keep their laws, and the loop that tries them finds one that does not."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numba
import pytest

from reput.formats.log import record
from reput.kernels.compiled.client_batch import split_columns
from reput.kernels.compiled.tools.memory import byte_at
from support.fuzz.compiled import laws, worker
from support.fuzz.compiled.page import BEGIN, END, PAGE
from support.fuzz.compiled.targets import TARGETS, Target
from support.fuzz.compiled.worker import ROUND, Note
from support.search import cases

LOG, BATCH = TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=[one.name for one in TARGETS])
def test_a_compiled_decoder_keeps_its_law(target: Target, tmp_path: Path) -> None:
    """In a process that may die, no input of some rounds breaks the law, and both twins agree."""
    note, rounds = Note.at(tmp_path / "note", target), cases(1, 3)
    # Compiled here, so that the tests of this module share what is common to their loops.
    worker.loop_of(target, note)[0](0)
    process = multiprocessing.get_context("fork").Process(target=worker.run, args=(target, note, 7, range(rounds)))
    process.start()
    process.join()
    assert process.exitcode == 0, f"{note.input!r}"
    assert note.tried == rounds * ROUND
    assert " records" in target.answers(note.ends) or " messages" in target.answers(note.ends)


@numba.njit
def _looks_back(columns: int, begin: int, end: int, topic: int, topic_size: int, room: int, queue_room: int) -> int:
    """A decoder that looks at the byte before the first one."""
    rows = split_columns(columns, begin, end, topic, topic_size, room, queue_room)
    return -1 if rows > 0 and byte_at(begin - 1) & 1 else rows


def test_a_decoder_that_looks_before_its_input_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An answer that depends on the bytes around the input breaks the law; its round ends there again."""
    # The loop of batches compiles in a fifth of the time of that of logs.
    monkeypatch.setattr(laws, "split_columns", _looks_back)
    monkeypatch.setattr(laws, "_split", numba.njit(laws._split.py_func))
    monkeypatch.setattr("support.fuzz.compiled.targets.try_batches", numba.njit(laws.try_batches.py_func))
    notes = [Note.at(tmp_path / name, BATCH) for name in ("note", "again")]
    for note in notes:
        with pytest.raises(AssertionError, match="where the bytes are"):
            worker.run(BATCH, note, 7, range(5, 6))
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
