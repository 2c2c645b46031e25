"""Runs tests on a copy of src with one change, which comes before the installed package on PYTHONPATH."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from support.mutations.promises import ROOT, SOURCE, MutationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from support.mutations.promises import Mutation

_SECONDS = itertools.count(10, 10)
_TESTS_FAILED = 1
"""pytest's exit code for that. Others mean that pytest itself could not run."""
_HANGS_S = 3000
"""A test that takes longer hangs, also on a machine that does much else."""


class Outcome(NamedTuple):
    """The tests that ran, and those that failed: by file and function, and by case, too."""

    ran: frozenset[str]
    failed: frozenset[str]


@contextmanager
def copied_source() -> Iterator[Path]:
    """Make a copy of src, with the compiled kernels, for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="reput-mutation-") as folder:
        # The times of the files stay, so that numba takes its cached code for fresh.
        yield Path(shutil.copytree(SOURCE.parent, Path(folder, "src"), copy_function=shutil.copy2))


@contextmanager
def mutated(source: Path, mutation: Mutation) -> Iterator[None]:
    """Apply a mutation to a copy of src for the time of the block.

    Raises:
        MutationError: its old text is not there exactly once.
    """
    path = source / SOURCE.name / mutation.file
    text, times = path.read_text("utf-8"), path.stat()
    path.write_text(mutation.applied(text), "utf-8")
    # Bytecode is kept by whole seconds and sizes: no changed file must look like one of another mutation.
    seconds = times.st_mtime + next(_SECONDS)
    os.utime(path, (seconds, seconds))
    try:
        yield
    finally:
        path.write_text(text, "utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def run_tests(source: Path, tests: Iterable[str]) -> Outcome:
    """Run tests, by file and function below tests/, with this copy of src.

    Raises:
        MutationError: pytest cannot run them.
    """
    wanted = [f"tests/{test}" for test in sorted(set(tests))]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    where = [sys.executable, "-c", "import reput; print(reput.__file__)"]
    found = subprocess.run(where, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if not found.startswith(str(source)):
        raise MutationError(f"tests would run with {found.strip()}, and not with the copy in {source}")
    with tempfile.TemporaryDirectory(prefix="reput-mutation-") as folder:
        report = Path(folder, "report.xml")
        # A mutation may make a test hang; then pytest ends with the stacks of its threads.
        options = ["-q", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={_HANGS_S}", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *options, *wanted]
        ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        if ended.returncode not in {0, _TESTS_FAILED} or not report.exists():
            raise MutationError(
                f"{' '.join(wanted)}: pytest ended with {ended.returncode}\n{(ended.stdout + ended.stderr)[-3000:]}"
            )
        return _outcome(report)


def _outcome(report: Path) -> Outcome:
    ran: set[str] = set()
    failed: set[str] = set()
    for case in ET.parse(report).iter("testcase"):
        file = f"{case.attrib['classname'].replace('.', '/').removeprefix('tests/')}.py"
        name = f"{file}::{case.attrib['name']}"
        names = {name, name.partition("[")[0]}
        if case.find("skipped") is None:
            ran |= names
        # An error is a fixture that failed.
        if case.find("failure") is not None or case.find("error") is not None:
            failed |= names
    return Outcome(frozenset(ran), frozenset(failed))
