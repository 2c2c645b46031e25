"""The parts of a rebuild against plain models of what they do: splits, stitch, merge, reorder, IndexFile plans."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.files import fs
from reput.formats.index.index_file import is_index_name
from reput.formats.log.record import Verdict
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey, decode_entry
from reput.log.read.decode import DecodeSettings
from reput.log.read.files import LogFile, LogFiles
from reput.log.read.scan import Gap
from reput.pipeline.build.index.plan import index_names, plan_index_files
from reput.pipeline.build.reorder import tasks
from reput.pipeline.split.job import Job, SplitOddities, SplitResult
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.parts import QueueRanges
from reput.pipeline.split.plan import Split, plan_splits
from reput.pipeline.split.stitch import stitch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from reput.pipeline.split.stitch import Stitched

# --- plan ----------------------------------------------------------------------------------------


@st.composite
def log_files(draw: st.DrawFn) -> LogFiles:
    """Files one after the other, with holes at their ends."""
    size = draw(st.integers(1, 5000))
    start = draw(st.integers(0, 3)) * size
    files = []
    for number in range(draw(st.integers(0, 5))):
        begin = start + number * size
        files.append(LogFile(Path(f"{begin:020d}"), begin, size, begin + draw(st.integers(0, size))))
    return LogFiles(Path("log"), tuple(files), size)


@given(log_files(), st.integers(1, 6000))
def test_splits_cover_every_byte_once(log: LogFiles, split_bytes: int) -> None:
    """Splits cover each file from its start to where its data ends at the latest, once, in order."""
    splits = plan_splits(log, split_bytes)
    assert [split.number for split in splits] == list(range(len(splits)))
    for file in log.files:
        own = [split for split in splits if split.file_start == file.start]
        assert [split.exact for split in own] == [True] + [False] * (len(own) - 1) if own else True
        covered = file.start
        for split in own:
            assert split.begin == covered < split.end <= file.end
            assert split.size <= split_bytes + split_bytes // 4
            assert (split.path, split.file_size, split.data_end) == (str(file.path), file.size, file.data_end)
            covered = split.end
        assert covered >= file.data_end
        assert not own or own[-1].begin < file.data_end
    assert splits == sorted(splits, key=lambda split: split.begin)


# --- stitch --------------------------------------------------------------------------------------

NONE = SplitOddities(0, 0, 0, -1, 0, -1)
FILE = 1000


def a_split(number: int, begin: int, end: int) -> Split:
    """A range of a log with files of 1000 bytes."""
    start = begin // FILE * FILE
    return Split(number, f"{start}", start, FILE, begin, end, start + FILE, begin == start)


def result_of(split: Split, first: int, end: int, open_verdict: Verdict | None = None, *gaps: Gap) -> SplitResult:
    """A task's result for a split: its first record (-1: there is none) and the end of its chain."""
    records = int(first >= 0)
    return SplitResult(
        number=split.number, begin=split.begin, first_record=first, chain_end=end, gaps=gaps,
        open_verdict=open_verdict, records=records, items=0, queue_entries=0, records_after_last_item=records,
        last_record=first, last_record_size=1, first_store_timestamp=0, last_store_timestamp=0,
        max_store_timestamp=0, oddities=NONE,
    )  # fmt: skip


def no_more(split: Split) -> SplitResult:
    """Nothing may be decoded again."""
    raise AssertionError(f"split {split.number} is decoded again from {split.begin}")


def stitched(splits: Sequence[Split], results: Sequence[SplitResult], again: object = no_more) -> Stitched:
    """Join results from offset 0 on."""
    return stitch(0, splits, results, again)  # type: ignore[arg-type]


def test_stitch_joins_what_meets() -> None:
    """Splits whose ends meet their neighbours' first records are taken as they are."""
    splits = [a_split(0, 0, 400), a_split(1, 400, 1000), a_split(2, 1000, 2000)]
    results = [result_of(splits[0], 0, 420), result_of(splits[1], 420, 1000), result_of(splits[2], 1000, 2000)]
    joined = stitched(splits, results)
    assert (joined.end, joined.tail_verdict, joined.gaps, joined.decoded_again) == (2000, None, [], [])
    assert joined.results == results


def test_stitch_decodes_a_wrong_split_again() -> None:
    """A first record that is not where the chain continues has its split decoded again from there."""
    splits = [a_split(0, 0, 400), a_split(1, 400, 1000)]
    results = [result_of(splits[0], 0, 450), result_of(splits[1], 410, 1000)]
    asked: list[Split] = []

    def again(split: Split) -> SplitResult:
        asked.append(split)
        return result_of(split, 450, 1000)

    joined = stitched(splits, results, again)
    assert [(split.begin, split.end, split.exact) for split in asked] == [(450, 1000, True)]
    assert (joined.end, joined.decoded_again, joined.results[1].first_record) == (1000, [1], 450)
    assert joined.splits[1].begin == 450


def test_stitch_passes_over_splits_inside_a_record() -> None:
    """A split that a long record covers has nothing to say; what it found inside is dropped."""
    splits = [a_split(0, 0, 200), a_split(1, 200, 400), a_split(2, 400, 600), a_split(3, 600, 1000)]
    results = [
        result_of(splits[0], 0, 700), result_of(splits[1], -1, 200), result_of(splits[2], 500, 600),
        result_of(splits[3], 700, 1000),
    ]  # fmt: skip
    joined = stitched(splits, results, lambda split: result_of(split, -1, split.begin))
    assert (joined.end, joined.decoded_again) == (1000, [2])
    assert joined.splits[2].begin == joined.splits[2].end == 600
    assert joined.results[2].records == 0


def test_stitch_opens_and_closes_a_gap_over_splits() -> None:
    """A chain that breaks opens a gap up to the next split's first record, over splits without any."""
    splits = [a_split(0, 0, 400), a_split(1, 400, 600), a_split(2, 600, 1000), a_split(3, 1000, 2000)]
    results = [
        result_of(splits[0], 0, 300, Verdict.BAD_CRC), result_of(splits[1], -1, 400),
        result_of(splits[2], 640, 1000, None, Gap(700, 750, Verdict.BAD_SIZE)), result_of(splits[3], 1000, 2000),
    ]  # fmt: skip
    joined = stitched(splits, results)
    assert joined.gaps == [Gap(300, 640, Verdict.BAD_CRC), Gap(700, 750, Verdict.BAD_SIZE)]
    assert (joined.end, joined.tail_verdict) == (2000, None)


def test_stitch_ends_where_nothing_follows() -> None:
    """A chain that breaks with no record after it is the log's end, and says what is there."""
    splits = [a_split(0, 0, 1000), a_split(1, 1000, 2000)]
    results = [result_of(splits[0], 0, 300, Verdict.TRUNCATED), result_of(splits[1], -1, 1000, Verdict.ZERO)]
    joined = stitched(splits, results)
    assert (joined.end, joined.tail_verdict, joined.gaps) == (300, Verdict.TRUNCATED, [])


def test_stitch_goes_on_behind_a_missing_file() -> None:
    """A hole that is known to be one is no gap of the chain."""
    splits = [a_split(0, 0, 1000), a_split(1, 3000, 4000)]
    results = [result_of(splits[0], 0, 1000), result_of(splits[1], 3000, 3500, Verdict.ZERO)]
    joined = stitch(0, splits, results, no_more, [(1000, 3000)])
    assert (joined.end, joined.tail_verdict, joined.gaps) == (3500, Verdict.ZERO, [])


def test_stitch_without_splits() -> None:
    """A log without data ends where it begins."""
    joined = stitch(5000, [], [], no_more)
    assert (joined.end, joined.tail_verdict, joined.results) == (5000, None, [])


# --- merge ---------------------------------------------------------------------------------------


def ranges_of(part: Sequence[tuple[int, int]]) -> QueueRanges:
    """The ranges that a split with these (queue, offset) records leaves."""
    queues = sorted({queue for queue, _ in part})
    offsets = [[offset for queue, offset in part if queue == wanted] for wanted in queues]
    return QueueRanges(
        [QueueKey(b"t", queue) for queue in queues],
        np.array([own[0] for own in offsets], dtype=np.int64),
        np.array([own[-1] for own in offsets], dtype=np.int64),
        np.array([len(own) for own in offsets], dtype=np.int64),
        np.array([own == list(range(own[0], own[0] + len(own))) for own in offsets], dtype=np.uint8),
    )


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=8), max_size=6))
def test_merge_knows_which_queues_run_straight(parts: list[list[tuple[int, int]]]) -> None:
    """A queue is consecutive if each offset over all splits is one more than the one before."""
    table = SplitQueues()
    for part in parts:
        table.add(ranges_of(part))
    everything = [record for part in parts for record in part]
    for queue in {queue for queue, _ in everything}:
        offsets = [offset for own, offset in everything if own == queue]
        row = table.rows[QueueKey(b"t", queue)]
        assert (table.first[row], table.next[row], table.count[row]) == (offsets[0], offsets[-1] + 1, len(offsets))
        straight = offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert bool(table.in_order[row]) == straight
        assert (QueueKey(b"t", queue) in table.out_of_order()) == (not straight)
    assert len(table.keys) == len({queue for queue, _ in everything})


def test_merge_has_room_for_many_queues() -> None:
    """The table grows, and keeps what is in it."""
    table = SplitQueues()
    for begin in range(0, 5000, 700):
        table.add(ranges_of([(queue, queue % 5) for queue in range(begin, begin + 700)]))
    assert [int(value) for value in table.first[: len(table.keys)]] == [key.queue_id % 5 for key in table.keys]
    assert table.out_of_order() == []
    table.mark_out_of_order([QueueKey(b"t", 3), QueueKey(b"new", 0)])
    assert table.out_of_order() == [QueueKey(b"t", 3), QueueKey(b"new", 0)]


# --- reorder -------------------------------------------------------------------------------------


def model(offsets: Sequence[int]) -> tuple[int, list[int | None]]:
    """The rules in the plainest words: the queue's first offset, and per entry the record's number or None."""
    first, held = -1, list[int | None]()
    for number, offset in enumerate(offsets):
        if first < 0:
            first, held = offset, [number]
        elif offset == first + len(held):
            held.append(number)
        elif offset > first + len(held):
            held += [None] * (offset - first - len(held)) + [number]
        elif offset == 0 and follows_zero(offsets[number:]) != first + len(held):
            first, held = 0, [number]
    return first, held


def follows_zero(offsets: Sequence[int]) -> int:
    """Return the number after the stretch 0, 1, 2 ... with which these offsets begin; -1 for none of them."""
    for expected, offset in enumerate(offsets):
        if offset != expected:
            return offset
    return -1


def a_job(folder: Path) -> Job:
    """A job that builds in a folder, as its owner."""
    from reput.files.watermarks import Watermarks
    from reput.formats.own import files as own

    (folder / "staging" / "parts").mkdir(parents=True)
    watermarks = Watermarks(folder / own.WATERMARKS_NAME)
    watermarks["epoch"] = 1
    watermarks.close()
    return Job(str(folder), str(folder / "staging"), 1, DecodeSettings(1, True, ()), 100, 16, 8, fs.owner_of(folder))


def extracts_of(job: Job, parts: Sequence[Sequence[int]]) -> list[tasks.Extract]:
    """Leave extracts with these queue offsets; record n of all is at 1000 + n."""
    from reput.formats.queue.consume_queue import ENTRY

    found, number = [], 0
    for split, offsets in enumerate(parts):
        if offsets:
            entries = b"".join(ENTRY.struct.pack(1000 + number + n, 1, 0) for n in range(len(offsets)))
            places = np.array(offsets, dtype=np.int64)
            tasks.save_extracts(job, split, [0], [places], np.frombuffer(entries, dtype=np.uint8))
            found += tasks.extracts_of(job, [split], 0, 1)[0]
        number += len(offsets)
    return found


runs = st.tuples(st.integers(0, 8), st.integers(1, 5)).map(lambda run: list(range(run[0], sum(run))))


@settings(max_examples=150, deadline=None)
@given(st.lists(runs, min_size=1, max_size=7).map(lambda found: [*chain(*found)]), st.data())
def test_reorder_does_what_the_rules_say(
    tmp_path_factory: pytest.TempPathFactory, offsets: list[int], data: st.DataObject
) -> None:
    """A queue is what the plain rules make of it, for any queue offsets and any splits."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(offsets)), max_size=4)))
    parts = [offsets[a:b] for a, b in zip([0, *cuts], [*cuts, len(offsets)], strict=True)]
    job = a_job(tmp_path_factory.mktemp("reorder"))
    key = QueueKey(b"t", 0)
    outcome = tasks.reorder_queue(job, key, extracts_of(job, parts))
    first, held = model(offsets)
    assert (outcome.first, outcome.next) == (first, first + len(held))
    assert outcome.entries == sum(number is not None for number in held)
    assert outcome.blanks == held.count(None)
    assert outcome.entries + outcome.repeats + outcome.dropped == len(offsets)
    assert read_queue(Path(job.queue_folder) / "t" / "0", first, len(held)) == held


def read_queue(folder: Path, first: int, entries: int) -> list[int | None]:
    """The records' numbers in a queue of 5 entries a file, None for a pre-blank."""
    found: list[int | None] = []
    for offset in range(first, first + entries):
        path = folder / f"{offset // 5 * 100:020d}"
        entry = decode_entry(path.read_bytes(), offset % 5 * ENTRY_SIZE)
        found.append(None if entry.is_pre_blank else entry.physical_offset - 1000)
    return found


# --- IndexFiles ----------------------------------------------------------------------------------


def naive_index_files(items_of_records: Sequence[int], capacity: int) -> list[int]:
    """Items in each file, message by message as `IndexService.buildIndex` goes."""
    files: list[int] = []
    for items in items_of_records:
        if not files or files[-1] >= capacity:
            files.append(0)
        for _ in range(items):
            if files[-1] >= capacity:
                files.append(0)
            files[-1] += 1
    return files


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=6), st.integers(1, 7))
def test_index_plan_goes_as_the_peer_goes(splits: list[list[int]], capacity: int) -> None:
    """The planned files hold as many items as RocketMQ puts into each, message by message."""
    results = [split_with_items(number, records) for number, records in enumerate(splits)]
    plans = plan_index_files(results, capacity, map(str, count()))
    assert [plan.items for plan in plans] == naive_index_files([items for part in splits for items in part], capacity)
    segments = [segment for plan in plans for segment in plan.segments]
    for result in results:
        own = [(segment.begin, segment.end) for segment in segments if segment.split == result.number]
        assert [begin for begin, _ in own] == [0, *(end for _, end in own[:-1])][: len(own)]
        assert (own[-1][1] if own else 0) == result.items
    assert [plan.name for plan in plans] == [str(number) for number in range(len(plans))]


def split_with_items(number: int, records: Sequence[int]) -> SplitResult:
    """A split whose records have this number of items each."""
    last = max((n for n, items in enumerate(records) if items), default=-1)
    result = result_of(a_split(number, number * FILE, number * FILE + FILE), number * FILE, number * FILE + FILE)
    return result._replace(records=len(records), items=sum(records), records_after_last_item=len(records) - 1 - last)


def test_index_names_are_unique_and_ascending() -> None:
    """Names of 17 digits, a millisecond apart, over the end of a year, too."""
    names = list(islice(index_names(datetime(2025, 12, 31, 23, 59, 59, 999_400)), 2000))  # noqa: DTZ001 - local time
    assert names[:3] == ["20251231235959999", "20260101000000000", "20260101000000001"]
    assert all(is_index_name(name) for name in names)
    assert names == sorted(set(names))


def test_job_wants_topics() -> None:
    """A topic is built when it is on the list, or there is none, and it is not to be skipped."""
    job = Job("", "", 0, DecodeSettings(1, True, ()), 100, 16, 8, fs.Owner(0, 0, 0, 0))
    assert job.wants(b"a")
    assert not replace(job, topics=frozenset({b"b"})).wants(b"a")
    assert not replace(job, skip_topics=frozenset({b"a"})).wants(b"a")
    assert not replace(job, topics=frozenset({b"a"}), skip_topics=frozenset({b"a"})).wants(b"a")
