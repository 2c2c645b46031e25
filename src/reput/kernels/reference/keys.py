"""The keys of the index database in plain Python: the specification that the compiled twin is tested against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.index.index_database import entry_keys
from reput.formats.log.record import decode_record
from reput.kernels.layouts.columns import IN_INDEX
from reput.kernels.layouts.keys import MOST_KEY_BYTES, KeyOutput, KeySources, KeyStateAt

if TYPE_CHECKING:
    from reput.kernels.layouts.log import LogBytes
    from reput.kernels.reference.decode import Int64s


def gather_keys(log: LogBytes, sources: KeySources, out: KeyOutput, state: Int64s) -> int:
    """Write the keys of records from `state` on; return the number of keys in the output.

    `log` holds the records whole. A key that a record has twice comes twice. A call returns when all records are done,
    or when the output may have no space for another key. The caller then takes the keys away, sets `keys` in the state
    to 0, and calls again.
    """
    keys, size = int(state[KeyStateAt.keys]), int(out.end[int(state[KeyStateAt.keys])])
    while state[KeyStateAt.record] < len(sources.position):
        n = int(state[KeyStateAt.record])
        at = int(sources.position[n]) - log.base
        found = entry_keys(decode_record(log.data.data, at)) if sources.flags[n] & IN_INDEX else ()
        for key in found[int(state[KeyStateAt.done]) :]:
            if keys == len(out.store_timestamp) or size + MOST_KEY_BYTES > len(out.text):
                state[KeyStateAt.keys] = keys
                return keys
            out.text[size : size + len(key)] = np.frombuffer(key, dtype=np.uint8)
            size, keys = size + len(key), keys + 1
            out.end[keys], out.store_timestamp[keys - 1] = size, sources.store_timestamp[n]
            state[KeyStateAt.done] += 1
        if found:
            state[KeyStateAt.last_record] = sources.position[n]
            state[KeyStateAt.store_timestamp] = max(state[KeyStateAt.store_timestamp], sources.store_timestamp[n])
        state[KeyStateAt.record], state[KeyStateAt.done] = n + 1, 0
    state[KeyStateAt.keys] = keys
    return keys
