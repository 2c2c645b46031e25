"""The README's examples do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reput
from reput.cli.main import cli
from support.checked import assert_sound

README = Path(__file__).parents[1] / "README.md"


def code_of(heading: str) -> str:
    """Return the Python lines of a section."""
    section = README.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return "".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


def test_the_embedded_store_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quickstart of the embedded store runs, a second time too, and the store is sound afterwards."""
    code = code_of("Embedded store")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        exec(compile(code, str(README), "exec"), {})
    assert_sound(tmp_path / "store")


def test_the_broker_runs_as_written() -> None:
    """The broker of the page takes the message of its producer, and its consumer gets it."""
    exec(compile(code_of("A broker for tests and notebooks"), str(README), "exec"), {"reput": reput})


def test_it_is_short() -> None:
    """The page stays under 120 lines: it is for a first look, and links to the rest."""
    assert len(README.read_text("utf-8").splitlines()) < 120


def test_the_verbs_that_it_names_are_there() -> None:
    """Each line that calls `reput` names a verb of the command line, and the verbs for messages are among them."""
    named = set(re.findall(r"^    reput (\w+)", README.read_text("utf-8"), re.MULTILINE))
    assert named <= set(cli.list_commands(cli.make_context("reput", [], resilient_parsing=True)))
    assert {"get", "query", "offset", "progress", "put"} <= named
