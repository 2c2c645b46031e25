"""A folder on the way to a store that this user may not enter: said as that, never as "missing"."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from reput.cli import main
from reput.files import fs
from support import golden
from support.users import as_another_user

if TYPE_CHECKING:
    from pathlib import Path


def in_this_process(*arguments: object) -> str:
    """Exit code and output of the command line, run where we are: another user may not be able to start Python."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "utf-8")
    with contextlib.redirect_stdout(out):
        code = main.run([str(argument) for argument in arguments])
        out.flush()
    return f"{code} {raw.getvalue().decode()}"


def test_a_name_that_may_not_be_looked_at_is_not_called_missing(open_folder: Path) -> None:
    """A path below a folder that may not be searched is unknown: an error, neither yes nor no."""
    closed = open_folder / "closed"
    (closed / "store").mkdir(parents=True)
    closed.chmod(0o700)
    for ask in (fs.exists, fs.is_dir):
        assert ask(closed / "store")
        assert not ask(closed / "other")
        assert as_another_user(lambda ask=ask: str(ask(closed / "store"))).startswith("AccessError: ")  # type: ignore[misc]


def test_a_store_that_may_not_be_read(open_folder: Path) -> None:
    """A store that is closed to this user, or below such a folder, is not missing: the error names the rights."""
    store = golden.unpack("basic", open_folder)
    for closed in (store, open_folder):
        closed.chmod(0o700)
        answer = as_another_user(lambda: in_this_process("info", store, "--json"))
        assert answer.startswith('2 {"ok": false')
        assert "AccessError" in answer
        assert "Run as its owner" in answer
