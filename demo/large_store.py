"""The demo on a large store: write N messages as Arrow columns, index them, and check a sample."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from demo import outcome
from reput.cli.shared.output import show, show_table
from reput.errors import NoSpaceError
from reput.files import disk_space, fs
from reput.formats import paths
from reput.formats.java.hashing import java_string_hash_utf8
from reput.formats.log import properties, record
from reput.formats.queue import consume_queue
from reput.log.append.append import LogAppender
from reput.log.append.settings import LogSettings
from reput.log.read.files import LogFiles, list_log_files
from reput.queue.files import QueueFolder, list_topic_queues
from reput.texts import size_text

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from reput.pipeline.build.rebuild_report import RebuildReport
    from reput.pipeline.spark.listener import ProgressListener

TOPICS, QUEUES_PER_TOPIC = 8, 8
_QUEUES = TOPICS * QUEUES_PER_TOPIC
_BODY_BYTES = 117
_WRITE_STEP = 20_000
# What a message takes on disk at the most: its record, its entry, and its index items both in parts and in the file.
_BYTES_PER_MESSAGE = 296 + 20 + 3 * 40
_BYTES_AT_LEAST = 128 << 20

ENTRIES_CHECKED = 100


def show_own(folder: Path, count: int) -> int:
    """Write a store of `count` messages, rebuild it, and check a sample; return the exit code."""
    from reput.cli.shared.progress_bars import progress

    refuse_without_room(folder, count)
    store = folder / "store"
    show(f"Writing a store of {count:,} messages: {TOPICS} topics with {QUEUES_PER_TOPIC} queues each.")
    begin = time.perf_counter()
    with progress() as listener:
        written = write_store(store, count, listener)
    seconds = time.perf_counter() - begin
    show(f"  {size_text(written)} of log in {seconds:.1f} s. It has no indexes: Spark builds them from the log.")
    start_seconds = outcome.start_spark()
    report = outcome.rebuild(store, None)
    rows, differences = check_sample(store, report, count)
    show_table("Rebuilt", ("topic", "queues", "entries", "entries checked"), rows)
    show(f"Built {report.queue_entries:,} queue entries and {report.index_items:,} index items.")
    if not differences:
        show("Entries checked: each points to the record that has its topic, queue, offset, size and tag.")
    outcome.show_rates(report, start_seconds)
    stages = ", ".join(f"{name} {took:.1f} s" for name, took in report.seconds.items() if name != "total")
    show(f"  stages          {stages}")
    return outcome.show_differences(differences) if differences else 0


def refuse_without_room(folder: Path, count: int) -> None:
    """Check the free disk space before a store is written.

    Raises:
        NoSpaceError: The file system of `folder` is too small.
    """
    needed, free = _BYTES_AT_LEAST + count * _BYTES_PER_MESSAGE, disk_space.free_bytes(folder)
    if free < needed:
        raise NoSpaceError(
            f"{count:,} messages need {size_text(needed)}, and {folder.parent} has {size_text(free)} free. "
            "Take a smaller N, or let TMPDIR name a folder with more room"
        )


def topic_name(number: int) -> bytes:
    """Return the name of the demo's topic `number`."""
    return b"demo-topic-%d" % number


def write_store(store: Path, count: int, listener: ProgressListener) -> int:
    """Write a store of `count` messages, spread over all queues in turn; return the bytes of its log."""
    first_ms = int(time.time() * 1000) - count // 100
    with LogAppender(store / paths.COMMIT_LOG, LogSettings()) as log:
        for begin in range(0, count, _WRITE_STEP):
            end = min(begin + _WRITE_STEP, count)
            log.append_columns(_messages(range(begin, end), first_ms)).raise_for_status()
            if not begin:
                listener.stage("write", count * log.wrote // end)
            listener.advance(end, count)
        return log.wrote


def _messages(numbers: range, first_ms: int) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    number = np.arange(numbers.start, numbers.stop)
    topic, queue_id = (pa.array(part) for part in np.divmod(number % _QUEUES, QUEUES_PER_TOPIC))
    topics = [topic_name(each).decode() for each in range(TOPICS)]

    def numbered(prefix: str, digits: int) -> pa.Array:
        text = pc.utf8_lpad(pa.array(number).cast(pa.string()), digits, "0")
        return pc.binary_join_element_wise(prefix, text, "")

    columns = {
        "topic": pa.array(topics).take(topic),
        "queue_id": queue_id,
        "body": pa.array([_body(name) for name in topics], pa.binary()).take(topic),
        "tags": pa.array([f"tag-{tag:02d}" for tag in range(100)]).take(pa.array(number % 100)),
        "keys": numbered("order-", 10),
        "unique_key": numbered("7F00000100002A9F", 16),
        "born_timestamp": pa.array(first_ms + number // 100),
    }
    return pa.record_batch(columns)


def _body(topic: str) -> bytes:
    text = f'{{"shop": "{topic}", "amount": 12.50, "note": "'.encode()
    return (text + b"reput " * _BODY_BYTES)[: _BODY_BYTES - 2] + b'"}'


def check_sample(store: Path, report: RebuildReport, count: int) -> tuple[list[tuple[str, int, int, str]], list[str]]:
    """Compare entries of one queue of each topic with the records, in plain Python.

    Return the rows of the table, and the differences.
    """
    rows, differences = [], []
    log = list_log_files(store / paths.COMMIT_LOG)
    if report.messages != count or report.queue_entries != count:
        differences.append(
            f"{count:,} messages were written, {report.messages:,} read, {report.queue_entries:,} entries built"
        )
    for number, topic in enumerate(report.topics):
        queues = list(list_topic_queues(store / paths.CONSUME_QUEUE / topic.topic))
        checked, wrong = check_queue(log, queues[number % len(queues)]) if queues else (0, ["no queue"])
        rows.append((topic.topic, topic.queues, topic.entries, f"{checked - len(wrong)} of {checked}"))
        differences += wrong
    return rows, differences


def check_queue(log: LogFiles, queue: QueueFolder) -> tuple[int, list[str]]:
    """Compare some entries of a queue with their records; return how many, and the differences."""
    entry_size = consume_queue.ENTRY_SIZE
    data = b"".join(fs.read_bytes(file.path, file.size) or b"" for file in queue.files)
    entries = data.rstrip(b"\0")
    count = -(-len(entries) // entry_size)
    step = max(1, count // ENTRIES_CHECKED)
    numbers = sorted({*range(0, count, step), count - 1}) if count else []
    wrong = []
    for number in numbers:
        entry = consume_queue.decode_entry(data, number * entry_size)
        why = _entry_fault(log, queue, number, entry)
        if why is not None:
            wrong.append(f"{queue.topic}/{queue.queue_id} entry {number}: {why}")
    return len(numbers), wrong


def _entry_fault(log: LogFiles, queue: QueueFolder, number: int, entry: consume_queue.Entry) -> str | None:
    for file in log.files:
        if file.start <= entry.physical_offset < file.end:
            data = fs.read_bytes(file.path, max(entry.size, 0), entry.physical_offset - file.start) or b""
            break
    else:
        return f"log offset {entry.physical_offset} is outside the log"
    verdict, size = record.examine(data, 0, len(data), entry.physical_offset)
    if verdict is not record.Verdict.GOOD:
        return f"log offset {entry.physical_offset} holds {verdict.meaning}"
    found = record.decode_record(data)
    tags = properties.decode_properties(found.properties).get(properties.TAGS, b"")
    in_entry = (queue.topic.encode(), queue.queue_id, number, entry.size, entry.tags_code)
    in_record = (found.topic, found.queue_id, found.queue_offset, size, java_string_hash_utf8(tags))
    return None if in_entry == in_record else f"has {in_entry}, its record {in_record}"
