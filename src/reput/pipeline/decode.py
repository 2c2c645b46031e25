"""decode: one split to columns, with everything that stood in the way listed. Runs in a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.formats.record import Verdict
from reput.kernels import decode_arguments, kernels
from reput.kernels.columns import Columns, State, Stop
from reput.pipeline.plan import Split


class DecodeSettings(NamedTuple):
    """What decoding needs to know: how CRCs are checked, whether tags get items, delays in ms (level 1 first)."""

    crc_check: int
    tag_items: bool
    delays_ms: tuple[int, ...]


class Gap(NamedTuple):
    """Bytes [begin, end) of the log that are no record, with a record at `end`; `verdict` on what stands at `begin`."""

    begin: int
    end: int
    verdict: Verdict


@dataclass(slots=True)
class DecodedSplit:
    """A split's columns, and how its chain of records ran; all offsets are log offsets.

    `first_record` is the first boundary found (-1: none), `chain_end` where the next record is expected. Where the
    chain broke and nothing more was found, `open_verdict` says what stands at `chain_end`.
    """

    split: Split
    columns: Columns
    first_record: int
    chain_end: int
    gaps: list[Gap]
    open_verdict: Verdict | None


def decode_split(split: Split, settings: DecodeSettings, columns: Columns) -> DecodedSplit:
    """Decode a split into `columns` (which are cleared first)."""
    columns.clear()
    base = split.begin
    with fs.mapped(split.path, base - split.file_start, split.file_start + split.file_size - base) as buffer:
        reader = _RangeReader(buffer, base, settings, columns)
        return reader.run(split)


class _RangeReader:
    """The decode loop over one mapped range; positions are relative to the map, as kernels take them."""

    def __init__(self, buffer: NDArray[np.uint8], base: int, settings: DecodeSettings, columns: Columns) -> None:
        self.buffer = buffer
        self.base = base
        self.settings = settings
        self.columns = columns
        # Level n at place n; level 0 stands for no delay.
        self.delays = np.array((-1, *settings.delays_ms), dtype=np.int64)
        self.limit = len(buffer)

    def run(self, split: Split) -> DecodedSplit:
        end, search_end = split.end - self.base, min(split.end, split.data_end) - self.base
        result = DecodedSplit(split, self.columns, -1, split.begin, [], None)
        position = 0 if split.exact else self._boundary(0, search_end)
        if position < 0:
            return result
        while position < end:
            stop = self._decode(position, end)
            position = int(self.columns.state[State.POSITION])
            if stop is not Stop.NOT_A_RECORD:
                break
            verdict = Verdict(int(self.columns.state[State.VERDICT]))
            found = self._boundary(position + 1, search_end)
            if found < 0:
                result.open_verdict = verdict
                break
            result.gaps.append(Gap(self.base + position, self.base + found, verdict))
            position = found
        result.chain_end = self.base + position
        if self.columns.records:
            result.first_record = int(self.columns.position[0])
        return result

    def _boundary(self, begin: int, end: int) -> int:
        return kernels().find_boundary(self.buffer, self.base, begin, end, self.limit, self.settings.crc_check)

    def _decode(self, begin: int, end: int) -> Stop:
        while True:
            stop = Stop(
                kernels().decode_range(
                    self.buffer,
                    self.base,
                    begin,
                    end,
                    self.limit,
                    self.settings.crc_check,
                    self.settings.tag_items,
                    self.delays,
                    *decode_arguments(self.columns),
                )
            )
            if stop not in (Stop.RECORDS_FULL, Stop.ITEMS_FULL, Stop.QUEUES_FULL):
                return stop
            self.columns.grow(stop)
            begin = int(self.columns.state[State.POSITION])
