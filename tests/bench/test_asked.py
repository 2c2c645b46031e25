"""The environment of a bench: what it says is done, or refused with its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asked
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the tests' own environment asks for."""
    for name in ("QUICK", "ROUNDS", "PARTS", "SIZES", "MESSAGES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "given", "read", "words"),
    [
        ("ROUNDS", "many", asked.rounds, "ROUNDS: 'many' is no amount"),
        ("MESSAGES", "-1", lambda: asked.amount("MESSAGES", 1), "MESSAGES: '-1' is no amount"),
        ("MESSAGES", "inf", lambda: asked.amount("MESSAGES", 1), "MESSAGES: 'inf' is no amount"),
        ("SIZES", "1 2x", lambda: asked.amounts("SIZES", "1"), "SIZES: '2x' is no amount"),
        ("SIZES", "", lambda: asked.amounts("SIZES", "1"), "SIZES: give at least one number"),
        ("PARTS", "put gte", lambda: asked.parts(["put", "get"]), "PARTS: no such part: gte; the parts are put get"),
    ],
)
def test_a_value_that_cannot_be_one_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, name: str, given: str, read: Callable[[], object], words: str
) -> None:
    """The line names the variable and the value, and nothing is measured."""
    monkeypatch.setenv(name, given)
    with pytest.raises(SystemExit, match=words):
        read()


def test_what_is_asked_for_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A given value goes before that of a quick run, and that before the default."""
    assert (asked.rounds(), asked.amount("MESSAGES", 4, 1), asked.parts(["put", "get"])) == (3, 4, ["put", "get"])
    monkeypatch.setenv("QUICK", "1")
    assert (asked.rounds(), asked.amount("MESSAGES", 4, 1)) == (1, 1)
    monkeypatch.setenv("MESSAGES", "2.5")
    monkeypatch.setenv("PARTS", "get")
    monkeypatch.setenv("SIZES", "16 0.5")
    assert (asked.amount("MESSAGES", 4, 1), asked.parts(["put", "get"])) == (2.5, ["get"])
    assert asked.amounts("SIZES", "1", 1_000_000) == [500_000, 16_000_000]
