"""Chain index items: give each its number, its time and the item that was newest in its slot before it.

The twin of `reput.kernels.reference.chain`, which is the specification.
"""

from __future__ import annotations

import numpy as np

from reput.formats.index import index_file as fmt
from reput.kernels.compiled.tools.jit import kernel
from reput.kernels.compiled.tools.memory import address_of, store_be32, store_be64

_ITEM_SIZE = fmt.ITEM_SIZE
_PHYSICAL_AT, _TIME_AT = fmt.ITEM.offsets["physical_offset"], fmt.ITEM.offsets["time_diff_s"]
_PREVIOUS_AT = fmt.ITEM.offsets["previous_item"]
_MAX_DIFF_S = fmt.MAX_TIME_DIFF_S


@kernel
def chain_items(sources, items, slots, out):
    """Write items to `out` (uint8, 20 bytes an item) and enter them into `slots` (int32); see the twin."""
    record, item, item_end, number, begin = items
    first_item, position, store_timestamp, item_hash = sources
    slot_count = np.uint32(len(slots))
    fresh = 0
    at = address_of(out)
    for n in range(item, item_end):
        while first_item[record + 1] <= n:
            record += 1
        slot = np.uint32(item_hash[n]) % slot_count
        previous = slots[slot]
        slots[slot] = number
        fresh += previous == 0
        time = store_timestamp[record]
        diff = (time - begin) // 1000 if begin > 0 and time > begin else np.int64(0)
        store_be32(at, item_hash[n])
        store_be64(at + _PHYSICAL_AT, position[record])
        store_be32(at + _TIME_AT, np.int32(min(diff, _MAX_DIFF_S)))
        store_be32(at + _PREVIOUS_AT, previous)
        at += _ITEM_SIZE
        if number == 1:
            begin = time
        number += 1
    return fresh, begin
