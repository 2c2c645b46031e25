"""Put, get, look up and open with RocketMQ's own store code and with reput, on the same messages in turn.

What is timed is the same on both sides:
    puts        everything from what an application gives (topic, body, tags, keys, unique key) to the put's answer: the
                message object, its properties and their bytes, checks, the record. Made beforehand: those texts and
                bodies (for put_messages: the tables), 500,000 messages at a time, so that what either store does in the
                background (RocketMQ dispatches, reput fills its tail) runs beside the puts and not in pauses
    indexed     the same, and then the wait until RocketMQ has dispatched all, or the catch-up of reput's indexes. What
                RocketMQ dispatches while the next messages are made is not on its clock
    pulls       from queue and offset to the places of the records, whose sizes RocketMQ's side adds up; nobody decodes
                them, except in the pull with bodies
    time, key   from question to answer. RocketMQ finds messages by the hash of their key alone, so that another key's
                message comes along now and then; these are recognized outside its clock, and inside reput's
    times, keys the same questions in one call for each topic, beside the peer's calls one by one. Made beforehand: the
                lists of queues, times and keys
    open        from the call to a store that can be read

Environment:
    QUICK         1: few messages, one round: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported
    MESSAGES      thousands of messages in each put; default 2000
    READ          thousands of messages in the store that is read; default 4000
    OPEN_GB       log past the indexes when a killed store is opened; default 4
    BATCH         messages in a batch of columns; default 1000
    THREADS       writers waiting with sync flush; default 16
    PEER_HEAP     the peer's JVM heap; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores go, on the disk to be measured; default bench/work; removed at the end
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is
`ratio put=.. indexed=.. send=.. put_messages=.. put_objects=.. get_32=.. bodies_32=.. get_500=..
time=.. times=.. key=.. keys=.. flat_256=.. flat_queues=..`.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asked
import machine
import runs
import store_report
from lines import Line
from machine import say
from workload import Case, Workload, prepare

from peer import peer

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[], dict[str, Any]]

RECORD_BYTES = 296
RUN_TIMEOUT_S = 7200
SETTINGS = ("QUICK", "MESSAGES", "READ", "OPEN_GB", "BATCH", "THREADS", "PEER_HEAP")
QUEUES_PER_TOPIC = 8
OBJECTS = 100
"""Messages in a batch of `Message` objects."""
AT_ONCE = 4
"""Threads that put at once with async flush."""
UNDER_WAY = 256
"""Messages of one thread that are not known to be durable yet."""
PUTS = {
    "put": ("put, 64 queues", 64),
    "topics_64": ("put, 64 topics", 64 * QUEUES_PER_TOPIC),
    "topics_128": ("put, 128 topics", 128 * QUEUES_PER_TOPIC),
    "topics_256": ("put, 256 topics", 256 * QUEUES_PER_TOPIC),
    "queues_10000": ("put, 10,000 queues", 10_000),
}


class DifferentError(Exception):
    """The two sides did not do the same; the text says what."""


@dataclass(frozen=True)
class Sizes:
    """The amount that is measured."""

    quick: bool
    rounds: int
    messages: int
    warm_up: int
    read: int
    opened: int
    questions: int
    synced: int
    batch: int
    threads: int
    seconds: float

    @classmethod
    def of_environment(cls) -> Sizes:
        """Return the amount that the environment asks for."""
        quick, given = asked.is_quick(), asked.amount
        messages = round(given("MESSAGES", 2000, 100) * 1000)
        return cls(
            quick=quick,
            rounds=asked.rounds(),
            messages=messages,
            warm_up=max(20_000, messages // 5),
            read=round(given("READ", 4000, 200) * 1000),
            opened=round(given("OPEN_GB", 4, 0.1) * 1e9 / RECORD_BYTES),
            questions=1000 if quick else 20_000,
            synced=2000 if quick else 60_000,
            batch=round(given("BATCH", 1000)),
            threads=round(given("THREADS", 16)),
            seconds=0.5 if quick else 3,
        )


class Bench:
    """One run: where it works, and what it has measured."""

    def __init__(self, work: Path, sizes: Sizes) -> None:
        self.work = work
        self.sizes = sizes
        self.heap = machine.peer_heap()
        self.round = 0
        self.lines = {name: Line(title, "messages/s") for name, (title, _) in PUTS.items()}
        self.lines |= {
            "indexed": Line("put, 64 queues, until all is indexed", "messages/s"),
            "put_at_once": Line(f"put, 64 queues, {AT_ONCE} threads", "messages/s"),
            "put_messages": Line(f"put_messages, columns, {sizes.batch} a batch", "messages/s"),
            "put_objects": Line(f"put_messages, Message objects, {OBJECTS} a batch", "messages/s"),
            "send": Line("sender.put, 64 queues", "messages/s"),
            "get_32": Line("get, 32 a pull", "messages/s"),
            "bodies_32": Line("get, 32 a pull, with bodies", "messages/s"),
            "get_500": Line("get, 500 a pull", "messages/s"),
            "get_500_raised": Line("get, 500 a pull, peer's limit raised", "messages/s"),
            "time": Line("offset_by_time", "calls/s"),
            "times": Line("offsets_by_time, a call for each topic", "questions/s"),
            "key": Line("query_message by unique key", "calls/s"),
            "keys": Line("query_messages by unique key, a call for each topic", "questions/s"),
            "open": Line(f"open after a kill, {sizes.opened * RECORD_BYTES / 1e9:.1f} GB", "MB/s"),
            "sync": Line(f"put, sync flush, {sizes.threads} threads", "messages/s"),
            "sync_async": Line(f"put_message_async, sync flush, {UNDER_WAY} under way", "messages/s"),
            "fsync": Line("fsync of the device", "calls/s"),
        }

    def run(self) -> None:
        """All rounds of everything."""
        read_store, questions = self._store_to_read()
        small = prepare(Case(20_000, 64), self.work / "open", self.heap)
        killed = prepare(Case(self.sizes.opened, 64), self.work / "open", self.heap)
        for number in range(1, self.sizes.rounds + 1):
            self.round = number
            for name, (_, queues) in PUTS.items():
                self._put(name, queues)
            self._put("indexed", 64, indexed=True)
            self._put("put_at_once", 64, "--threads", AT_ONCE)
            self._put_otherwise("put_messages", "--columns", self.sizes.batch)
            self._put_otherwise("put_objects", "--objects", OBJECTS)
            self._put_otherwise("send", "--send")
            self._read(read_store, questions)
            self._open(killed, small)
            self._sync()
            say(f"round {self.round} of {self.sizes.rounds} done")

    def _store_to_read(self) -> tuple[Path, Path]:
        say(f"the peer writes the stores: {self.sizes.read} messages to read, {self.sizes.opened} to open")
        store, questions = self.work / "read", self.work / "questions.jsonl"
        peer.run("write", store, self.sizes.read, heap=self.heap, timeout_s=RUN_TIMEOUT_S)
        ours("ask", store, "--count", self.sizes.questions, "--questions", questions)
        return store, questions

    def _put(self, name: str, queues: int, *threads: Any, indexed: bool = False) -> None:
        """Put messages on both sides; with `indexed`, until queues and indexes have all of them."""
        sizes, line = self.sizes, self.lines[name]
        options = ("--warm-up", sizes.warm_up, "--queues", queues, *threads)
        until = ("--indexed",) if indexed else ()
        theirs, mine = self._in_turns(
            lambda: self._in_new_store(peer_run, "bench-put", sizes.messages, *options, heap=self.heap),
            lambda: self._in_new_store(ours, "put", "--messages", sizes.messages, *options, *until),
        )
        assert_same(name, theirs, mine, "messages", "log_bytes")
        waited = theirs["seconds_dispatch"] if indexed else 0
        line.peer.append(sizes.messages / (theirs["seconds"] + waited))
        line.ours.append(sizes.messages / mine["seconds"])
        show_line(line)

    def _in_turns(self, theirs: Run, mine: Run) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run both sides, the peer first in odd rounds; return their reports, the peer's first."""
        if self.round % 2:
            return theirs(), mine()
        mine_first = mine()
        return theirs(), mine_first

    def _put_otherwise(self, name: str, *way: Any) -> None:
        """Put what the peer has put one by one into 64 queues, in another way."""
        sizes, line = self.sizes, self.lines[name]
        options = ("--warm-up", sizes.warm_up, "--queues", 64, *way)
        mine = self._in_new_store(ours, "put", "--messages", sizes.messages, *options)
        expected = {"messages": sizes.warm_up + sizes.messages}
        expected["log_bytes"] = expected["messages"] * RECORD_BYTES
        if expected["log_bytes"] < 1 << 30:  # else files end with blanks, and where depends on the batches
            assert_same(name, expected, mine, "log_bytes")
        assert_same(name, expected, mine, "messages")
        line.ours.append(sizes.messages / mine["seconds"])
        line.peer.append(self.lines["put"].peer[-1])
        show_line(line)

    def _in_new_store(self, run: Any, command: str, *options: Any, **keywords: Any) -> dict[str, Any]:
        store = self.work / "put"
        os.sync()  # what an earlier run left unwritten must not slow this one down
        try:
            report: dict[str, Any] = run(command, store, *options, **keywords)
        finally:
            shutil.rmtree(store, ignore_errors=True)
        return report

    def _read(self, store: Path, questions: Path) -> None:
        seconds = self.sizes.seconds
        pulls, asked = ("--pull", 32, "--pull", 500, "--bodies", 32), ("--questions", questions)
        slice_ms = ("--milliseconds", round(seconds * 1000))
        theirs = peer_run("bench-read", store, *pulls, *asked, *slice_ms, heap=self.heap)
        limits = (
            "--set",
            "maxTransferCountOnMessageInMemory=500",
            "--set",
            "maxTransferBytesOnMessageInMemory=4194304",
        )
        raised = peer_run("bench-read", store, "--pull", 500, *limits, *slice_ms, heap=self.heap)
        theirs["get_500_raised"] = raised["get_500"]
        mine = ours("read", store, *pulls, *asked, "--seconds", seconds)
        mine["get_500_raised"] = mine["get_500"]
        # The peer has no calls for many questions.
        theirs |= {"times": theirs["time"], "keys": theirs["key"]}
        for name, answer in theirs.items():
            assert_same(name, answer, mine[name], "done", "sum")
            self.lines[name].peer.append(answer["rate"])
            self.lines[name].ours.append(mine[name]["rate"])
            show_line(self.lines[name])

    def _open(self, killed: Workload, small: Workload) -> None:
        line, megabytes = self.lines["open"], killed.written["log_bytes"] / 1e6
        killed.reset()
        theirs = peer.run("rebuild", killed.store, heap=self.heap, timeout_s=RUN_TIMEOUT_S)
        for workload in (small, killed):
            workload.reset()
            (workload.store / "abort").touch()
        mine = ours("open", killed.store, "--warm-up-store", small.store)
        assert_same("open", theirs, mine, "messages")
        line.peer.append(megabytes / theirs["seconds_load"])
        line.ours.append(megabytes / mine["seconds"])
        show_line(line)

    def _sync(self) -> None:
        sizes, line = self.sizes, self.lines["sync"]
        self.lines["fsync"].ours.append(ours("fsync", self.work, "--seconds", sizes.seconds)["rate"])
        # Java compiles what it runs often: both warm up for some seconds.
        always = ("--warm-up", sizes.synced * 3 // 4, "--queues", 64)
        options = (*always, "--threads", sizes.threads)
        flush = ("--set", "flushDiskType=SYNC_FLUSH")
        theirs, mine = self._in_turns(
            lambda: self._in_new_store(peer_run, "bench-put", sizes.synced, *options, *flush, heap=self.heap),
            lambda: self._in_new_store(ours, "put", "--messages", sizes.synced, *options, "--sync"),
        )
        assert_same("sync", theirs, mine, "messages", "log_bytes")
        line.peer.append(sizes.synced / theirs["seconds"])
        line.ours.append(sizes.synced / mine["seconds"])
        under_way = self.lines["sync_async"]
        one_thread = (*always, "--under-way", UNDER_WAY, "--sync")
        mine = self._in_new_store(ours, "put", "--messages", sizes.synced, *one_thread)
        assert_same("sync_async", theirs, mine, "messages", "log_bytes")
        under_way.peer.append(line.peer[-1])
        under_way.ours.append(sizes.synced / mine["seconds"])
        show_line(line)
        show_line(under_way)


def peer_run(command: str, *words: Any, heap: str) -> dict[str, Any]:
    """A command of the peer."""
    report: dict[str, Any] = peer.run(command, *words, heap=heap, timeout_s=RUN_TIMEOUT_S)
    return report


def ours(command: str, *words: Any) -> dict[str, Any]:
    """A command of reput's side, in a process of its own."""
    return runs.report_of(runs.start_side("store_side.py", command, *words))


def assert_same(what: str, theirs: dict[str, Any], mine: dict[str, Any], *names: str) -> None:
    """Both did the same amount of work and gave the same answers.

    Raises:
        DifferentError: they did not.
    """
    for name in names:
        if theirs[name] != mine[name]:
            raise DifferentError(f"{what}: {name} is {theirs[name]} for the peer, {mine[name]} for reput")


def show_line(line: Line) -> None:
    """The last round of a line, as progress."""
    say(f"{line.name}: peer {line.peer[-1]:,.0f}, reput {line.ours[-1]:,.0f} {line.unit}")


def main() -> int:
    """Measure, print, save; exit status 2 where the peer cannot run."""
    if runs.lacks_peer():
        return 2
    sizes = Sizes.of_environment()
    with asked.work_folder("store") as work:
        (work / "open").mkdir()
        bench = Bench(work, sizes)
        bench.run()
    about = machine.environment("bench-store", SETTINGS, sizes.rounds)
    about |= {"messages": sizes.messages, "read": sizes.read, "batch": sizes.batch}
    store_report.report(about, bench.lines, sizes.threads).publish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
