"""The classic comparison: what is left of a store's rate with 64, 128 and 256 topics, in reput, RocketMQ and Kafka.

Stores: reput's and RocketMQ's embedded store and Kafka's log layer put the same messages, from one thread, into topics
of 8 queues. Brokers: the same through RocketMQ's and Kafka's broker and `reput serve`, each with its own Java client
(`reput serve` with RocketMQ's) on the loopback address. Many queues: up to 100,000, for as many as a store bears.

Environment:
    QUICK         1: few cases, one round: whether it works, not how fast it is
    ROUNDS        default 3; medians are reported; many queues are measured once
    PARTS         default "stores brokers many"
    SECONDS       seconds of each measurement; default 1.5
    WARM_UP       seconds of puts before the first measurement of each mode, a third of them before others; default 3
    PEER_HEAP     the JVM's heap of the stores; default 6g, or half the memory if that is less
    BENCH_DIR     where the stores on the disk go; default bench/work; removed at the end
    MEMORY_DIR    where the stores in memory go; default /dev/shm
    RESULTS_DIR   default bench/results, after a quick run bench/work

The last line of the output is `ratio put_64=.. put_128=.. put_256=.. flat=.. flat_rocketmq=.. flat_kafka=..
flat_kafka_broker=..`: reput's single puts of 128 bytes over RocketMQ's, and the rate in 256 topics over that in 64.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import asked
import machine
import runs
import topics_report
from lines import Line
from machine import say
from served import kafka_side, reput_side, rocketmq_side
from topics_report import Case

from broker.clients.brokers import NAME, make_topics
from peer import peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Side = Callable[[], None]

PARTS = ("stores", "brokers", "many")
QUEUES_PER_TOPIC = 8
TOPICS = (64, 128, 256)
MANY = (10_000, 100_000)
BYTES_MAX = 2 << 30
"""The most bytes that one measurement writes, so that the page cache and the memory hold them."""
EACH_MAX = TOPICS[-1] * QUEUES_PER_TOPIC
"""The most queues of which each gets some messages before each measurement: with more this would take minutes."""
ANSWER_TIMEOUT_S = 150.0
SETTINGS = ("QUICK", "PARTS", "SECONDS", "WARM_UP", "PEER_HEAP")
NEVER_MS, EVERY_MS = 3_600_000, 500
LOG_FLUSH = {
    "none": {"flushIntervalCommitLog": f"{NEVER_MS}", "flushCommitLogThoroughInterval": f"{NEVER_MS}"},
    "500 ms": {"flushIntervalCommitLog": f"{EVERY_MS}", "flushCommitLogLeastPages": "0"},
}
"""Settings of RocketMQ's log and reput's, by policy."""
QUEUE_FLUSH = {
    "none": {"flushIntervalConsumeQueue": f"{NEVER_MS}", "flushConsumeQueueThoroughInterval": f"{NEVER_MS}"},
    "500 ms": {},
}
"""Settings of RocketMQ's queues, which come from the log: where that has a policy, they have their defaults."""
KAFKA_FLUSH = {
    "none": {},
    "500 ms": {
        "log.flush.interval.ms": f"{EVERY_MS}",
        "log.flush.scheduler.interval.ms": f"{EVERY_MS}",
        "log.initial.task.delay.ms": f"{EVERY_MS}",
    },
}
ROCKSDB = {"storeType": "defaultRocksDB"}


class Cell(NamedTuple):
    """One way to put: single, batch or columns, with bodies of a size."""

    mode: str
    body: int


SMALL = (Cell("single", 128), Cell("batch", 128))
BOTH = (*SMALL, Cell("single", 1024), Cell("batch", 1024))


class SideError(Exception):
    """A side of the comparison did not do what was asked; the text says why."""


@dataclass
class Bench:
    """One run: where it works, and what it has measured."""

    disk: Path
    memory: Path
    ms: int
    warm_up_ms: int
    """The time before the first measurement of a mode, in which Java compiles; before the others it is a third."""
    round: int = 0
    lines: dict[Case, Line] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def run(self, rounds: int, parts: list[str], *, quick: bool) -> None:
        """All parts; stores and brokers in rounds."""
        counts = (64, 256) if quick else TOPICS
        for number in range(1, rounds + 1):
            self.round = number - 1
            if "stores" in parts:
                self._stores(counts, quick=quick)
            if "brokers" in parts:
                for topics in counts[:1] if quick else counts:
                    for policy in ("none",) if quick else LOG_FLUSH:
                        self._brokers(topics, policy)
            say(f"round {number} of {rounds} done")
        if "many" in parts:
            for queues in (10_000,) if quick else MANY:
                for place, policy in (("disk", "none"),) if quick else (("disk", "none"), ("memory", "none")):
                    self._in_turns(Case("many", place, policy, "", 0, queues), SMALL, rocksdb=queues == MANY[-1])

    def _stores(self, counts: tuple[int, ...], *, quick: bool) -> None:
        for topics in counts:
            queues = topics * QUEUES_PER_TOPIC
            self._in_turns(Case("stores", "disk", "none", "", 0, queues), SMALL if quick else BOTH)
            if not quick or topics == counts[-1]:
                self._in_turns(Case("stores", "disk", "500 ms", "", 0, queues), SMALL)
            if not quick:
                self._in_turns(Case("stores", "memory", "none", "", 0, queues), SMALL)

    def _in_turns(self, case: Case, cells: tuple[Cell, ...], *, rocksdb: bool = False) -> None:
        """The same case with every store, one after the other."""
        queues = ("--queues", case.queues)
        jvm = peer.measured_jvm(machine.peer_heap())

        def java(program: str, name: str, settings: dict[str, str]) -> Callable[[Path], tuple[str, ...]]:
            def words(store: Path) -> tuple[str, ...]:
                given = (store / "store", *queues, *assignments(settings))
                return peer.java_words(program, store, f"reput.peer.{name}", *map(str, given), jvm=jvm)

            return words

        def ours(store: Path) -> tuple[str, ...]:
            given = (store / "store", *queues, *assignments(LOG_FLUSH[case.policy]))
            return (sys.executable, str(Path(__file__).with_name("topics_side.py")), *map(str, given))

        rocketmq = LOG_FLUSH[case.policy] | QUEUE_FLUSH[case.policy]
        columns = tuple(Cell("columns", cell.body) for cell in cells if cell.mode == "batch")
        sides = [
            partial(self._measure, "RocketMQ", case, cells, java("store", "BenchTopics", rocketmq)),
            partial(self._measure, "Kafka", case, cells, java("kafka", "KafkaTopics", KAFKA_FLUSH[case.policy])),
            partial(self._measure, "reput", case, (*cells, *columns), ours),
        ]
        if rocksdb:
            words = java("store", "BenchTopics", rocketmq | ROCKSDB)
            sides.append(partial(self._measure, "RocketMQ, RocksDB", case, cells, words))
        for measure in self._in_order(sides):
            measure()

    def _in_order(self, sides: list[Side]) -> list[Side]:
        """The sides, of which another one is the first in each round."""
        first = self.round % len(sides)
        return sides[first:] + sides[:first]

    def _measure(
        self, side: str, case: Case, cells: tuple[Cell, ...], command: Callable[[Path], tuple[str, ...]]
    ) -> None:
        parent = self.memory if case.place == "memory" else self.disk
        with new_folder(parent) as folder:
            self._ask(side, case, cells, command(folder))

    def _ask(self, side: str, case: Case, cells: tuple[Cell, ...], command: tuple[str, ...]) -> None:
        os.sync()  # what an earlier run left unwritten must not slow this one down
        rates: list[tuple[Cell, float]] = []
        with running(command) as turn:
            try:
                turn.opened()
                for cell in cells:
                    is_first = cell == next(one for one in cells if one.mode == cell.mode)
                    warm_up_ms = self.warm_up_ms if is_first else self.warm_up_ms // 3
                    if case.part != "brokers" and case.place == "disk":
                        os.sync()
                    each = int(case.queues <= EACH_MAX)
                    answer = turn.ask(f"{cell.mode} {cell.body} {warm_up_ms} {self.ms} {BYTES_MAX} {each}")
                    rates.append((cell, answer["messages"] / answer["seconds"]))
                turn.end()
            except SideError as problem:
                # What it put is not worth a rate.
                rates.clear()
                self.problems.append(f"{topics_report.title(case)}, {case.queues:,} queues: {side}: {problem}")
                say(self.problems[-1])
        for cell, rate in rates:
            self._keep(side, case, cell, rate)

    def _keep(self, side: str, case: Case, cell: Cell, rate: float) -> None:
        if cell.mode == "columns":
            cell, side = Cell("batch", cell.body), f"{side}, columns"
        key = case._replace(mode=cell.mode, body=cell.body)
        line = self.lines.setdefault(key, Line(topics_report.line_name(key), "messages/s"))
        if side == "RocketMQ":
            line.peer.append(rate)
        elif side == "reput":
            line.ours.append(rate)
        else:
            line.others.setdefault(side, []).append(rate)
        say(f"{topics_report.title(key)}: {line.name}: {side} {rate:,.0f}/s")

    def _brokers(self, topics: int, policy: str) -> None:
        case = Case("brokers", "disk", policy, "", 0, topics * QUEUES_PER_TOPIC)
        rocketmq = LOG_FLUSH[policy] | QUEUE_FLUSH[policy]
        served = partial(self._served, case)
        sides = [
            partial(served, "RocketMQ", partial(rocketmq_side, has_pages=True), rocketmq),
            partial(served, "reput", reput_side, LOG_FLUSH[policy]),
            partial(self._served_by_kafka, case),
        ]
        for measure in self._in_order(sides):
            measure()

    def _served(self, case: Case, side: str, serve: Any, settings: dict[str, str]) -> None:
        names = {f"bench-{number:04d}": QUEUES_PER_TOPIC for number in range(case.queues // QUEUES_PER_TOPIC)}
        with new_folder(self.disk) as folder, serve(folder, settings) as (serving, process, _):
            make_topics(serving, names)
            words = ("reput.peer.RocketSending", serving.namesrv, NAME, "--queues", str(case.queues))
            self._ask(side, case, SMALL, peer.java_words("broker", folder, *words, jvm=peer.measured_jvm("1g")))
            process.kill()  # RocketMQ waits for its next sync, which may be an hour away

    def _served_by_kafka(self, case: Case) -> None:
        with new_folder(self.disk) as folder, kafka_side(folder, KAFKA_FLUSH[case.policy]) as address:
            words = ("reput.peer.KafkaSending", address, "--queues", str(case.queues))
            self._ask("Kafka", case, SMALL, peer.java_words("kafka", folder, *words, jvm=peer.measured_jvm("1g")))


class Turn(NamedTuple):
    """A side's process, which answers a line with a line."""

    process: subprocess.Popen[str]
    errors: Path

    def opened(self) -> None:
        """Wait until all queues are open.

        Raises:
            SideError: they cannot be opened.
        """
        answer = self.answer()
        if "problem" in answer:
            raise SideError(f"{answer['queues']:,} queues, then: {in_short(answer['problem'])}")

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line; return its answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        """Say that there is nothing more to do, and look whether all is there.

        Raises:
            SideError: its queues do not have what was put.
        """
        assert self.process.stdin is not None
        self.process.stdin.close()
        ended = self.answer()
        if ended["put"] != ended["stored"]:
            raise SideError(f"{ended['put']:,} messages were put, its queues have {ended['stored']:,}")

    def answer(self) -> dict[str, Any]:
        """Wait for a line.

        Raises:
            SideError: none came, because the process ended or took too long.
        """
        assert self.process.stdout is not None
        begin = time.monotonic()
        late = threading.Timer(ANSWER_TIMEOUT_S, self.process.kill)
        late.start()
        line = self.process.stdout.readline()
        late.cancel()
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        if time.monotonic() - begin >= ANSWER_TIMEOUT_S:
            raise SideError(f"no answer within {ANSWER_TIMEOUT_S:.0f} s")
        raise SideError(f"it ended: {in_short(self.errors.read_text(errors='replace'))}")


def in_short(problem: str) -> str:
    """Return the first line of what an exception of Java says, without the path of the store."""
    lines = [line for line in problem.splitlines() if re.search(r"(Exception|Error)\b", line)] or problem.splitlines()
    return re.sub(r"/\S*/store/", "", lines[0] if lines else "it said nothing")


@contextlib.contextmanager
def running(command: tuple[str, ...]) -> Iterator[Turn]:
    """Start a side; it is killed at the end, for nobody needs its store again."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        with errors.open("w") as stderr:
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, env=runs.side_environment()
            )
        try:
            yield Turn(process, errors)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


@contextlib.contextmanager
def new_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder, which is removed afterwards."""
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a broker that was killed may just be writing


def assignments(settings: dict[str, str]) -> list[str]:
    """Options for the settings of a side."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def main() -> int:
    """Measure, print, save; exit status 2 where a peer cannot run."""
    quick, rounds, parts = asked.is_quick(), asked.rounds(), asked.parts(PARTS)
    if runs.lacks_peer("store", "broker", "kafka"):
        return 2
    ms, warm_up_ms = (round(asked.amount(*given) * 1000) for given in (("SECONDS", 1.5, 0.5), ("WARM_UP", 3, 1)))
    memory = Path(os.environ.get("MEMORY_DIR", "/dev/shm"))
    with asked.work_folder("topics") as disk, asked.work_folder("topics", memory) as shared:
        bench = Bench(disk, shared, ms, warm_up_ms)
        bench.run(rounds, parts, quick=quick)
    about = machine.environment("bench-topics", SETTINGS, rounds)
    about |= {"kafka": peer.version_of("kafka"), **machine.limits()}
    topics_report.report(about, bench.lines, bench.problems).publish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
