"""decode: one split to columns, with everything that stood in the way listed. Runs in a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from reput.files import fs
from reput.formats.record import Verdict
from reput.kernels import expect_work
from reput.kernels.columns import Columns, State, Stop
from reput.log.decode import DecodeSettings, RangeDecoder
from reput.pipeline.split.plan import Split


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
    expect_work(split.end - split.begin)
    base = split.begin
    with fs.mapped(split.path, base - split.file_start, split.file_start + split.file_size - base) as buffer:
        reader = _RangeReader(buffer, base, settings, columns)
        return reader.run(split)


class _RangeReader(RangeDecoder):
    """The decode loop over one mapped range; positions are relative to the map, as kernels take them."""

    def run(self, split: Split) -> DecodedSplit:
        end, search_end = split.end - self.base, min(split.end, split.data_end) - self.base
        result = DecodedSplit(split, self.columns, -1, split.begin, [], None)
        position = 0 if split.exact else self.boundary(0, search_end)
        if position < 0:
            return result
        while position < end:
            stop = self.decode(position, end)
            position = int(self.columns.state[State.POSITION])
            if stop is not Stop.NOT_A_RECORD:
                break
            verdict = Verdict(int(self.columns.state[State.VERDICT]))
            found = self.boundary(position + 1, search_end)
            if found < 0:
                result.open_verdict = verdict
                break
            result.gaps.append(Gap(self.base + position, self.base + found, verdict))
            position = found
        self.read_further()
        result.chain_end = self.base + position
        if self.columns.records:
            result.first_record = int(self.columns.position[0])
        return result
