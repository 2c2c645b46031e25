"""Promises that `make mutations` breaks: each mutation fits the source, its tests exist, and the page has the table."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from support.mutations.page import BEGIN, END, PAGE, rewrite, table
from support.mutations.promises import MUTATIONS, ROOT, SOURCE, Mutation, MutationError
from support.mutations.run import mutated


def functions_in(path: Path) -> set[str]:
    """The names of a module's functions."""
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.title for one in MUTATIONS])
def test_a_mutation_fits_the_source(mutation: Mutation) -> None:
    """The old text is in its module exactly once, the changed module is Python, and the named tests exist."""
    changed = mutation.applied((SOURCE / mutation.file).read_text("utf-8"))
    compile(changed, mutation.file, "exec")
    assert mutation.tests
    for test in mutation.tests:
        file, _, function = test.partition("[")[0].partition("::")
        assert function in functions_in(ROOT / "tests" / file), f"{mutation.title}: {test} does not exist"


def test_each_mutation_has_a_title_of_its_own() -> None:
    """A title names one mutation."""
    assert len({one.title for one in MUTATIONS}) == len(MUTATIONS) >= 10


@pytest.mark.parametrize("source", ["", "a = 1\n", "a = 0\na = 0\n"])
def test_a_mutation_that_does_not_fit_is_refused(source: str) -> None:
    """A text that is missing, or there twice, is an error: a mutation cannot silently do nothing."""
    with pytest.raises(MutationError, match="not once"):
        Mutation("title", "promise", "file.py", "a = 0", "a = 1", ()).applied(source)


def test_a_mutation_is_taken_back(tmp_path: Path) -> None:
    """After a run the copy is as before, times included, so that the next mutation changes the true source."""
    one = MUTATIONS[0]
    path = tmp_path / "reput" / one.file
    path.parent.mkdir(parents=True)
    shutil.copy2(SOURCE / one.file, path)
    before = path.stat().st_mtime_ns, path.read_text("utf-8")
    with mutated(tmp_path, one):
        assert path.read_text("utf-8") == one.applied(before[1])
    assert (path.stat().st_mtime_ns, path.read_text("utf-8")) == before


def test_the_page_has_the_table() -> None:
    """docs/reliability.md has each mutation with its tests, as `make mutations` writes them."""
    text = PAGE.read_text("utf-8")
    assert table() in text.partition(BEGIN)[2].partition(END)[0]
    assert rewrite(text) == text
