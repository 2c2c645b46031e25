"""Limits of the machine: memory, page cache, disk, the interpreter, threads, starts; what no program passes.

Each step is the least that a row of the other benches must do at least once: `docs/performance.md` names which.

Environment:
    QUICK         1: small amounts, one round: whether it works, not how fast it is
    SIZE          MiB of the arrays and files; default 512
    ROUNDS        default 5; medians are reported
    BENCH_DIR     where files go, on the disk to be measured; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio copy_gib_s=.. read_gib_s=.. cache_write_gib_s=.. cache_read_gib_s=..
map_write_gib_s=.. crc_gib_s=.. kernel_crc_gib_s=.. syncs_s=.. call_ns=.. kernel_call_ns=.. hand_over_us=..
waiters_s=.. round_trip_us=..`.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import asked
import machine
import numpy as np
import runs
from lines import Line, Spread, number, spread
from machine import say
from report import Report, Section, plot

from reput import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COUNTED = (
    "One thread, medians of rounds. Files lie on the disk of the other benches; only `sync` waits for that disk.",
    "Memory: numpy copies and adds up arrays that no cache holds. CRC: zlib's over such an array, and that of reput's",
    "    kernel over a body that a cache holds.",
    "Cache write and read: `pwrite` of a new file and `pread` of it, a MiB a call. Map write: stores into the map of a",
    "    new file, with the faults of its pages. Sync: 4 KiB into reserved blocks and `fdatasync`.",
    "Call: a Python function of three arguments. Kernel call: a compiled kernel by its entry point, over four bytes.",
    "Hand-over: a thread wakes another by a condition and waits for its answer; half of that. Waiters: 16 threads wait",
    "    for a sync of 4 KiB and are woken one by the other, over and over, and do nothing else.",
    "Round trip: a byte over TCP on loopback and back, between two threads.",
    "Starts: a process with nothing else; `import reput` in it; `java -version`; a Spark session with an empty",
    "    job, as Spark starts by itself and with reput's settings.",
)
BLOCK, BLOCK_SYNCED = 1 << 20, 4096
WAITERS = 16
MANY_CALLS = 100_000
GIB = 1 << 30


def main() -> int:
    """Measure, print, save."""
    rounds = asked.rounds(5)
    size = round(asked.amount("SIZE", 512, 16)) << 20
    lines = {name: Line(title, unit) for name, (title, unit) in NAMES.items()}
    with asked.work_folder("limits") as work:
        measured = steps(work, size)
        for number in range(1, rounds + 1):
            for name, measure in measured.items():
                lines[name].ours.append(measure())
            say(f"round {number} of {rounds}")
    about = machine.environment("bench-limits", ("QUICK", "SIZE"), rounds)
    ratios = {name: line.median for name, line in lines.items() if not name.endswith("_start")}
    table = [Section(("measured", "unit", "median", "rounds"), rows(lines))]
    title = "What the machine can do at most"
    Report("limits", title, about, COUNTED, lines, table, [ratios], draw=partial(_draw, lines=lines)).publish()
    return 0


NAMES = {
    "copy_gib_s": ("memory: copy", "GiB/s"),
    "read_gib_s": ("memory: read", "GiB/s"),
    "cache_write_gib_s": ("page cache: write a new file", "GiB/s"),
    "cache_read_gib_s": ("page cache: read", "GiB/s"),
    "map_write_gib_s": ("map: write a new file", "GiB/s"),
    "crc_gib_s": ("CRC-32", "GiB/s"),
    "kernel_crc_gib_s": ("CRC-32 by the kernel, of 64 KiB", "GiB/s"),
    "syncs_s": ("sync of 4 KiB in reserved blocks", "1/s"),
    "call_ns": ("call of a Python function", "ns"),
    "kernel_call_ns": ("call of a kernel", "ns"),
    "hand_over_us": ("hand-over between threads", "us"),
    "waiters_s": (f"{WAITERS} threads that wait for one sync", "1/s"),
    "round_trip_us": ("round trip on loopback", "us"),
    "python_start": ("start: Python", "s"),
    "import_start": ("start: Python with import reput", "s"),
    "java_start": ("start: Java", "s"),
    "spark_start": ("start: Python, Spark and an empty job", "s"),
    "reput_spark_start": ("the same, with reput's settings", "s"),
}
SPARK = "from pyspark.sql import SparkSession as s; s.builder.master('local[*]').getOrCreate().range(1).count()"
REPUT_SPARK = "from sessions import start_session as s; s().range(1).count()"


def steps(work: Path, size: int) -> dict[str, Callable[[], float]]:
    """The measurements by name; each returns one value."""
    source, target = np.arange(size // 8, dtype=np.uint64), np.ones(size // 8, np.uint64)
    file = work / "file"
    body, body_crc = os.urandom(65536), kernels.encode_kernels(kernels.COMPILED).body_crc
    here = str(Path(__file__).parent)
    return {
        "copy_gib_s": lambda: rate(size, lambda: np.copyto(target, source)),
        "read_gib_s": lambda: rate(size, source.sum),
        "cache_write_gib_s": partial(written, file, size),
        "cache_read_gib_s": partial(read, file, size),
        "map_write_gib_s": partial(mapped, work / "map", source),
        "crc_gib_s": lambda: rate(size, lambda: zlib.crc32(memoryview(source))),
        "kernel_crc_gib_s": lambda: rate(1000 * len(body), lambda: [body_crc(body) for _ in range(1000)]),
        "syncs_s": partial(syncs, work / "synced"),
        "call_ns": lambda: call_ns(_three),
        "kernel_call_ns": partial(kernel_call_ns, body_crc),
        "hand_over_us": hand_over_us,
        "waiters_s": partial(waiters, work / "waited"),
        "round_trip_us": round_trip_us,
        "python_start": lambda: seconds(lambda: run(sys.executable, "-c", "pass")),
        "import_start": lambda: seconds(lambda: run(sys.executable, "-c", "import reput")),
        "java_start": lambda: seconds(lambda: run("java", "-version")),
        "spark_start": lambda: seconds(lambda: run(sys.executable, "-c", SPARK)),
        "reput_spark_start": lambda: seconds(lambda: run(sys.executable, "-c", REPUT_SPARK, cwd=here)),
    }


def seconds(work: Callable[[], object]) -> float:
    """Time one run of some work."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rate(size: int, work: Callable[[], object]) -> float:
    """Return the GiB/s of work that goes over `size` bytes."""
    return size / GIB / seconds(work)


def written(path: Path, size: int) -> float:
    """GiB/s of `pwrite` into a file that is made anew."""
    path.unlink(missing_ok=True)
    block = os.urandom(BLOCK)
    with path.open("wb", buffering=0) as file:
        return rate(size, lambda: [os.pwrite(file.fileno(), block, at) for at in range(0, size, BLOCK)])


def read(path: Path, size: int) -> float:
    """GiB/s of `pread` of the file that `written` has just left in the page cache."""
    block = [bytearray(BLOCK)]
    with path.open("rb", buffering=0) as file:
        return rate(size, lambda: [os.preadv(file.fileno(), block, at) for at in range(0, size, BLOCK)])


def mapped(path: Path, source: np.ndarray) -> float:
    """GiB/s of stores into the map of a file that is made anew, of its full size from the start."""
    path.unlink(missing_ok=True)
    with path.open("w+b") as file:
        file.truncate(source.nbytes)
        with mmap.mmap(file.fileno(), source.nbytes) as buffer:
            target = np.frombuffer(buffer, source.dtype)
            found = rate(source.nbytes, partial(np.copyto, target, source))
            del target  # the map cannot be closed while an array shows it
    return found


def syncs(path: Path) -> float:
    """Syncs a second of a file with reserved blocks, into which the next 4 KiB are written each time."""
    count = 20 if asked.is_quick() else 200
    with reserved(path, count + 1) as append:
        append()
        return count / seconds(lambda: [append() for _ in range(count)])


@contextlib.contextmanager
def reserved(path: Path, count: int) -> Iterator[Callable[[], None]]:
    """Yield what writes the next 4 KiB of a file and syncs them; it has the blocks of `count`, as a log has."""
    block, places = os.urandom(BLOCK_SYNCED), iter(range(0, count * BLOCK_SYNCED, BLOCK_SYNCED))
    path.unlink(missing_ok=True)
    with path.open("xb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, count * BLOCK_SYNCED)
        os.fsync(file.fileno())

        def append() -> None:
            os.pwrite(file.fileno(), block, next(places))
            os.fdatasync(file.fileno())

        yield append


def _three(one: int, two: int, three: int) -> int:
    return one or two or three


def call_ns(function: Callable[[int, int, int], int]) -> float:
    """Nanoseconds of a call with three arguments, the loop around it taken off."""

    def calls() -> None:
        for _ in numbers:
            function(1, 2, 3)

    def none() -> None:
        for _ in numbers:
            pass

    numbers = range(MANY_CALLS)
    return (seconds(calls) - seconds(none)) / MANY_CALLS * 1e9


def kernel_call_ns(body_crc: Callable[[bytes], int]) -> float:
    """Nanoseconds of a call of a compiled kernel by its entry point, that of a CRC over four bytes."""
    return call_ns(lambda _one, _two, _three: body_crc(b"four")) - call_ns(lambda _one, _two, _three: 0)


def hand_over_us() -> float:
    """Microseconds until a thread that waits for a condition goes on, of many turns of two threads."""
    turns, condition, whose = MANY_CALLS // 50, threading.Condition(), [0]

    def take_turns(mine: int) -> None:
        for _ in range(turns):
            with condition:
                condition.wait_for(lambda: whose[0] == mine)
                whose[0] = 1 - mine
                condition.notify()

    other = threading.Thread(target=take_turns, args=(1,))
    other.start()
    took = seconds(lambda: take_turns(0))
    other.join()
    return took / turns / 2 * 1e6


def waiters(path: Path) -> float:
    """Waits a second of threads that a sync lets go on, one woken by the other, as puts with sync flush are.

    Each thread asks again at once. The last one to ask wakes the thread that syncs.
    """
    turns, requests = (20 if asked.is_quick() else 1000), [0]
    gates = [threading.Lock() for _ in range(WAITERS)]
    sync = threading.Lock()
    for lock in (sync, *gates):
        lock.acquire()

    def wait(number: int) -> None:
        for _ in range(turns):
            requests[0] += 1
            if requests[0] % WAITERS == 0:
                sync.release()
            gates[number].acquire()
            if number + 1 < WAITERS:
                gates[number + 1].release()

    def answer() -> None:
        for _ in range(turns):
            sync.acquire()
            append()
            gates[0].release()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(WAITERS)]
    with reserved(path, turns) as append:
        for thread in threads:
            thread.start()
        took = seconds(answer)
        for thread in threads:
            thread.join()
    return turns * WAITERS / took


def round_trip_us() -> float:
    """Microseconds of a byte to a thread over TCP on loopback, and back."""
    turns = MANY_CALLS // 20

    def echo() -> None:
        for _ in range(turns):
            far.sendall(far.recv(1))

    def ask() -> None:
        for _ in range(turns):
            near.sendall(b"x")
            near.recv(1)

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        other = threading.Thread(target=echo)
        other.start()
        took = seconds(ask)
        other.join()
    return took / turns * 1e6


def run(*words: str, cwd: str | None = None) -> None:
    """Run a program to its end."""
    subprocess.run(words, check=True, capture_output=True, cwd=cwd, env=runs.side_environment())


def rows(lines: dict[str, Line]) -> list[tuple[str, ...]]:
    """Return the table of lines without a peer."""
    found = ((line, Spread.of(line.ours)) for line in lines.values())
    return [(line.name, line.unit, number(values.median), spread(values)) for line, values in found]


def _draw(path: Path, lines: dict[str, Line]) -> None:
    shown = [line for line in lines.values() if line.unit == "GiB/s"]
    with plot(path, size=(8, 3)) as (axes,):
        axes.barh([line.name for line in shown], [line.median for line in shown])
        axes.invert_yaxis()
        axes.set_xlabel("GiB/s, one thread")


if __name__ == "__main__":
    sys.exit(main())
