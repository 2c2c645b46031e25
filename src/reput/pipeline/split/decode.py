"""decode: one split to columns, with a list of all bytes that are no record. Runs in a task."""

from __future__ import annotations

from dataclasses import dataclass

from reput.files import fs
from reput.formats.layout import INT64_MAX
from reput.formats.log.record import Verdict
from reput.kernels import expect_work
from reput.kernels.layouts.columns import Columns
from reput.log.read.decode import DecodeSettings
from reput.log.read.scan import Gap, Keep, RangeWalk, WalkRules, WalkState
from reput.pipeline.split.plan import Split


@dataclass(slots=True)
class DecodedSplit:
    """A split's columns, and how its chain of records ran; all offsets are log offsets.

    `first_record` is the first boundary found (-1: none), `chain_end` where the next record is expected. If the chain
    broke and no record follows in the split, `open_verdict` describes the bytes at `chain_end`.
    """

    split: Split
    columns: Columns
    first_record: int
    chain_end: int
    gaps: list[Gap]
    open_verdict: Verdict | None


def decode_split(split: Split, settings: DecodeSettings, columns: Columns) -> DecodedSplit:
    """Decode a split into `columns`, which are cleared first.

    The split may begin anywhere. Unless its begin is exact, the walk first searches the first record.
    """
    columns.clear()
    expect_work(split.end - split.begin)
    rules = WalkRules(settings, INT64_MAX, Keep.RECORDS)
    search_end = min(split.end, split.data_end)
    result = DecodedSplit(split, columns, -1, split.begin, [], None)
    begin, file_end = split.begin, split.file_start + split.file_size
    with fs.mapped(split.path, begin - split.file_start, file_end - begin) as buffer:
        walk = RangeWalk(buffer, begin, rules, begin, end=split.end, columns=columns)
        if not split.exact and not walk.seek(search_end):
            return result
        while walk.step():
            if walk.state is WalkState.BROKEN:
                gap = walk.skip(search_end)
                if gap is None:
                    result.open_verdict = walk.verdict
                    break
                result.gaps.append(gap)
        walk.read_further()
    result.chain_end = walk.offset
    if columns.records:
        result.first_record = int(columns.position[0])
    return result
