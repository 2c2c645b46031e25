"""Every file of tests is run: pytest passes over folders of some names without a word."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).parent.parent


def test_no_folder_of_tests_was_passed_over(pytestconfig: pytest.Config) -> None:
    """The tests below `pipeline/build` were not run for a week: pytest does not look into a folder of that name."""
    patterns = pytestconfig.getini("norecursedirs")
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    assert Path("pipeline/build/test_every_kind.py") in files
    folders = {name for path in files for name in path.parent.parts}
    assert not {name for name in folders for pattern in patterns if fnmatch(name, pattern)}
