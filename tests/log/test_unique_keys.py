"""The unique keys that clients and the broker give messages."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reput.formats.log.unique_key import UNIQUE_KEY
from reput.log.encode.unique_keys import UniqueKeys

if TYPE_CHECKING:
    import pytest


def test_a_key_counts_from_the_first_of_its_month(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the month changes between two keys, forwards or back: the time is that since local midnight."""
    first = datetime(2026, 11, 1).astimezone()
    moments = [
        first,
        first - timedelta(seconds=1),
        first + timedelta(days=29, hours=23),
        datetime(2027, 2, 28, 5, 6).astimezone(),
    ]
    keys = UniqueKeys(b"\x7f\0\0\1")
    for moment in [*moments, *reversed(moments)]:
        monkeypatch.setattr("reput.log.encode.unique_keys.time.time", moment.timestamp)
        fields = UNIQUE_KEY.struct.unpack(bytes.fromhex(keys.make()))
        begin = moment.astimezone().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        assert fields[list(UNIQUE_KEY.offsets).index("since_ms")] == int(
            (moment.timestamp() - begin.timestamp()) * 1000
        )


def test_no_two_keys_are_equal() -> None:
    """Keys of one maker and of another in the same process differ."""
    makers = UniqueKeys(b"\x7f\0\0\1"), UniqueKeys(b"\x7f\0\0\1")
    made = [maker.make() for maker, _ in itertools.product(makers, range(1000))]
    assert len(set(made)) == len(made)
