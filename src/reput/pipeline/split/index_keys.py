"""Parts that decode tasks leave for the index database: the keys of a split's records, in sorted runs of bounded size.

Later tasks take a range of keys each, from the runs of all splits: they make tables that overlap with no other, or
compare the range with a database. Arrow sorts: no key becomes a Python object before it is written or compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reput.files import fs
from reput.files.part_file import Part, part_path, write_part
from reput.formats.index.index_database import IndexMarks
from reput.formats.own.part_file import PartKind
from reput.halving import first_where
from reput.kernels import key_kernels
from reput.kernels.layouts.keys import KeyOutput, KeySources, KeyStateAt, key_state
from reput.kernels.layouts.log import LogBytes
from reput.pipeline.split.decode import DecodedSplit
from reput.pipeline.split.job import Job

RUN_KEYS, RUN_BYTES = 1 << 18, 24 << 20
"""The most keys of a run, and the most bytes of their texts."""
_RANGE_KEYS = 1 << 19
_SAMPLED = 1 << 10
"""One key of this number is a sample."""

KEYS = PartKind("index-keys", {"store_timestamp": "i8"}, {"end": "i8", "text": "u1"})
RUNS = PartKind("index-runs", {"keys": "i8"}, {"marks": "i8", "sample_end": "i8", "samples": "u1"})


class SortedKeys(NamedTuple):
    """Keys of the index database, ascending (an Arrow array of bytes), and the store time of each (int64, ms)."""

    keys: Any
    store_timestamp: NDArray[np.int64]

    def rows(self) -> Iterator[tuple[bytes, int]]:
        """Yield each key with its store time."""
        for at in range(0, len(self.keys), _SAMPLED):
            times = self.store_timestamp[at : at + _SAMPLED]
            yield from zip(self.keys.slice(at, _SAMPLED).to_pylist(), times.tolist(), strict=True)


class KeyRuns(NamedTuple):
    """The runs of a split: the number of keys of each, samples of them, and the marks of its last record with keys."""

    split: int
    keys: tuple[int, ...]
    samples: list[bytes]
    marks: IndexMarks | None


class KeyRange(NamedTuple):
    """The keys in [low, high) of the runs of some splits; an empty one is no bound."""

    number: int
    low: bytes
    high: bytes
    runs: tuple[tuple[int, int], ...]


def save_keys(job: Job, decoded: DecodedSplit) -> None:
    """Leave the keys of a decoded split."""
    split, columns = decoded.split, decoded.columns
    state, counts, samples = key_state(), list[int](), list[bytes]()
    out = KeyOutput.for_keys(RUN_KEYS, RUN_BYTES)
    begin, end = split.begin, split.file_start + split.file_size
    with fs.mapped(split.path, begin - split.file_start, end - begin) as buffer:
        while state[KeyStateAt.record] < columns.records:
            state[KeyStateAt.keys] = 0
            count = key_kernels().gather_keys(LogBytes.whole(buffer, begin), KeySources.of(columns), out, state)
            if count:
                run = _sorted(_array(out.text, out.end[: count + 1]), out.store_timestamp[:count])
                _save_run(job, split.number, len(counts), run)
                counts.append(count)
                samples += run.keys.take(np.arange(0, count, _SAMPLED)).to_pylist()
    last, newest_ms = int(state[KeyStateAt.last_record]), int(state[KeyStateAt.store_timestamp])
    write_part(
        part_path(job.parts_folder, RUNS, split.number),
        RUNS,
        keys=np.array(counts, dtype=np.int64),
        marks=np.array([] if last < 0 else [last, newest_ms], dtype=np.int64),
        sample_end=np.cumsum([0, *map(len, samples)], dtype=np.int64),
        samples=np.frombuffer(b"".join(samples), dtype=np.uint8),
    )


def load_runs(job: Job, number: int) -> KeyRuns:
    """Return what a split left, without the keys."""
    part = Part(part_path(job.parts_folder, RUNS, number), RUNS)
    counts, ends, marks = (part.read(name).tolist() for name in ("keys", "sample_end", "marks"))
    text = part.read("samples").tobytes()
    samples = [text[begin:end] for begin, end in pairwise(ends)]
    return KeyRuns(number, tuple(counts), samples, IndexMarks(*marks) if marks else None)


def load_run(job: Job, split: int, run: int) -> SortedKeys:
    """Return the keys of a run, mapped."""
    path = part_path(job.parts_folder, KEYS, f"{split}-{run}")
    times, end, text = Part(path, KEYS).mapped("store_timestamp", "end", "text")
    return SortedKeys(_array(text, end), times)


def later_marks(runs: Iterable[KeyRuns], before: IndexMarks | None = None) -> IndexMarks | None:
    """Return the marks after the records of some splits in log order. As in RocketMQ the time never goes back."""
    for marks in (one.marks for one in runs):
        if marks is not None:
            newest_ms = max(marks.store_timestamp, before.store_timestamp if before else 0)
            before = IndexMarks(max(marks.offset, before.offset if before else 0), newest_ms)
    return before


def plan_key_ranges(runs: Sequence[KeyRuns]) -> list[KeyRange]:
    """Return ranges of keys for tasks, each of about the same number; together they have every key there can be."""
    names = tuple((one.split, run) for one in runs for run in range(len(one.keys)))
    samples = sorted(sample for one in runs for sample in one.samples)
    bounds = [b"", *dict.fromkeys(samples[_RANGE_KEYS // _SAMPLED :: _RANGE_KEYS // _SAMPLED]), b""]
    return [KeyRange(number, low, high, names) for number, (low, high) in enumerate(pairwise(bounds))]


def keys_in(job: Job, wanted: KeyRange) -> SortedKeys:
    """Return the keys of a range, each once."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    found, times = [_array(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))], [np.empty(0, dtype=np.int64)]
    for split, run in wanted.runs:
        keys, stamps = load_run(job, split, run)
        begin = _keys_below(keys, wanted.low)
        end = _keys_below(keys, wanted.high) if wanted.high else len(keys)
        if begin < end:
            found.append(keys.slice(begin, end - begin))
            times.append(stamps[begin:end])
    merged = _sorted(pa.concat_arrays(found), np.concatenate(times))
    if len(merged.keys) < 2:
        return merged
    is_new = np.append(True, pc.not_equal(merged.keys[1:], merged.keys[:-1]).to_numpy(zero_copy_only=False))
    return merged if is_new.all() else SortedKeys(merged.keys.filter(pa.array(is_new)), merged.store_timestamp[is_new])


def _keys_below(keys: Any, key: bytes) -> int:
    """Return the number of keys below a key."""
    return first_where(0, len(keys), lambda number: keys[number].as_py() >= key)


def _array(text: NDArray[np.uint8], end: NDArray[np.int64]) -> Any:
    """Return the texts that end at these places as an Arrow array over the same memory; `end` begins with 0."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(end)), pa.py_buffer(text)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(end) - 1, buffers)


def _sorted(keys: Any, times: NDArray[np.int64]) -> SortedKeys:
    import pyarrow.compute as pc

    order = pc.array_sort_indices(keys)
    return SortedKeys(keys.take(order), times[order.to_numpy()])


def _save_run(job: Job, split: int, run: int, keys: SortedKeys) -> None:
    _, ends, text = keys.keys.buffers()
    end = np.frombuffer(ends, dtype=np.int64, count=len(keys.keys) + 1)
    path = part_path(job.parts_folder, KEYS, f"{split}-{run}")
    write_part(
        path,
        KEYS,
        store_timestamp=keys.store_timestamp,
        end=end,
        text=np.frombuffer(text, dtype=np.uint8, count=int(end[-1])),
    )
