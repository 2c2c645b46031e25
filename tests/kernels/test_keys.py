"""The kernel that makes the keys of the index database: both twins make those of the codec."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.formats.index.index_database import HOUR_MS, IndexMarks, entry_keys
from reput.formats.log.properties import MAX_PROPERTIES_SIZE
from reput.formats.log.record import CHECK_BODY
from reput.kernels import kernels, key_kernels
from reput.kernels.layouts.columns import Columns, DecodeRules
from reput.kernels.layouts.keys import MOST_KEY_BYTES, KeyOutput, KeySources, KeyStateAt, key_state
from reput.kernels.layouts.log import LogBytes
from support.records import LogBuilder
from support.twins import DELAYS_MS, TWINS, as_buffer

if TYPE_CHECKING:
    from reput.formats.log.record import Record

both = pytest.mark.parametrize("twin", TWINS)
odd = st.sampled_from([b"a", b"b", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98"])
texts = st.text(min_size=1, max_size=6).map(str.encode) | odd
clean = texts.filter(lambda text: not {1, 2, 0x20} & set(text))
keys = st.lists(clean, max_size=4).map(b" ".join)


def made(twin: str, log: LogBuilder, most_keys: int = 3) -> tuple[list[tuple[bytes, int]], IndexMarks | None]:
    """The keys and values that a twin makes of a log, with outputs of so few keys, and the marks."""
    buffer, columns = as_buffer(bytes(log)), Columns(len(log.placed), 1 << 16, 64)
    rules, bytes_of_log = DecodeRules(CHECK_BODY, True, DELAYS_MS), LogBytes.whole(buffer, 0)
    kernels("reference").decode_range(bytes_of_log, 0, len(buffer), rules, columns.arrays)
    state, out, found = key_state(), KeyOutput.for_keys(most_keys, 2 * MOST_KEY_BYTES), list[tuple[bytes, int]]()
    while state[KeyStateAt.record] < columns.records:
        state[KeyStateAt.keys] = 0
        count = key_kernels(twin).gather_keys(bytes_of_log, KeySources.of(columns), out, state)
        ends = pairwise(out.end[: count + 1].tolist())
        found += [(out.text[a:b].tobytes(), time) for (a, b), time in zip(ends, out.store_timestamp.tolist())]  # noqa: B905
    last = int(state[KeyStateAt.last_record])
    return found, IndexMarks(last, int(state[KeyStateAt.store_timestamp])) if last >= 0 else None


def wanted(records: list[Record]) -> tuple[list[tuple[bytes, int]], IndexMarks | None]:
    """The keys, values and marks that the codec gives."""
    found, marks = list[tuple[bytes, int]](), None
    for one in records:
        if here := entry_keys(one):
            found += [(key, one.store_timestamp) for key in here]
            marks = IndexMarks(one.physical_offset, max(one.store_timestamp, marks.store_timestamp if marks else 0))
    return found, marks


@st.composite
def logs(draw: Any) -> LogBuilder:
    """Logs of a few messages with keys, tags and unique keys of any text, or without."""
    log = LogBuilder(1 << 16)
    for _ in range(draw(st.integers(1, 6))):
        named = {
            name: draw(values)
            for name, values in ((b"KEYS", keys), (b"TAGS", clean), (b"UNIQ_KEY", clean), (b"x", clean))
            if draw(st.booleans())
        }
        properties = b"".join(name + b"\x01" + value + b"\x02" for name, value in named.items())
        log.message(
            draw(st.sampled_from(["orders", "t", "订单"])),
            properties=properties,
            transaction=draw(st.sampled_from(["", "prepared", "commit", "rollback"])),
            store_timestamp=draw(st.sampled_from([0, HOUR_MS - 1, HOUR_MS, 1_700_000_000_123, 1_700_000_000_000])),
        )
    return log


@settings(deadline=None)
@given(logs(), st.integers(1, 9))
def test_both_twins_make_the_keys_of_the_codec(log: LogBuilder, most_keys: int) -> None:
    """Keys, values and marks are those of the codec, for any properties, and wherever an output is full."""
    expected = wanted([placed.record for placed in log.placed])
    for twin in TWINS:
        assert made(twin, log, most_keys) == expected


@both
def test_the_longest_key_fits(twin: str) -> None:
    """A record whose properties are one malformed key has a key of three times that length."""
    log = LogBuilder(1 << 17)
    unique = b"UNIQ_KEY\x01u\x02"
    key = b"\xff" * (MAX_PROPERTIES_SIZE - len(unique) - len(b"KEYS\x01\x02"))
    log.message("t" * 127, properties=b"KEYS\x01" + key + b"\x02" + unique, store_timestamp=HOUR_MS)
    (longest, _), _ = made(twin, log)[0]
    assert 3 * len(key) < len(longest) <= MOST_KEY_BYTES
    assert longest.count(b"\xef\xbf\xbd") == len(key)


def test_no_record_has_no_key() -> None:
    """Without records there is nothing to do."""
    for twin in TWINS:
        state, out = key_state(), KeyOutput.for_keys(1, 0)
        buffer = np.frombuffer(b"x", dtype=np.uint8)
        assert (
            key_kernels(twin).gather_keys(LogBytes.whole(buffer, 0), KeySources.of(Columns(1, 1, 1)), out, state) == 0
        )
