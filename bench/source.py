"""Reading a store with Spark: whole scans, one topic and minute, a key, and bodies into Parquet.

    make bench-source                    16 million messages in 64 queues, about 4.7 GB
    MILLIONS=1 make bench-source         a quick look

The store is written once into bench/work/ by our own writer, its clock moved so that 100 minutes pass. Every question
is asked several times in one session: the first pays for Spark's and the workers' start, the last ones are warm. The
best of the warm ones is reported, with what the planner says it read.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from machine import environment, say

import reput
from reput.connect.plan import explain
from reput.log import append

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

WORK = Path(os.environ.get("WORK") or Path(__file__).parent / "work")
RESULT = Path(__file__).parent / "results" / "source.json"
BEGIN_MS, MINUTES = 1_700_000_000_000, 100
BATCHES = 400
TOPICS, QUEUES = 8, 8
ROUNDS = 4
SCAN_COLUMNS = "topic,storeSize"
LAKE_COLUMNS = "topic,queueId,queueOffset,storeTimestamp,body,tags,keys"


def main() -> int:
    """Write the store where it is not there, ask, and report."""
    messages = int(float(os.environ.get("MILLIONS", "16")) * 1_000_000)
    store = WORK / f"source-{messages}"
    if not (store / "written").exists():
        write(store, messages)
    spark = session()
    reput.register(spark)
    found = [measured(name, rounds, question, messages) for name, rounds, question in questions(spark, store)]
    about = {**environment("bench-source", ("MILLIONS",), ROUNDS), "messages": messages, "queues": TOPICS * QUEUES}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"environment": about, "results": found}, indent=1))
    spark.stop()
    return 0


def session() -> SparkSession:
    """A session as users have them: Spark's own settings, two cores."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("bench-source").config("spark.driver.memory", "2g")
    return builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()


def write(store: Path, messages: int) -> None:
    """Write the store and its indexes."""
    say(f"writing {messages} messages to {store}")
    shutil.rmtree(store, ignore_errors=True)
    clock = [BEGIN_MS]
    append._time_ns = lambda: clock[0] * 1_000_000  # noqa: SLF001 - the only way to let 100 minutes pass at once
    chance = np.random.default_rng(7)
    bodies = pa.array([chance.integers(32, 127, 100, dtype=np.uint8).tobytes() for _ in range(1000)], pa.binary())
    names = pa.array([f"topic-{number}" for number in range(TOPICS)])
    step = -(-messages // BATCHES)
    with reput.MessageStore.open(store) as opened:
        for number, first in enumerate(range(0, messages, step)):
            at = np.arange(first, min(messages, first + step))
            text = pa.array(at).cast(pa.string())
            opened.put_messages(
                pa.table(
                    {
                        "topic": pa.DictionaryArray.from_arrays(pa.array((at % TOPICS).astype(np.int32)), names),
                        "queue_id": pa.array((at // TOPICS % QUEUES).astype(np.int32)),
                        "body": bodies.take(pa.array(at % 1000)),
                        "tags": pa.array(["paid", "sent", "made"]).take(pa.array(at % 3)),
                        "keys": pc.binary_join_element_wise("k", text, "-"),
                        "unique_key": pc.binary_join_element_wise("7F00000100002A9F0000000000", text, ""),
                    }
                )
            )
            clock[0] = BEGIN_MS + (number + 1) * MINUTES * 60_000 // BATCHES
            if number % 50 == 49:
                opened.reput(spark=False)
    (store / "written").touch()


Question = tuple[str, int, "Callable[[], tuple[dict[str, str], Any]]"]


def questions(spark: SparkSession, store: Path) -> list[Question]:
    """Name, rounds, and what asks: it returns the options for the planner, and the answer."""
    minute = BEGIN_MS + MINUTES // 2 * 60_000
    within = f"storeTimestamp >= timestamp_millis({minute}) AND storeTimestamp < timestamp_millis({minute + 60_000})"
    lake = WORK / "source.parquet"

    def ask(options: dict[str, str], run: Callable[[Any], Any]) -> tuple[dict[str, str], Any]:
        return {**options, "path": str(store)}, run(spark.read.format("rocketmq").options(**options).load(str(store)))

    def counted(frame: Any) -> Any:
        return frame.selectExpr("count(*)", "sum(storeSize)").collect()

    def to_lake(frame: Any) -> Any:
        frame.write.mode("overwrite").parquet(str(lake))
        size = sum(file.stat().st_size for file in lake.rglob("*.parquet"))
        shutil.rmtree(lake)
        return size

    return [
        ("count and sizes of all", ROUNDS, lambda: ask({"columns": SCAN_COLUMNS}, counted)),
        (
            "one topic, one minute",
            ROUNDS,
            lambda: ask({"topic": "topic-3"}, lambda frame: counted(frame.where(within))),
        ),
        ("one key", ROUNDS, lambda: ask({"keys": "k-777"}, lambda frame: frame.select("topic", "body").collect())),
        ("bodies into Parquet", 2, lambda: ask({"columns": LAKE_COLUMNS}, to_lake)),
    ]


def measured(
    name: str, rounds: int, question: Callable[[], tuple[dict[str, str], Any]], messages: int
) -> dict[str, Any]:
    """Ask several times; seconds of each, and the best of the warm ones."""
    seconds = []
    options, answer = {}, None
    for _ in range(rounds):
        begin = time.perf_counter()
        options, answer = question()
        seconds.append(round(time.perf_counter() - begin, 3))
    best = min(seconds[1:])
    say(f"{name}: {best} s warm ({messages / best / 1e6:.2f} M messages/s of the store), first {seconds[0]} s")
    return {"name": name, "seconds": seconds, "best_warm": best, "answer": str(answer)[:200], "plan": explain(options)}


if __name__ == "__main__":
    sys.exit(main())
