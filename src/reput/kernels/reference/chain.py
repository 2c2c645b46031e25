"""The chaining of index items in plain Python: the specification of `reput.kernels.compiled.chain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reput.formats.index import index_file

if TYPE_CHECKING:
    from reput.kernels.layouts.columns import ItemRange, ItemSources

Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]


def chain_items(sources: ItemSources, items: ItemRange, slots: Int32s, out: Bytes) -> tuple[int, int]:
    """Write items to `out` (uint8, 20 bytes an item) and enter them into `slots` (int32).

    Returns the number of slots that were empty before, and the begin time for the next call.
    """
    record, item, item_end, number, begin = items
    first_item, position, store_timestamp, item_hash = sources
    target, fresh = out.data, 0
    for n in range(item, item_end):
        while first_item[record + 1] <= n:
            record += 1
        key_hash, time = int(item_hash[n]), int(store_timestamp[record])
        slot = key_hash % len(slots)
        previous = int(slots[slot])
        fresh += previous == 0
        slots[slot] = number
        diff_s = (time - begin) // 1000 if 0 < begin < time else 0
        at = (n - item) * index_file.ITEM_SIZE
        target[at : at + index_file.ITEM_SIZE] = index_file.ITEM.struct.pack(
            key_hash, int(position[record]), min(diff_s, index_file.MAX_TIME_DIFF_S), previous
        )
        if number == 1:
            begin = time
        number += 1
    return fresh, begin
