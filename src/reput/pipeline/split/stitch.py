"""stitch: prove that the splits, decoded side by side, say what one pass in order would say.

A split's end must be the next one's first record. Where it is not (a body that imitates a record, or a damaged record
at the border), that split is decoded again from where the chain really stands, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from reput.formats.consume_queue import QueueKey
from reput.formats.record import Verdict
from reput.log.scan import Gap
from reput.pipeline.split.job import SplitResult
from reput.pipeline.split.plan import Split


@dataclass(slots=True)
class Stitched:
    """The proved chain: results in log order, where the log ends, and all that is no record.

    `end` is the log offset behind the last good record's chain, `tail_verdict` what stands there (None: the files end
    there). `redone` holds the numbers of splits whose first decoding was wrong, `tainted` the queues that those wrote
    to.
    """

    results: list[SplitResult]
    end: int
    tail_verdict: Verdict | None = None
    gaps: list[Gap] = field(default_factory=list)
    redone: list[int] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    tainted: list[QueueKey] = field(default_factory=list)


def inferred_topics(results: Iterable[SplitResult]) -> frozenset[bytes]:
    """Return the topics that are known for queues of batches by their records alone."""
    return frozenset().union(*(result.inferred for result in results))


def stitch(
    begin: int,
    splits: Sequence[Split],
    results: Sequence[SplitResult],
    decode_again: Callable[[Split], SplitResult],
    holes: Collection[tuple[int, int]] = (),
) -> Stitched:
    """Join the results of `splits` from log offset `begin` on.

    `decode_again` decodes one split anew, as given. `holes` are the ranges that no log file covers: the chain goes on
    behind them.
    """
    stitched = Stitched([], begin)
    broken: Gap | None = None
    for planned, found in zip(splits, results, strict=True):
        split, result = planned, found
        if broken is None and stitched.end < split.begin:
            if (stitched.end, split.begin) in holes:
                stitched.end = split.begin
            else:
                # The chain ended at a hole inside its file, and yet another file follows.
                broken = Gap(stitched.end, stitched.end, Verdict.ZERO)
        if broken is None:
            split, result = _aligned(stitched, split, result, decode_again)
        stitched.results.append(result)
        stitched.splits.append(split)
        broken = _extend(stitched, result, broken)
    if broken is not None:
        stitched.end, stitched.tail_verdict = broken.begin, broken.verdict
    return stitched


def _aligned(
    stitched: Stitched, split: Split, result: SplitResult, decode_again: Callable[[Split], SplitResult]
) -> tuple[Split, SplitResult]:
    expected = stitched.end
    covered = expected >= split.end
    if (split.exact and split.begin == expected) or (covered and result.first_record < 0):
        return split, result
    if not covered and result.first_record == expected:
        return split, result
    again = replace(split, begin=min(expected, split.end), exact=True)
    # Where nothing was found, only the end of the chain is looked at: no decoding was wrong.
    if result.first_record >= 0:
        stitched.redone.append(split.number)
    return again, decode_again(again)


def _extend(stitched: Stitched, result: SplitResult, broken: Gap | None) -> Gap | None:
    gaps = list(result.gaps)
    if broken is not None:
        if result.first_record < 0:
            return broken
        # What stands in front of this split's first record belongs to the gap that was already open.
        gaps = [gap for gap in gaps if gap.end > result.first_record]
        gaps.insert(0, broken._replace(end=result.first_record))
    stitched.gaps += gaps
    if result.open_verdict is not None:
        return Gap(result.chain_end, result.chain_end, result.open_verdict)
    if result.first_record >= 0 or result.chain_end > stitched.end:
        stitched.end = max(stitched.end, result.chain_end)
    return None
