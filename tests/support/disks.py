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
    with _mounted(folder, "tmpfs", "-t", "tmpfs", "-o", f"size={size}"):
        yield folder


@contextlib.contextmanager
def with_small_blocks(folder: Path, size: int) -> Iterator[Path]:
    """An ext4 of `size` bytes with blocks of 1 KiB in a new folder; skips the test where none can be made."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4")
    image = folder.with_suffix(".image")
    image.touch()
    os.truncate(image, size)
    subprocess.run(["mkfs.ext4", "-q", "-b", "1024", image], check=True)
    with _mounted(folder, image, "-o", "loop"):
        yield folder


@contextlib.contextmanager
def _mounted(folder: Path, device: Path | str, *options: str) -> Iterator[None]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a file system needs root")
    folder.mkdir()
    if subprocess.run(["mount", *options, device, folder], check=False, capture_output=True).returncode:
        pytest.skip(f"{device} cannot be mounted here")
    try:
        yield
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
