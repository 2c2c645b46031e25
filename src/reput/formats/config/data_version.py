"""The data version of a table of metadata: how often it was changed, and when.

As JSON, in files and in databases of version 1: {"counter":5,"stateVersion":0,"timestamp":1795320768532}. Databases of
version 2 have it as three numbers (`formats.config.metadata_v2`).

Source: `DataVersion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reput.errors import DamagedStoreError
from reput.formats.java.fastjson import parse_fastjson, write_fastjson

MEMBER = "dataVersion"
"""The member of a JSON file that has it."""


class DataVersion(NamedTuple):
    """The table's number of changes, the version of the state machine (0 without a controller), and a time (ms)."""

    counter: int
    state_version: int
    timestamp: int

    @property
    def members(self) -> dict[str, int]:
        """The members of the JSON object, in the order in which a broker writes them."""
        return dict(zip(_NAMES, self, strict=True))

    def next(self, time_ms: int) -> DataVersion:
        """Return the version after one more change."""
        return DataVersion(self.counter + 1, self.state_version, time_ms)


_NAMES = ("counter", "stateVersion", "timestamp")
NO_VERSION = DataVersion(0, 0, 0)
"""The version of a table without one, as a broker takes it."""


def version_of(value: Any) -> DataVersion | None:
    """Return the version in a JSON object, in which a member that is no number counts as 0; None for another value."""
    if not isinstance(value, Mapping):
        return None
    numbers = (value.get(name, 0) for name in _NAMES)
    return DataVersion(*(number if type(number) is int else 0 for number in numbers))


def encode_version(version: DataVersion) -> bytes:
    """Return a version as a value of a database of version 1."""
    return write_fastjson(version.members)


def decode_version(data: bytes | None, where: str) -> DataVersion | None:
    """Return the version in a value of a database of version 1; None if there is none.

    Raises:
        DamagedStoreError: the value is no such JSON.
    """
    if not data or not data.strip():
        return None
    value = parse_fastjson(data)
    if not isinstance(value, dict) or not all(type(value.get(name, 0)) is int for name in _NAMES):
        raise DamagedStoreError(f"{where}: its data version {data[:60]!r} is not JSON with three numbers")
    return version_of(value)
