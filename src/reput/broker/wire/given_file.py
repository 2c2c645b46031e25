"""Reads a small file that a user names in an option of the broker: access keys, a certificate, its key."""

from __future__ import annotations

from pathlib import Path

from reput.errors import ConfigError
from reput.files import fs

_MOST_BYTES = 1 << 20


def read_given_file(path: Path | str, what: str) -> bytes:
    """Return the content of the file, in which the user has `what`.

    Raises:
        ConfigError: there is no such file, or it is too large.
    """
    data = fs.read_bytes(path, _MOST_BYTES + 1)
    if data is None or len(data) > _MOST_BYTES:
        raise ConfigError(f"{path}: cannot read {what}: there is no such file of at most {_MOST_BYTES} bytes")
    return data
