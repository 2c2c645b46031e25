"""The call that packs decoded columns into ConsumeQueue entries."""

from __future__ import annotations

import numpy as np

from reput.formats.queue.consume_queue import ENTRY_SIZE
from reput.kernels import kernels
from reput.kernels.layouts.pack import EntrySources, Packed


def pack_entries(queues: int, sources: EntrySources) -> Packed:
    """Pack the entries of `queues` queues."""
    places = len(sources.flags)
    packed = Packed(
        entries=np.empty(places * ENTRY_SIZE, dtype=np.uint8),
        start=np.zeros(queues + 1, dtype=np.int64),
        first=np.empty(queues, dtype=np.int64),
        last=np.empty(queues, dtype=np.int64),
        steady=np.empty(queues, dtype=np.uint8),
    )
    kernels().pack_entries(queues, sources, packed)
    return packed
