"""The demo on a golden store: delete RocketMQ's ConsumeQueues and IndexFiles, build them again, and compare."""

from __future__ import annotations

import os
import tarfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from demo import outcome
from demo.outcome import printable_start
from reput.cli.shared.output import show, show_table
from reput.errors import NotAStoreError
from reput.files import fs
from reput.formats import paths
from reput.index.files import list_index_files
from reput.queue.files import list_queues
from reput.texts import size_text

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


@dataclass(slots=True)
class Comparison:
    """A comparison of files of one kind: the number of equal files, and the differences of the others."""

    equal: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text for the table."""
        return f"{self.equal} of {self.equal + len(self.differences)}"

    def add(self, name: str, theirs: bytes | None, ours: bytes | None) -> None:
        """Compare one file; None if a side lacks it."""
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
    start_seconds = outcome.start_spark()
    report = outcome.rebuild(store, config)
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
    outcome.show_rates(report, start_seconds)
    if total.differences or indexes.differences or not total.equal or not indexes.equal:
        return outcome.show_differences(total.differences + indexes.differences)
    show("So small a store is mostly start-up. To see the speed: make demo N=4000000")
    return 0


def golden_tarball() -> Path:
    """Return the tarball of the golden store.

    Raises:
        NotAStoreError: There is none.
    """
    named = os.environ.get(GOLDEN_SWITCH)
    here = Path(__file__).resolve().parents[1]
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
    """Unpack the golden store into `target`; return the store's folder.

    Raises:
        NotAStoreError: There is no tarball, or no store in it.
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
    """Compare the IndexFiles of two stores in order; their names are times, so they differ."""
    compared = Comparison()
    left, right = list_index_files(theirs / paths.INDEX), list_index_files(ours / paths.INDEX)
    for number in range(max(len(left), len(right))):
        one = left[number].path if number < len(left) else None
        other = right[number].path if number < len(right) else None
        compared.add(f"IndexFile {number + 1}", _content(one), _content(other))
    return compared


def _content(path: Path | None) -> bytes | None:
    return None if path is None else fs.read_bytes(path, path.stat().st_size)
