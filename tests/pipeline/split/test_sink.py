"""Entries at their places in queue files: which are written, and which are left for a later task."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from reput.files import fs
from reput.formats.queue.consume_queue import ENTRY_SIZE, Entry, QueueKey, decode_entry, encode_entry
from reput.formats.queue.queue_kinds import PART_KIND
from reput.log.read.decode import DecodeSettings
from reput.pipeline.split.job import Job
from reput.pipeline.split.sink import place_entries, queue_path
from reput.queue.placement import QueuePlacement
from reput.queue.runs import EntryRun

ENTRIES_A_FILE = 4
MOST = 24
FRONTIER = 1000
LIGHT = b"%LMQ%a"


def job_in(folder: Path) -> Job:
    """A job that grows the queues of a store; light queues are in the database alone."""
    job = Job(
        "",
        "",
        1,
        DecodeSettings(1, True, ()),
        ENTRIES_A_FILE * ENTRY_SIZE,
        16,
        8,
        fs.owner_of(folder),
        live=str(folder),
    )
    return replace(job, frontier=FRONTIER, placement=QueuePlacement(light_kind=PART_KIND))


def places_of(job: Job, key: QueueKey) -> dict[int, int]:
    """Read the log offsets that a queue's entries name, by queue offset."""
    found = {}
    for path in Path(queue_path(job.queue_folder, key)).glob("*"):
        data = path.read_bytes()
        for at in range(0, len(data), ENTRY_SIZE):
            entry = decode_entry(data, at)
            if entry.size:
                found[(int(path.name) + at) // ENTRY_SIZE] = entry.physical_offset
    return found


def entries_at(first: int, count: int, position: int) -> memoryview:
    """Make entries of records that follow one another from a log offset on."""
    return memoryview(b"".join(encode_entry(Entry(position + number, 1, first + number)) for number in range(count)))


pieces = st.tuples(
    st.sampled_from([b"orders", b"clicks", LIGHT]),
    st.integers(0, MOST),
    st.integers(1, 6),
    st.integers(FRONTIER - 60, FRONTIER + 100),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(pieces, max_size=12), st.booleans())
def test_placed_entries_are_a_models(wanted: list[tuple[bytes, int, int, int]], is_live: bool) -> None:
    """Runs are written, but for queues elsewhere; in a live store never over records below the frontier."""
    with tempfile.TemporaryDirectory() as folder:
        job = job_in(Path(folder))
        if not is_live:
            job = replace(job, live=None, staging=folder)
        model: dict[QueueKey, dict[int, int]] = {}
        expected = []
        given = []
        for topic, first, count, position in wanted:
            key = QueueKey(topic, 0)
            given.append((key, EntryRun(first, entries_at(first, count, position))))
            queue = model.setdefault(key, {})
            if topic == LIGHT:
                continue
            if is_live and any(queue.get(offset, FRONTIER) < FRONTIER for offset in range(first, first + count)):
                expected.append(key)
                continue
            queue |= {first + number: position + number for number in range(count)}
        assert place_entries(job, given) == expected
        assert {key: places_of(job, key) for key in model} == model
