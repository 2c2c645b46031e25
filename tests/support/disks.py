"""File systems of a test's own: small ones that fill up, and ones that are made read-only; only root can mount them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
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
