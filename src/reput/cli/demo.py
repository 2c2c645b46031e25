"""`python -m reput.cli.demo [N] [--keep PATH]`: reput at work on RocketMQ's own store or a large one of ours.

Without N, a store that Apache RocketMQ wrote loses its ConsumeQueues and IndexFiles, Spark builds them again, and every
file is compared with RocketMQ's. With N, a store of N messages is written first, so that one sees the speed. The stores
lie in a temporary folder, or stay in PATH for the other commands to look at.
Exit code: 0 all is equal, 1 something differs, 2 it could not be done.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from reput.cli.output import say, show, show_table, size_text
from reput.errors import ConfigError, NoSpaceError, NotAStoreError, ReputError
from reput.files import fs
from reput.formats import consume_queue, paths, properties, record
from reput.formats.hashing import java_string_hash_utf8
from reput.index.files import list_index_files
from reput.log.files import LogFiles, list_log_files
from reput.log.writer import LogWriter, RecordStamp
from reput.queue.files import QueueFolder, list_queues, list_topic_queues

if TYPE_CHECKING:
    from reput.pipeline.listener import ProgressListener
    from reput.store.report import RebuildReport

GOLDEN_SWITCH = "REPUT_GOLDEN"
GOLDEN_FOLDER = Path("tests", "golden")
GOLDEN_NAME = "basic"
GOLDEN_CONFIG = """\
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=6000
maxHashSlotNum=500
maxIndexNum=2000
"""
"""The settings that the golden stores were written with: small files, so that a small store has many."""

TOPICS, QUEUES_PER_TOPIC = 8, 8
_QUEUES = TOPICS * QUEUES_PER_TOPIC
_BODY_BYTES = 117
_WRITE_STEP = 20_000
# What a message takes on disk at the most: its record, its entry, and its index items both in parts and in the file.
_BYTES_PER_MESSAGE = 296 + 20 + 3 * 40
_BYTES_AT_LEAST = 128 << 20

ENTRIES_CHECKED = 100
_DIFFERENCES_SHOWN = 10
_NAME_WIDTH = 40
_USAGE = "make demo, or make demo N=4000000 for a store of that many messages; KEEP=PATH keeps it"
_KEEP = "--keep"
_FAILED, _DIFFERS, _INTERRUPTED = 2, 1, 130


def main(arguments: Sequence[str]) -> int:
    """Run the demo; returns the exit code."""
    try:
        rest, keep = parse_keep(arguments)
        count = parse_count(rest)
        with temporary_folder() if keep is None else kept_folder(keep) as folder:
            return show_own(folder, count) if count else show_golden(folder)
    except ReputError as error:
        say(f"demo: {error}")
        return _FAILED
    except KeyboardInterrupt:
        say("demo: interrupted; its folder is removed")
        return _INTERRUPTED


def parse_count(arguments: Sequence[str]) -> int | None:
    """N from the command line, None without.

    Raises:
        ConfigError: it is no whole number above 0.
    """
    if not arguments:
        return None
    text = " ".join(arguments)
    # Longer numbers pass any disk, and Python refuses to read the very long ones.
    if text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0:
        return int(text)
    raise ConfigError(f"N={printable_start(text)}: a whole number of messages above 0 is needed ({_USAGE})")


def parse_keep(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """The arguments without `--keep PATH`, and that path; None without.

    Raises:
        ConfigError: there is no path behind it.
    """
    rest = list(arguments)
    if _KEEP not in rest:
        return rest, None
    at = rest.index(_KEEP)
    if len(rest) == at + 1 or not rest[at + 1]:
        raise ConfigError(f"{_KEEP}: name a folder behind it ({_USAGE})")
    path = Path(rest[at + 1]).expanduser().absolute()
    del rest[at : at + 2]
    return rest, path


def printable_start(text: str) -> str:
    """`text`, cut where it is long: for names and numbers that may be anything."""
    return text if len(text) <= _NAME_WIDTH else text[: _NAME_WIDTH - 3] + "..."


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is gone at the end, however the demo ends."""
    with fs.errors_named(tempfile.gettempdir(), "make a temporary folder"):
        folder = Path(tempfile.mkdtemp(prefix="reput-demo-"))
    try:
        yield folder
    finally:
        fs.remove_tree(folder)


@contextlib.contextmanager
def kept_folder(path: Path) -> Iterator[Path]:
    """A new folder that stays; gone again when the demo does not come to its end.

    Raises:
        ConfigError: there is something under this name already.
    """
    if fs.exists(path):
        raise ConfigError(f"{path}: is there already. Name a folder that is not, for the demo's store to stay in")
    fs.make_dirs(path)
    try:
        yield path
    except BaseException:
        fs.remove_tree(path)
        raise
    for log in sorted(path.rglob(paths.COMMIT_LOG)):
        show(f"Kept: {log.parent}")


# --- RocketMQ's store -----------------------------------------------------------------------------


@dataclass(slots=True)
class Comparison:
    """Files of one kind that were compared: how many are equal, and what is wrong with the others."""

    equal: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """As the table has it."""
        return f"{self.equal} of {self.equal + len(self.differences)}"

    def add(self, name: str, theirs: bytes | None, ours: bytes | None) -> None:
        """Compare one file, None where a side lacks it."""
        difference = _difference(theirs, ours)
        if difference is None:
            self.equal += 1
        else:
            self.differences.append(f"{name}: {difference}")


def _difference(theirs: bytes | None, ours: bytes | None) -> str | None:
    if theirs is None or ours is None:
        return "RocketMQ had no such file" if theirs is None else "was not built"
    if theirs == ours:
        return None
    if len(theirs) != len(ours):
        return f"{len(ours)} bytes, RocketMQ's has {len(theirs)}"
    first = next(number for number, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b)
    return f"differs from RocketMQ's from byte {first} on"


def show_golden(folder: Path) -> int:
    """Rebuild RocketMQ's own store and compare; returns the exit code."""
    original = unpack_golden(folder / "rocketmq")
    store = unpack_golden(folder / "reput")
    config = folder / "broker.conf"
    fs.write_whole(config, GOLDEN_CONFIG.encode())
    show("A store that Apache RocketMQ wrote:")
    show(f"  the log         {_held(store / paths.COMMIT_LOG)}")
    show(f"  ConsumeQueues   {_held(store / paths.CONSUME_QUEUE)}")
    show(f"  IndexFiles      {_held(store / paths.INDEX)}")
    fs.remove_tree(store / paths.CONSUME_QUEUE)
    fs.remove_tree(store / paths.INDEX)
    show(f"Deleted {paths.CONSUME_QUEUE}/ and {paths.INDEX}/ of a copy. Spark builds both again from the log.")
    start_seconds = start_spark()
    report = rebuild(store, config)
    queues = compare_queues(original, store)
    indexes = compare_indexes(original, store)
    entries = {topic.topic: topic for topic in report.topics}
    rows = [
        (
            printable_start(topic),
            entries[topic].queues if topic in entries else 0,
            entries[topic].entries if topic in entries else 0,
            compared.text,
        )
        for topic, compared in queues.items()
    ]
    show_table("Rebuilt", ("topic", "queues", "entries", "equal files"), rows)
    total = Comparison(
        sum(compared.equal for compared in queues.values()),
        [text for compared in queues.values() for text in compared.differences],
    )
    show(f"Equal to RocketMQ's, byte for byte: {total.text} queue files, {indexes.text} IndexFiles.")
    _show_rates(report, start_seconds)
    if total.differences or indexes.differences or not total.equal or not indexes.equal:
        return _tell_differences(total.differences + indexes.differences)
    show("So small a store is mostly start-up. To see the speed: make demo N=4000000")
    return 0


def golden_tarball() -> Path:
    """The tarball of the store to show.

    Raises:
        NotAStoreError: there is none.
    """
    named = os.environ.get(GOLDEN_SWITCH)
    here = Path(__file__).resolve().parents[3]
    folders = [Path(named)] if named else [here / GOLDEN_FOLDER, Path.cwd() / GOLDEN_FOLDER]
    for folder in folders:
        tarball = folder / f"{GOLDEN_NAME}.tar.gz"
        if tarball.is_file():
            return tarball
    raise NotAStoreError(
        f"{folders[0] / GOLDEN_NAME}.tar.gz: no such file. Run the demo in a checkout of reput, or name the folder of "
        f"the golden stores in {GOLDEN_SWITCH}"
    )


def unpack_golden(target: Path) -> Path:
    """Unpack the golden store below `target`; returns the store's folder.

    Raises:
        NotAStoreError: there is no tarball, or no store in it.
    """
    tarball = golden_tarball()
    fs.make_dirs(target)
    with fs.errors_named(tarball, f"unpack it into {target}"):
        try:
            with tarfile.open(tarball, "r:gz") as archive:
                archive.extractall(target, filter="data")
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise NotAStoreError(f"{tarball}: cannot be unpacked: {error}. Get the file again") from error
    store = target / GOLDEN_NAME
    for name in (paths.COMMIT_LOG, paths.CONSUME_QUEUE, paths.INDEX):
        if not (store / name).is_dir():
            raise NotAStoreError(f"{tarball}: holds no {GOLDEN_NAME}/{name}, so it is no whole golden store")
    return store


def _held(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return f"{len(files):>4} file{'s'[: len(files) != 1]}, {size_text(sum(path.stat().st_size for path in files))}"


def compare_queues(theirs: Path, ours: Path) -> dict[str, Comparison]:
    """Compare the queue files of two stores, topic by topic."""
    compared: dict[str, Comparison] = {}
    left, right = _queue_files(theirs), _queue_files(ours)
    for topic, name in sorted(left.keys() | right.keys()):
        one, other = left.get((topic, name)), right.get((topic, name))
        compared.setdefault(topic, Comparison()).add(f"{topic}/{name}", _content(one), _content(other))
    return compared


def _queue_files(store: Path) -> dict[tuple[str, str], Path]:
    return {
        (queue.topic, f"{queue.queue_id}/{file.path.name}"): file.path
        for queue in list_queues(store / paths.CONSUME_QUEUE)
        for file in queue.files
    }


def compare_indexes(theirs: Path, ours: Path) -> Comparison:
    """Compare the IndexFiles of two stores in their order; their names say when they were made, so they differ."""
    compared = Comparison()
    left, right = list_index_files(theirs / paths.INDEX), list_index_files(ours / paths.INDEX)
    for number in range(max(len(left), len(right))):
        one = left[number].path if number < len(left) else None
        other = right[number].path if number < len(right) else None
        compared.add(f"IndexFile {number + 1}", _content(one), _content(other))
    return compared


def _content(path: Path | None) -> bytes | None:
    return None if path is None else fs.read_bytes(path, path.stat().st_size)


# --- A large store of our own ---------------------------------------------------------------------


def show_own(folder: Path, count: int) -> int:
    """Write a store of `count` messages, rebuild it, and check a sample; returns the exit code."""
    from reput.cli.progress import progress

    refuse_without_room(folder, count)
    store = folder / "store"
    show(f"Writing a store of {count:,} messages: {TOPICS} topics with {QUEUES_PER_TOPIC} queues each.")
    begin = time.perf_counter()
    with progress() as listener:
        written = write_store(store, count, listener)
    seconds = time.perf_counter() - begin
    show(f"  {size_text(written)} of log in {seconds:.1f} s. It has no indexes: Spark builds them from the log.")
    start_seconds = start_spark()
    report = rebuild(store, None)
    rows, differences = check_sample(store, report, count)
    show_table("Rebuilt", ("topic", "queues", "entries", "entries checked"), rows)
    show(f"Built {report.queue_entries:,} queue entries and {report.index_items:,} index items.")
    if not differences:
        show("Entries checked: each points to the record that has its topic, queue, offset, size and tag.")
    _show_rates(report, start_seconds)
    stages = ", ".join(f"{name} {took:.1f} s" for name, took in report.seconds.items() if name != "total")
    show(f"  stages          {stages}")
    return _tell_differences(differences) if differences else 0


def refuse_without_room(folder: Path, count: int) -> None:
    """Look for room before a store is written.

    Raises:
        NoSpaceError: the file system of `folder` cannot hold it.
    """
    needed, free = _BYTES_AT_LEAST + count * _BYTES_PER_MESSAGE, fs.free_bytes(folder)
    if free < needed:
        raise NoSpaceError(
            f"{count:,} messages need {size_text(needed)}, and {folder.parent} has {size_text(free)} free. "
            "Take a smaller N, or let TMPDIR name a folder with more room"
        )


def topic_name(number: int) -> bytes:
    """The name of the demo's topic `number`."""
    return b"demo-topic-%d" % number


def write_store(store: Path, count: int, listener: ProgressListener) -> int:
    """Write a store of `count` messages, spread over all queues in turn; returns the bytes of its log."""
    stamps = [_stamp(topic_name(number)) for number in range(TOPICS)]
    queues = [(stamps[number // QUEUES_PER_TOPIC], number % QUEUES_PER_TOPIC) for number in range(_QUEUES)]
    listener.stage("write", count * stamps[0].size)
    first_ms = int(time.time() * 1000) - count // 100
    with LogWriter(store / paths.COMMIT_LOG) as log:
        append = log.append_stamped
        for begin in range(0, count, _WRITE_STEP):
            end = min(begin + _WRITE_STEP, count)
            for number in range(begin, end):
                queue_offset, queue = divmod(number, _QUEUES)
                stamp, queue_id = queues[queue]
                append(stamp, queue_id, queue_offset, first_ms + number // 100, _properties(number))
            listener.advance(end, count)
        return log.offset


def _properties(number: int) -> bytes:
    return b"UNIQ_KEY\x017F00000100002A9F%016X\x02KEYS\x01order-%010d\x02TAGS\x01tag-%02d\x02" % (
        number,
        number,
        number % 100,
    )


def _stamp(topic: bytes) -> RecordStamp:
    text = b'{"shop": "%b", "amount": 12.50, "note": "' % topic
    body = (text + b"reput " * _BODY_BYTES)[: _BODY_BYTES - 2] + b'"}'
    return RecordStamp(record.Record(topic, body, _properties(0)))


def check_sample(store: Path, report: RebuildReport, count: int) -> tuple[list[tuple[str, int, int, str]], list[str]]:
    """Hold entries of one queue of each topic against the records, in plain Python.

    Returns the table's rows and what is wrong.
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
    """Hold some entries of a queue, first and last among them, against their records; how many, and what is wrong."""
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
    said = (queue.topic.encode(), queue.queue_id, number, entry.size, entry.tags_code)
    holds = (found.topic, found.queue_id, found.queue_offset, size, java_string_hash_utf8(tags))
    return None if said == holds else f"says {said}, its record {holds}"


# --- What both share ------------------------------------------------------------------------------


def start_spark() -> float:
    """Start Spark, embedded; returns the seconds that this took."""
    from reput.pipeline.session import start_context

    begin = time.perf_counter()
    start_context()
    return time.perf_counter() - begin


def rebuild(store: Path, config: Path | None) -> RebuildReport:
    """Rebuild a store with the Spark that runs already, with progress on stderr."""
    import reput
    from reput.cli.progress import progress

    with progress() as listener:
        return reput.rebuild(store, config=config, listener=listener)


def _show_rates(report: RebuildReport, start_seconds: float) -> None:
    seconds = max(report.seconds["total"], 1e-3)
    show(f"  start of Spark  {start_seconds:.1f} s")
    show(
        f"  rebuild         {seconds:.1f} s: {report.messages:,} messages at "
        f"{report.messages / seconds:,.0f} messages/s, {size_text(report.log_bytes / seconds)}/s"
    )


def _tell_differences(differences: Sequence[str]) -> int:
    for text in differences[:_DIFFERENCES_SHOWN]:
        say(f"differs: {text}")
    if len(differences) > _DIFFERENCES_SHOWN:
        say(f"differs: ... and {len(differences) - _DIFFERENCES_SHOWN} more")
    if not differences:
        say("differs: there was nothing to compare")
    return _DIFFERS


if __name__ == "__main__":
    # A gigabyte must not stay behind when the demo is ended from outside.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # What PySpark would log on Ctrl-C, stack traces to the JVM, is no news to whoever pressed it.
    logging.getLogger().addHandler(logging.NullHandler())
    sys.exit(main(sys.argv[1:]))
