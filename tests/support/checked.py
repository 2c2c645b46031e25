"""`check` as the teardown of tests: a store that a test has written must be sound."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import reput

if TYPE_CHECKING:
    from reput.config import StoreConfig


_MOST_BYTES = 1 << 20
_sound: set[bytes] = set()
"""The digests of stores that were found sound in this process."""


def assert_sound(store: Path, config: StoreConfig | Path | None = None) -> None:
    """Fail with the findings when the indexes of `store` are not what its log says.

    A small store of the same bytes as one that was found sound is not checked again.
    """
    digest = None if isinstance(config, Path) else digest_of(store, config)
    if digest in _sound:
        return
    report = reput.check(store, spark=False, config=config)
    assert report.sound, "\n".join(f"{one.severity} {one.rule} {one.file}: {one.detail}" for one in report.findings)
    if digest is not None:
        _sound.add(digest)


def digest_of(store: Path, config: StoreConfig | None) -> bytes | None:
    """Return a digest of all names and bytes below a store; None for a large one, and for one with links."""
    digest, left = hashlib.blake2b(repr(config).encode()), _MOST_BYTES
    waiting = [str(store)]
    while waiting:
        folder = waiting.pop()
        for entry in sorted(os.scandir(folder), key=attrgetter("name")):
            digest.update(f"{entry.path[len(str(store)) :]}\0".encode("utf-8", "surrogateescape"))
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                continue
            size = entry.stat(follow_symlinks=False).st_size
            left -= size
            if left < 0 or not entry.is_file(follow_symlinks=False):
                return None
            digest.update(f"{size} ".encode() + Path(entry.path).read_bytes())
    return digest.digest()


def rules_of(store: Path, config: StoreConfig | Path | None = None) -> dict[tuple[str, str], int]:
    """Return the findings of a check, counted by severity and rule."""
    found = Counter[tuple[str, str]]()
    for finding in reput.check(store, spark=False, config=config).findings:
        found[finding.severity, finding.rule] += finding.count
    return dict(found)
