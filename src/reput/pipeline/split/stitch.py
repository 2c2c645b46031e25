"""stitch: the proof that splits, decoded in parallel, give what one pass in order would give.

A split's end must be the next split's first record. If it is not (a body imitates a record, or the record at the border
is damaged), the next split is decoded again from the end of the chain, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from reput.formats.log.record import Verdict
from reput.formats.queue.consume_queue import QueueKey
from reput.log.read.scan import Gap
from reput.pipeline.split.job import SplitResult
from reput.pipeline.split.plan import Split


@dataclass(slots=True)
class Stitched:
    """The proved chain: results in log order, the end of the log, and all bytes that are no record.

    `end` is the log offset after the last good record, `tail_verdict` describes the bytes there (None: the files end
    there). `decoded_again` holds the numbers of splits whose first decoding was wrong, `tainted` the queues that these
    splits wrote to.
    """

    results: list[SplitResult]
    end: int
    tail_verdict: Verdict | None = None
    gaps: list[Gap] = field(default_factory=list)
    decoded_again: list[int] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    tainted: list[QueueKey] = field(default_factory=list)


class TimeRegressions(NamedTuple):
    """Records whose store time is below that of the record before: their number, and the log offset of the first."""

    times: int
    first: int

    @property
    def text(self) -> str:
        """One sentence for people."""
        times = f"{self.times} times, first" if self.times > 1 else "once,"
        return (
            f"store times run backwards {times} at log offset {self.first}: a clock was set back, or stale records "
            "follow a shorter new tail"
        )


def time_regressions(results: Iterable[SplitResult]) -> TimeRegressions | None:
    """Find where store times run backwards, inside splits and between two; None if they do not."""
    newest, count, first = -1, 0, -1
    for result in results:
        if not result.records:
            continue
        inside = result.oddities.first_time_regression
        count += result.oddities.time_regressions
        if newest > result.first_store_timestamp:
            count += 1
            inside = result.first_record
        first = inside if first < 0 else first
        newest = result.last_store_timestamp
    return TimeRegressions(count, first) if count else None


def inferred_topics(results: Iterable[SplitResult]) -> frozenset[bytes]:
    """Return the topics whose records alone show that they have queues of batches."""
    return frozenset().union(*(result.inferred for result in results))


def stitch(
    begin: int,
    splits: Sequence[Split],
    results: Sequence[SplitResult],
    decode_again: Callable[[Split], SplitResult],
    holes: Collection[tuple[int, int]] = (),
) -> Stitched:
    """Join the results of `splits` from log offset `begin` on.

    `decode_again` decodes one split anew, as given. `holes` are the ranges that no log file covers: the chain continues
    after them.
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
    # If the split has no record, no decoding was wrong: this only finds the end of the chain.
    if result.first_record >= 0:
        stitched.decoded_again.append(split.number)
    return again, decode_again(again)


def _extend(stitched: Stitched, result: SplitResult, broken: Gap | None) -> Gap | None:
    gaps = list(result.gaps)
    if broken is not None:
        if result.first_record < 0:
            return broken
        # The bytes before this split's first record belong to the gap that was already open.
        gaps = [gap for gap in gaps if gap.end > result.first_record]
        gaps.insert(0, broken._replace(end=result.first_record))
    stitched.gaps += gaps
    if result.open_verdict is not None:
        return Gap(result.chain_end, result.chain_end, result.open_verdict)
    if result.first_record >= 0 or result.chain_end > stitched.end:
        stitched.end = max(stitched.end, result.chain_end)
    return None
