"""The tasks of a resumable stage: each says when it is done, and how what it left can be proved by the next run.

What a task left is synced, and then a file of its own says so (`reput.formats.resume`). The next run believes that file
where the task is given the same as then, and what was left, read back, has the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar
from zlib import crc32

from reput.files import fs
from reput.formats import resume as fmt
from reput.formats.consume_queue import ENTRY_SIZE, QueueKey
from reput.formats.paths import offset_name
from reput.formats.resume import Done, FileProof
from reput.pipeline import parts
from reput.pipeline.job import Job
from reput.pipeline.sink import queue_path
from reput.pipeline.sinks import LEFT
from reput.pipeline.task_values import digest, from_json, to_json

_AT_ONCE = 8 << 20


class Numbered(Protocol):
    """What a task is given, and what one that reads splits or queues gives back: with its own number in its stage."""

    @property
    def number(self) -> int:
        """The number."""
        ...


A = TypeVar("A", bound=Numbered)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Stage(Generic[A, R]):
    """A stage whose tasks can be taken over from an earlier run.

    `do` is the task, `result` the type (a NamedTuple) of what it gives back, `files` the files that it leaves in the
    parts folder; it puts entries to their places in queue files where `places`. `entries` counts those that it handled.
    `given` names what all tasks of the stage are given, beside the job. `sound`: whether files with the right bytes can
    be what such a task leaves; a store is untrusted input, what lies in its staging folder too.
    """

    name: str
    do: Callable[[Job, A], R]
    result: type[R]
    files: Callable[[Job, R], Sequence[str]]
    entries: Callable[[R], int]
    places: bool
    sound: Callable[[Job, R], bool]
    given: str = ""

    def task(self, argument: A) -> str:
        """By what a task with this argument is known."""
        return digest(self.given, argument)


def done_folder(job: Job) -> str:
    """Where tasks say that they are done."""
    return f"{job.staging}/{fmt.DONE_FOLDER}"


def do_and_record(job: Job, stage: Stage[A, R], argument: A) -> R:
    """Do a task; it is recorded when all that it left is durable."""
    result = stage.do(job, argument)
    with job.writing():
        files = stage.files(job, result)
        done = Done(
            stage.task(argument),
            to_json(result),
            tuple(_proof(path) for path in files),
            _placed(job, argument.number) if _places(job, stage) else 0,
        )
        for path in (*files, job.parts_folder):
            fs.sync_path(path)
        if _places(job, stage) and not job.sync_in_tasks:
            fs.sync_tree(job.queue_folder)
        # Another attempt of this task may be at the same place.
        fs.write_whole(_done_path(job, stage, argument), fmt.encode_done(done), private=True)
    return result


def believed(job: Job, stage: Stage[A, R], argument: A) -> R | None:
    """What a task that an earlier run has done gave back; None where it must be done again."""
    data = fs.read_bytes(_done_path(job, stage, argument), fmt.MOST_BYTES)
    done = fmt.decode_done(data) if data is not None else None
    if done is None or done.task != stage.task(argument):
        return None
    try:
        result = from_json(done.result, stage.result)
    except (TypeError, ValueError):
        return None
    return result if _is_as_left(job, stage, argument.number, result, done) else None


def _is_as_left(job: Job, stage: Stage[Any, R], number: int, result: R, done: Done) -> bool:
    # The result's own names must not lead out of the folder.
    if [f"{job.parts_folder}/{told.name}" for told in done.files] != [*stage.files(job, result)]:
        return False
    for told in done.files:
        path = f"{job.parts_folder}/{told.name}"
        if not fs.exists(path) or _proof(path) != told:
            return False
    return stage.sound(job, result) and (not _places(job, stage) or _placed(job, number) == done.placed)


def placed_queues(job: Job, numbers: Sequence[int]) -> set[QueueKey]:
    """The queues of which these tasks have put entries to their places."""
    if not any(LEFT[kind].placed for kind in job.kinds):
        return set()
    ranges = (parts.load_ranges(parts.ranges_path(job.parts_folder, number)) for number in numbers)
    return set(chain.from_iterable(one.keys for one in ranges))


def files_of_split(job: Job, result: Numbered) -> list[str]:
    """What a task that read a split, or queues, leaves for the next stages."""
    folder, number = job.parts_folder, result.number
    found = [parts.ranges_path(folder, number), *chain(*(LEFT[kind].files(job, number) for kind in job.kinds))]
    batches = parts.batches_path(folder, number)
    return [*found, batches] if fs.exists(batches) else found


def split_is_sound(job: Job, result: Numbered) -> bool:
    """Whether those files can be what such a task leaves, and go together."""
    number = result.number
    batches = parts.batches_path(job.parts_folder, number)
    if not parts.ranges_are_sound(parts.ranges_path(job.parts_folder, number)):
        return False
    if fs.exists(batches) and not parts.batches_are_sound(batches):
        return False
    return all(LEFT[kind].sound(job, number) for kind in job.kinds)


def _places(job: Job, stage: Stage[Any, Any]) -> bool:
    return stage.places and any(LEFT[kind].placed for kind in job.kinds)


def _done_path(job: Job, stage: Stage[Any, Any], argument: Numbered) -> str:
    return f"{done_folder(job)}/{fmt.done_name(stage.name, argument.number)}"


def _proof(path: str) -> FileProof:
    size, crc = fs.size_of(path), 0
    for begin in range(0, size, _AT_ONCE):
        crc = crc32(fs.read_bytes(path, _AT_ONCE, begin) or b"", crc)
    return FileProof(path.rpartition("/")[2], size, crc)


def _placed(job: Job, number: int) -> int:
    """The CRC-32 of the entries that a task has put to their places, as they stand there now."""
    ranges = parts.load_ranges(parts.ranges_path(job.parts_folder, number))
    crc = 0
    for key, first, entries, steady in zip(
        ranges.keys, ranges.first.tolist(), ranges.entries.tolist(), ranges.steady.tolist(), strict=True
    ):
        # Others are left to a stage of their own, which is not resumed.
        if steady:
            crc = _queue_crc(job, key, first * ENTRY_SIZE, (first + entries) * ENTRY_SIZE, crc)
    return crc


def _queue_crc(job: Job, key: QueueKey, begin: int, end: int, crc: int) -> int:
    folder, size = queue_path(job.queue_folder, key), job.queue_file_size
    while begin < end:
        start = begin // size * size
        until = min(end, start + size, begin + _AT_ONCE)
        found = fs.read_bytes(f"{folder}/{offset_name(start)}", until - begin, begin - start)
        crc = crc32(found or b"", crc)
        begin = until
    return crc
