"""The inputs that a fuzzer has found to go new ways: each decoder keeps its law on them (`make fuzz-decoders`)."""

from __future__ import annotations

import pytest

from reput.formats.log import record
from support.fuzz import corpus
from support.fuzz.page import BEGIN, END, PAGE
from support.fuzz.targets import TARGETS, Target


def _run_all(target: Target) -> None:
    for one in corpus.load(target.name):
        target.run(one)


@pytest.mark.parametrize("target", TARGETS, ids=[one.name for one in TARGETS])
def test_a_decoder_keeps_its_law(target: Target) -> None:
    """Each input that is kept gives a value, the same after it is written and read again, or the documented error."""
    assert corpus.load(target.name)
    _run_all(target)


@pytest.mark.parametrize("target", TARGETS, ids=[one.name for one in TARGETS])
def test_depth_ends_no_decoder(target: Target) -> None:
    """A text of a hundred thousand levels is an error that the docstring of the decoder names, or a value."""
    for opening in (b"[", b'{"a":', b"(", b"NOT "):
        target.run(opening * 100_000)


def test_a_broken_law_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder whose twin says something else fails on its corpus: the law can be broken."""
    monkeypatch.setattr(record, "crc32", lambda _: 0)
    (target,) = (one for one in TARGETS if one.name == "record")
    with pytest.raises(AssertionError, match="the twins differ"):
        _run_all(target)


def test_every_decoder_has_its_row() -> None:
    """The page has a row for each decoder, with the numbers of the last run."""
    rows = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert [line.split("`")[1] for line in rows.split("\n") if line.startswith("| `")] == [one.name for one in TARGETS]


def test_inputs_that_go_no_new_way_are_not_kept() -> None:
    """Of inputs with the same way the shortest one is kept."""
    (target,) = (one for one in TARGETS if one.name == "properties")
    assert corpus.chosen(target.run, [b"aa\1b\2", b"a\1b\2", b"c\1b\2"]) == [b"a\1b\2"]
