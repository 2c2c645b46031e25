"""The site that `make docs` builds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reput
from support.search import takes_long

ROOT = Path(__file__).parents[2]


@takes_long
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Every page, link, anchor and docstring of the public face is sound: a strict build ends without a warning."""
    pytest.importorskip("mkdocs", reason="make setup installs it")
    # Not --quiet: it hides warnings from --strict, too.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (re.findall(r"^(?!INFO).+$", done.stdout + done.stderr, re.MULTILINE), done.returncode) == ([], 0)


def test_the_public_face_is_documented() -> None:
    """The API page has each name that `import reput` gives, and the module of functions for columns."""
    shown = re.findall(r"^::: reput\.(\w+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted([*reput.__all__, "functions"])


# Code, remarks in brackets and the signs of a list may hold the end of a sentence.
NO_SENTENCE = re.compile(r"`[^`]*`|\([^()]*\)|^ *(?:\d+\.|-) ")
SECOND_SENTENCE = re.compile(r"[.?!] +[^ ]")


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_lines_of_pages_are_sentences(page: Path) -> None:
    """No line of prose holds two sentences, or is too long for one; tables, code and output may be."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    prose = [line for line in text.splitlines() if not line.startswith(("|", "    ", "#", "<!--"))]
    assert not [line for line in prose if len(line) > 260]
    assert not [line for line in prose if SECOND_SENTENCE.search(NO_SENTENCE.sub("()", line))]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("One sentence. Another one.", True),
        ("Is it one? reput says so.", True),
        ("1. Stop the broker.", False),
        ("- `a. b` and (see there. Or not) are one.", False),
    ],
)
def test_two_sentences_in_a_line_are_seen(line: str, found: bool) -> None:
    """The rule above sees a second sentence, and nothing else."""
    assert bool(SECOND_SENTENCE.search(NO_SENTENCE.sub("()", line))) == found
