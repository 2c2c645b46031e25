"""File systems of a test's own: small ones that fill up, and ones that are made read-only; only root can mount them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from reput.files import fs
from reput.log.append import append_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs of this size (as mount says it: 256k) in a new folder; skips the test where none can be mounted."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a file system needs root")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def remount(folder: Path, option: str) -> None:
    """Change a mounted file system: `size=8m`, `ro` or `rw`."""
    subprocess.run(["mount", "-o", f"remount,{option}", folder], check=True, capture_output=True)


def fill(folder: Path) -> None:
    """Leave no free block on the file system of a folder."""
    with (folder / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))


def failing(function: Callable[..., Any], number: int, at: int, only: str = "") -> Callable[..., Any]:
    """A function of the file seam that fails from its `at`th call on (of those whose path has `only` in it)."""
    calls = 0

    def spoiled(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += only in str(arguments[0])
        if calls >= at and only in str(arguments[0]):
            with fs.errors_named(str(arguments[0]), "write"):
                raise OSError(number, os.strerror(number))
        return function(*arguments, **named)

    return spoiled


@contextlib.contextmanager
def spoiled_disk(name: str, number: int, at: int = 1, only: str = "") -> Iterator[None]:
    """A disk on which one function of the file seam fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append_file, "RESERVE_STEP", 4096)
        patch.setattr(fs, name, failing(getattr(fs, name), number, at, only))
        yield
