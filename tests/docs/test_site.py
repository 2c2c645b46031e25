"""The site that `make docs` builds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reput

ROOT = Path(__file__).parents[2]


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


def test_lines_of_pages_are_sentences() -> None:
    """No line of prose is so long that it holds several sentences; tables, code and output may be."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in (page for page in pages if page.name != "formats.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        long = [line for line in text.splitlines() if len(line) > 260 and not line.startswith(("|", "    "))]
        assert not long, f"{page.name}: {long}"


def test_modules_that_pages_name_are_there() -> None:
    """Each module that the architecture page or the glossary names is in the package."""
    for page in ("architecture.md", "glossary.md"):
        named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", (ROOT / "docs" / page).read_text("utf-8")))
        assert named
        package = ROOT / "src" / "reput"
        assert not [name for name in named if not any((top / name).exists() for top in (package, ROOT))]
