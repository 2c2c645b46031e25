"""The sides of the Parquet benchmark, one thing a process: `parquet_side.py COMMAND ...`; prints one JSON line.

measure STORE --small SMALL --folder F --rounds N --begin-ms B --end-ms E
                                        seconds of reput's reading, beside Spark's own of the same columns in Parquet
write F --part K --parts N              seconds in which pyarrow writes that share of the messages in F; it prints a
                                        line when they are in memory, and begins when stdin has one
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import reput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

SCAN = ("storeSize",)
HEADS = ("topic", "queueId", "queueOffset", "storeTimestamp", "storeSize", "keys", "tags")
WRITTEN = ("topic", "body", "queueId", "queueOffset", "storeTimestamp", "keys", "tags")
ALL = tuple(dict.fromkeys((*WRITTEN, *HEADS)))
TOPIC = "bench-0003"


def plain_session() -> SparkSession:
    """A session as users have one."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    reput.register(session)
    return session


class Reading:
    """The questions of the benchmark to one store, each beside the same one to the messages in Parquet."""

    def __init__(self, session: SparkSession, store: Path, folder: Path, window_ms: tuple[int, int]) -> None:
        self.session = session
        self.store = store
        self.folder = folder
        self.window_ms = window_ms

    def prepare(self) -> None:
        """Write the messages as Parquet, whole."""
        self._frame(ALL).write.mode("overwrite").option("compression", "zstd").parquet(str(self.folder))

    def questions(self) -> dict[str, Callable[[], int]]:
        """Return the questions by name; `NAME beside` is the one beside NAME. Each returns the messages that it saw."""
        return {
            "scan": lambda: _total(self._frame(SCAN)),
            "scan beside": lambda: _total(self._through_python(SCAN)),
            "heads": lambda: self._drop(self._frame(HEADS)),
            "heads beside": lambda: self._drop(self._through_python(HEADS)),
            "export": self._export,
            "write": self._write,
            "narrow": self._narrow,
        }

    def _frame(self, columns: tuple[str, ...]) -> DataFrame:
        return self.session.read.format("rocketmq").option("columns", ",".join(columns)).load(str(self.store))

    def _through_python(self, columns: tuple[str, ...]) -> DataFrame:
        frame = self.session.read.parquet(str(self.folder)).select(*columns)
        return frame.mapInArrow(_same, frame.schema)

    @staticmethod
    def _drop(frame: DataFrame) -> int:
        """Let Spark make all rows and keep none; return their number."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        frame.observe(seen, f.count(f.lit(1)).alias("messages")).write.format("noop").mode("overwrite").save()
        return int(seen.get["messages"])

    def _export(self) -> int:
        target = self._new_folder("exported")
        return reput.export(self.store, target, spark=self.session, columns=WRITTEN).messages

    def _write(self) -> int:
        target = self._new_folder("written")
        self._frame(WRITTEN).write.option("compression", "zstd").parquet(str(target))
        return self.session.read.parquet(str(target)).count()

    def _new_folder(self, name: str) -> Path:
        for found in self.folder.parent.glob(f"*{name}*"):
            shutil.rmtree(found)
        return self.folder.parent / name

    def _narrow(self) -> int:
        begin_ms, end_ms = self.window_ms
        frame = self._frame(("topic", "storeTimestamp", "storeSize"))
        between = f"storeTimestamp >= timestamp_millis({begin_ms}) AND storeTimestamp < timestamp_millis({end_ms})"
        return _total(frame.where(f"topic = '{TOPIC}' AND {between}"))


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _total(frame: DataFrame) -> int:
    row = frame.selectExpr("count(*) AS messages", "sum(storeSize) AS bytes").first()
    assert row is not None
    return int(row["messages"])


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Ask everything in turns, each once before of a small store."""
    session, folder = plain_session(), Path(args.folder)
    window_ms = args.begin_ms, args.end_ms
    small = Reading(session, Path(args.small), folder.with_name("small") / "messages", window_ms)
    small.prepare()
    for ask in small.questions().values():
        ask()
    reading = Reading(session, Path(args.store), folder, window_ms)
    reading.prepare()
    questions = reading.questions()
    seconds: dict[str, list[float]] = {name: [] for name in questions}
    messages = {}
    for number in range(args.rounds):
        for name, ask in questions.items():
            begin = time.perf_counter()
            messages[name] = ask()
            seconds[name].append(time.perf_counter() - begin)
        shown = ", ".join(f"{name} {values[-1]:.2f} s" for name, values in seconds.items())
        print(f"round {number + 1} of {args.rounds}: {shown}", file=sys.stderr)
    return {"seconds": seconds, "messages": messages}


def write(args: argparse.Namespace) -> dict[str, Any]:
    """Write a share of the messages with pyarrow on one core; an export has the topic in a folder's name."""
    pa.set_cpu_count(1)
    files = sorted(Path(args.store).glob("*.parquet"))
    groups = [(file, group) for file in files for group in range(pq.ParquetFile(file).num_row_groups)]
    mine = groups[args.part :: args.parts]
    tables = [pq.ParquetFile(file).read_row_group(group, columns=list(WRITTEN[1:])) for file, group in mine]
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    target = Path(args.store).parent / f"pyarrow-{args.part}"
    target.mkdir()
    begin = time.perf_counter()
    for number, table in enumerate(tables):
        pq.write_table(table, target / f"{number}.parquet", compression="zstd")
    seconds = time.perf_counter() - begin
    shutil.rmtree(target)
    return {"seconds": seconds, "messages": sum(map(len, tables))}


def main() -> None:
    """Run one command and print its report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["measure", "write"])
    parser.add_argument("store")
    for name in ("small", "folder"):
        parser.add_argument(f"--{name}")
    for name in ("rounds", "part", "parts", "begin-ms", "end-ms"):
        parser.add_argument(f"--{name}", type=int, default=0)
    args = parser.parse_args()
    print(json.dumps({"measure": measure, "write": write}[args.command](args)), flush=True)


if __name__ == "__main__":
    main()
