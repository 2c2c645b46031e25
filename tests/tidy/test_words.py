"""Plain English: the words of docstrings, comments and pages, and that what they name is there."""

from __future__ import annotations

import ast
import functools
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidy.source import ROOT, modules, name_of, parsed, walked

if TYPE_CHECKING:
    from collections.abc import Iterator

# Docstrings begin with a verb or a noun, not with one of these.
NO_BEGINNING = re.compile(r"(?:What|Whether|Where|Which|How|Who|Whose|Whoever|Whatever|When|If|So|As|That)\b")
# Words that only this project used, and what its sentences say instead.
PRIVATE_WORDS = {
    "behind": "after, above, later than; a group lags",
    "crooked": "out of order",
    "held against": "compared with",
    "in front of": "before, below",
    "(?<!there )(?:is|are|was|were) (?-i:none)(?! of)": "is no number, is not one",
    "newcomer": "new queue, new writer",
    "nursery": "preloaded worker parent",
    "runs? straight": "consecutive",
    "so many": "n, that number",
    "stands?": "is, lies",
    "tells?": "says, reports, returns",
    "told": "reported, given, known from",
    "whoever": "callers, clients",
}
PRIVATE = re.compile(rf"(?i)(?<![a-z])(?:{'|'.join(PRIVATE_WORDS)})(?![a-z])")
# Public names, and old names of arguments, that keep such a word until the next version; and names of tests, to which
# pages and tables refer.
PUBLIC_NAMES = re.compile(r"behind_bytes|crooked_queues|\[.behind.\]|\bbehind\(|\.behind\b|\btell=|.tell.:|\btest_\w+")
OUTSIDE = ("tests", "bench", "scripts", "examples")
"""Folders outside the package whose sentences keep the same rule."""
SNAKE_NAME = re.compile(r"(?<!\w)_?[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?!\w)")
# Spelt apart, so that this file passes its own rule.
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")
MACHINE_PATH = re.compile(r"(?<![\w.*/])/(?:work|tmp|root|home|opt)/")
TEXTS = (".py", ".md", ".toml", ".sh", ".java", ".properties", ".txt", ".xml", "")


def texts() -> Iterator[Path]:
    """Every file of ours that people read."""
    for top in ("src", "tests", "bench", "demo", "docs", "scripts", ".ci"):
        for path in sorted((ROOT / top).rglob("*")):
            inside = path.relative_to(ROOT).parts
            if path.is_file() and path.suffix in TEXTS and not {"target", "work", "__pycache__"} & set(inside):
                yield path
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml"))


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The docstrings of a module, its classes and functions, and of their attributes, with the names."""
    for node in walked(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield getattr(node, "name", "the module"), ast.get_docstring(node) or ""
        for before, after in pairwise(node.body):
            if (
                isinstance(before, ast.Assign | ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                yield ast.unparse(before).partition("=")[0].strip(), after.value.value.strip()


def test_docstrings_are_seen() -> None:
    """The rule below knows docstrings of modules, classes, functions and attributes, and no other texts."""
    text = "'a'\nB = 1\n'b'\nclass C:\n    'c'\n    d: int\n    'd'\n    e = 'e'\ndef f():\n    'f'\n    'g'"
    found = dict(docstrings(ast.parse(text)))
    assert found == {"the module": "a", "B": "b", "C": "c", "d: int": "d", "f": "f"}


def unplain(path: Path) -> Iterator[str]:
    """The docstrings of a module with a beginning that the rule forbids, and its lines with a private word."""
    text, home = path.read_text(), path.relative_to(ROOT)
    for name, docstring in docstrings(parsed(path)):
        if found := NO_BEGINNING.match(docstring):
            yield f"{home}: {name}: its docstring begins with {found[0]}"
    for number, line in enumerate(text.splitlines(), 1):
        words = PRIVATE.findall(PUBLIC_NAMES.sub("", line))
        yield from (f"{home}:{number}: {word}" for word in words)


def test_sentences_are_plain() -> None:
    """A docstring begins with a verb or a noun, and words are the field's."""
    assert not [found for path in modules() for found in unplain(path)]


@functools.cache
def names_of_code() -> frozenset[str]:
    """The names that the package's code has, and those of modules of tests and scripts."""
    found = {path.stem for top in ("src", "tests", "scripts") for path in (ROOT / top).rglob("*.py")}
    for path in modules():
        found |= found_names(parsed(path))
    return frozenset(found)


def found_names(tree: ast.Module) -> set[str]:
    """The names that a module's code has. Texts with backquotes do not count: they speak about names."""
    found: set[str] = set()
    for node in walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            found |= set() if "`" in text else set(SNAKE_NAME.findall(text))
        else:
            found |= {
                name for one in ("id", "attr", "name", "arg") if isinstance(name := getattr(node, one, None), str)
            }
    return found


def test_docstrings_name_what_is_there() -> None:
    """A snake_case name in backquotes is one of the code's: a name that was changed is not left in a docstring."""
    written = [
        (f"{name_of(path)}:{number}", name)
        for path in modules()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for quoted in re.findall(r"`([^`]+)`", line)
        for name in SNAKE_NAME.findall(quoted)
    ]
    assert [(place, name) for place, name in written if name not in names_of_code()] == []


def test_names_of_code_are_seen() -> None:
    """The rule above knows names of all sorts, and not those of which only a docstring speaks."""
    text = "import a_b\ndef c_d(e_f):\n    'See `old_name`.'\n    e_f.g_h = i_j('k_l', m_n=1)"
    assert found_names(ast.parse(text)) == {"a_b", "c_d", "e_f", "g_h", "i_j", "k_l", "m_n"}


@pytest.mark.parametrize("top", OUTSIDE)
def test_sentences_outside_the_package_are_plain(top: str) -> None:
    """Tests, benchmarks, scripts and examples keep the same rule; this module lists the private words, and may."""
    paths = [path for path in sorted((ROOT / top).rglob("*.py")) if path != Path(__file__)]
    assert not [found for path in paths for found in unplain(path)]


PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_of_pages_are_plain(page: Path) -> None:
    """Pages for users keep the same words; names in backticks are those of code, and of RocketMQ's tests."""
    lines = enumerate(page.read_text().splitlines(), 1)
    found = {number: PRIVATE.findall(re.sub(r"`[^`]*`", "", line)) for number, line in lines}
    assert not {number: words for number, words in found.items() if words}


def test_words() -> None:
    """Nothing is left unfinished in the text, and no text names a folder of someone's machine."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line) or MACHINE_PATH.search(line)
    ]
    assert not found
